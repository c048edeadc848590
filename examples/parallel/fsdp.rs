//! Fully sharded data parallel (ZeRO-3): the batch, parameters and optimizer state are split over
//! all devices.
//!
//! Each device stores one shard of every array. A step gathers a parameter where it needs it
//! (all-gather) and discards it after use. Gradients are summed over the batch and split again, and
//! each device updates its own shards.
//!
//! Rajbhandari, Rasley, Ruwase, He: ZeRO: memory optimizations toward training trillion parameter
//! models (2020).

use super::model::Model;
use super::train::Recipe;
use oxidax::prelude::*;
use std::sync::Arc;

pub fn recipe<M: Model>(devices: &[Device], model: &M) -> Result<Recipe<M>, Error> {
    let mesh = Mesh::new(devices, [("data", devices.len())])?;
    let whole = mesh.replicated();
    Ok(Recipe {
        rules: rules(model, devices.len()),
        mesh,
        batch: p!["data"],
        // Without the constraint, the compiler may split the computation along a parameter's axis
        // instead of the batch axis.
        loss: Arc::new(move |model: &M, batch| with_sharding_constraint(model, &whole).loss(batch)),
    })
}

/// Splits every leaf along its longest divisible axis; other leaves are replicated.
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
