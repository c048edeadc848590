//! Fully sharded data parallel (ZeRO-3): besides the batch, parameters and optimizer state are cut over all devices.
//!
//! Each device keeps one part of every array. Where a step needs a parameter it is put together (all-gather), used, and
//! thrown away; its gradient, added up over the parts of the batch, is cut again, and each device updates the part
//! that it keeps.
//!
//! Rajbhandari, Rasley, Ruwase, He: ZeRO: memory optimizations toward training trillion parameter models (2020).

use super::model::Model;
use super::train::Recipe;
use oxidax::prelude::*;
use std::sync::Arc;

pub(crate) fn recipe<M: Model>(devices: &[Device], model: &M) -> Result<Recipe<M>, Error> {
    let mesh = Mesh::new(devices, [("data", devices.len())])?;
    let whole = mesh.replicated();
    Ok(Recipe {
        rules: rules(model, devices.len()),
        mesh,
        batch: p!["data"],
        // Without this line the compiler may cut what it computes along a parameter's axis in place of the batch's.
        loss: Arc::new(move |model: &M, batch| with_sharding_constraint(model, &whole).loss(batch)),
    })
}

/// Every leaf cut along its longest axis that can be; what cannot be cut is whole everywhere.
fn rules<T: Tree>(model: &T, parts: usize) -> PartitionRules {
    let leaves = tree::paths(model).into_iter().zip(tree::leaves(model));
    PartitionRules::new(leaves.map(|(path, leaf)| {
        let shape = leaf.shape();
        let fits = (0..shape.rank()).filter(|&at| shape[at].is_multiple_of(parts));
        let spec = match fits.max_by_key(|&at| shape[at]) {
            None => p![],
            Some(cut) => {
                let axes = (0..=cut).map(|at| (at == cut).then_some("data").into());
                PartitionSpec(axes.collect())
            }
        };
        (format!("*{path}"), spec)
    }))
}
