//! Training steps and inference of the models in `python-compat/models_bench.py`, with the same
//! numbers.

pub mod bert;
pub mod clock;
mod drawn;
pub mod gpt2;
pub mod mlp;
pub mod numbers;
pub mod resnet;
pub mod serve;

use anyhow::{Context as _, Result};
use oxidax::prelude::*;
pub use serve::{Call, Model};

/// Repeats a training step. The state is passed by value, so its memory is reused.
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
