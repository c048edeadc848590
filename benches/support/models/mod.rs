//! Models that do a step, or an answer, at a time: the same as those of `python-compat/models_bench.py`, with
//! the same numbers in them.

pub mod bert;
pub mod clock;
mod drawn;
pub mod gpt2;
pub mod mlp;
pub mod numbers;
pub mod resnet;

use anyhow::{Context as _, Result};
use oxidax::prelude::*;

/// Computes once, waits for it, and gives some of the numbers that came out: a loss, or a part of the answer.
pub type Call = Box<dyn FnMut() -> Result<Vec<f64>>>;

/// A model that is ready to run; nothing is compiled yet.
pub struct Model {
    /// How many numbers are trained.
    pub parameters: usize,
    pub call: Call,
}

/// A training step, over and over: what it takes over from the step before goes into it by value, so its memory
/// is the next one's.
pub fn trained<S: 'static>(
    start: S,
    mut step: impl FnMut(S) -> Result<(S, Array)> + 'static,
) -> Call {
    let mut state = Some(start);
    Box::new(move || {
        let (next, loss) = step(state.take().context("an earlier step failed")?)?;
        state = Some(next);
        Ok(vec![f64::from(loss.item::<f32>()?)])
    })
}
