//! Stopping at the first non-finite loss, with the inputs that caused it.

use super::metric::Metric;
use super::{local_path, make_parent, object_at};
use crate::checkpoint;
use crate::core::{Array, Error, Loc};
use crate::tree::{self, Tree};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Watches losses without waiting for them. At the first NaN or infinity it saves the inputs of
/// that step and returns an error.
///
/// The inputs of a step are kept until its loss has been read. Kept arrays cannot be donated, so a
/// guarded step needs memory for a second copy of its state.
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
/// To reproduce the step: load the inputs with `checkpoint::load(path, &inputs)` into a tree of the
/// same type, and run the step under [`debug::nan_check`](crate::debug::nan_check), which names the
/// operation.
#[derive(Debug)]
pub struct NanGuard<T> {
    path: PathBuf,
    watched: VecDeque<(u64, T, Metric)>,
}

/// The number of steps whose inputs are kept if the device is behind.
const MAX_KEPT_STEPS: usize = 2;

impl<T: Tree> NanGuard<T> {
    /// Creates a guard that saves to `path` if necessary.
    pub fn new(path: impl AsRef<Path>) -> NanGuard<T> {
        NanGuard { path: path.as_ref().to_path_buf(), watched: VecDeque::new() }
    }

    /// Watches the loss of a step, and checks losses of earlier steps that are available.
    ///
    /// # Errors
    /// `Data` if a loss is NaN or infinite, with the step and the file with its inputs. `Io` or
    /// `Checkpoint` if they cannot be saved. `Runtime` if a step failed.
    pub fn check(&mut self, step: u64, inputs: T, loss: &Array) -> Result<(), Error> {
        let loss = Metric::from(loss).checked("check", "loss")?;
        self.watched.push_back((step, inputs, loss));
        while let Some((_, _, loss)) = self.watched.front() {
            if self.watched.len() <= MAX_KEPT_STEPS && !loss.is_ready()? {
                break;
            }
            self.look()?;
        }
        Ok(())
    }

    /// Waits for the remaining losses and checks them.
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
        if object_at(&self.path)?.is_none() {
            make_parent(&local_path(&self.path)?)?;
        }
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
            loc: Loc::UNKNOWN,
            help: Some(format!(
                "they are saved in {}: load them and run the step under `debug::nan_check`",
                self.path.display()
            )),
        })
    }
}
