//! Data parallel: every device holds the model and a part of the batch.
//!
//! The program equals the one for a single device. The loss is a mean over the whole batch, so the
//! compiler sums the gradients of all parts with an all-reduce of the size of the parameters.

use super::model::Model;
use super::train::Recipe;
use oxidax::prelude::*;
use std::sync::Arc;

pub fn recipe<M: Model>(devices: &[Device]) -> Result<Recipe<M>, Error> {
    Ok(Recipe {
        mesh: Mesh::new(devices, [("data", devices.len())])?,
        rules: PartitionRules::default(),
        batch: p!["data"],
        loss: Arc::new(M::loss),
    })
}
