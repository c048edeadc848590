//! Data parallel: every device has the whole model and a part of the batch.
//!
//! The program is the one for one device. The mean of the loss goes over the whole batch, so the compiler adds up the
//! gradients of all parts: an all-reduce, as long as the parameters.

use super::model::Model;
use super::train::Recipe;
use oxidax::prelude::*;
use std::sync::Arc;

pub(crate) fn recipe<M: Model>(devices: &[Device]) -> Result<Recipe<M>, Error> {
    Ok(Recipe {
        mesh: Mesh::new(devices, [("data", devices.len())])?,
        rules: PartitionRules::default(),
        batch: p!["data"],
        loss: Arc::new(M::loss),
    })
}
