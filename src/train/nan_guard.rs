//! Stopping at the first loss that is no number, with what led to it.

use super::make_parent;
use super::number::Metric;
use crate::checkpoint;
use crate::core::{Array, Error};
use crate::tree::{self, Tree};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Watches losses without waiting for them; at the first that is NaN or infinite it saves the inputs of that step
/// and is an error.
///
/// The inputs of a step are held until its loss has been read. Arrays that are held are not donated, so a guarded
/// step takes the memory of a second copy of what it updates.
///
/// ```no_run
/// use oxidax::prelude::*;
/// use oxidax::train::NanGuard;
/// let step = jit(|w: Array| {
///     let (loss, gradient) = value_and_grad(|w: &Array| (w * w).sum())(&w);
///     (w - gradient * 1.5, loss)
/// });
/// let mut guard = NanGuard::new("nan.safetensors");
/// let mut w = full([3], 1f32);
/// for number in 0..200 {
///     let inputs = w.clone();
///     let loss;
///     (w, loss) = step.call(w)?;
///     guard.check(number, inputs, &loss)?; // error[data]: check: the loss of step 128 is inf …
/// }
/// guard.finish()?;
/// # Ok::<(), Error>(())
/// ```
///
/// To replay: `checkpoint::load(path, &inputs)` into a tree of the same type, and the step on it under
/// [`debug::nan_check`](crate::debug::nan_check), which names the operation.
#[derive(Debug)]
pub struct NanGuard<T> {
    path: PathBuf,
    watched: VecDeque<(u64, T, Metric)>,
}

/// How many steps' inputs are held at most, on a device that is that far behind.
const MOST_HELD: usize = 2;

impl<T: Tree> NanGuard<T> {
    /// Saves to `path` if it comes to that.
    pub fn new(path: impl AsRef<Path>) -> NanGuard<T> {
        NanGuard { path: path.as_ref().to_path_buf(), watched: VecDeque::new() }
    }

    /// Watches the loss of a step, and looks at those of earlier steps that have arrived.
    ///
    /// # Errors
    /// `Data` if a loss is NaN or infinite: names the step, and the file with its inputs. `Io` or `Checkpoint` if
    /// they cannot be saved; `Runtime` if a step failed.
    pub fn check(&mut self, step: u64, inputs: T, loss: &Array) -> Result<(), Error> {
        let loss = Metric::from(loss).checked("check", "loss")?;
        self.watched.push_back((step, inputs, loss));
        while let Some((_, _, loss)) = self.watched.front() {
            if self.watched.len() <= MOST_HELD && !loss.is_ready()? {
                break;
            }
            self.look()?;
        }
        Ok(())
    }

    /// Waits for the losses that are left, and looks at them.
    ///
    /// # Errors
    /// As [`check`](NanGuard::check).
    pub fn finish(mut self) -> Result<(), Error> {
        while !self.watched.is_empty() {
            self.look()?;
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), Error> {
        let Some((step, inputs, loss)) = self.watched.pop_front() else { return Ok(()) };
        let loss = loss.read()?;
        if loss.is_finite() {
            return Ok(());
        }
        make_parent(&self.path)?;
        checkpoint::save(&self.path, &inputs)?;
        let own = tree::paths(&inputs).into_iter().zip(tree::leaves(&inputs));
        let mut not_finite = Vec::new();
        for (path, leaf) in own.filter(|(_, leaf)| leaf.dtype().is_inexact()) {
            if !crate::nn::all_finite(&leaf).item::<bool>()? {
                not_finite.push(if path.is_empty() { "the input".to_owned() } else { path });
            }
        }
        let inputs = match not_finite.len() {
            0 => "all of its inputs are finite".to_owned(),
            _ => format!("not finite before it: {}", not_finite.join(", ")),
        };
        Err(Error::Data {
            doing: "check".into(),
            place: None,
            message: format!("the loss of step {step} is {loss}; {inputs}"),
            help: Some(format!(
                "they lie in {}: load them and run the step under `debug::nan_check`",
                self.path.display()
            )),
        })
    }
}
