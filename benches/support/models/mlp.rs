//! The training step of `support/mlp.rs` with reproducible numbers.

use super::{Model, drawn, trained};
use crate::mlp;
use anyhow::{Context as _, Result};
use oxidax::nn;
use oxidax::profile::LineProfile;

/// Measures the lines of the training step.
#[allow(dead_code, reason = "one benchmark measures single lines")]
pub fn line_profile() -> Result<LineProfile> {
    let (model, batch) = (drawn::tree(mlp::Mlp::new)?, mlp::batch()?);
    let state = mlp::optimizer().init(&model);
    let compiled = mlp::step().lower(&model, &state, &batch)?.compile()?;
    Ok(compiled.line_profile(&model, &state, &batch)?)
}

/// Returns a model that trains on the same batch in every call.
pub fn training() -> Result<Model> {
    let (model, batch) = (drawn::tree(mlp::Mlp::new)?, mlp::batch()?);
    let (parameters, state) = (nn::summary(&model).parameters(), mlp::optimizer().init(&model));
    let step = mlp::step();
    let call = trained((model, state), move |(model, state)| {
        let result = step.call(model, state, &batch).context("a step of the MLP")?;
        Ok(((result.0, result.1), result.2))
    });
    Ok(Model { parameters, call })
}
