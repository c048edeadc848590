//! Tensor parallel as in Megatron: the layers themselves are cut, alone or with the batch.
//!
//! Of two linear layers behind each other, the first is cut by columns, so that each device computes its own features
//! from the whole input; the second by rows, so that it takes just these. What is between them, attention by heads or
//! an activation, stays on the device. The second layer's results are parts of a sum: one all-reduce forward for each
//! pair, and one backward.
//!
//! Shoeybi et al.: Megatron-LM: training multi-billion parameter language models using model parallelism (2019).

use super::model::Model;
use super::train::Recipe;
use oxidax::prelude::*;
use std::sync::Arc;

/// Queries, keys and values by heads, the feed-forward by features.
fn rules() -> PartitionRules {
    let mut rules = Vec::new();
    for first in ["query", "key", "value", "layers[0]"] {
        rules.push((format!("*blocks*{first}.weight"), p![None, "model"]));
        rules.push((format!("*blocks*{first}.bias"), p!["model"]));
    }
    for second in ["out", "layers[1]"] {
        // Its bias is whole: it is added once, to the sum.
        rules.push((format!("*blocks*{second}.weight"), p!["model", None]));
    }
    PartitionRules::new(rules)
}

/// All devices share every layer; each sees the whole batch.
pub(crate) fn recipe<M: Model>(devices: &[Device]) -> Result<Recipe<M>, Error> {
    Ok(Recipe {
        mesh: Mesh::new(devices, [("model", devices.len())])?,
        rules: rules(),
        batch: p![],
        loss: Arc::new(M::loss),
    })
}

/// Groups of `model` devices share the layers, and each group has a part of the batch: what a cluster does whose
/// machines have several devices, which talk to each other faster than the machines do.
pub(crate) fn with_data<M: Model>(devices: &[Device], model: usize) -> Result<Recipe<M>, Error> {
    Ok(Recipe {
        mesh: Mesh::new(devices, [("data", devices.len() / model), ("model", model)])?,
        rules: rules(),
        batch: p!["data"],
        loss: Arc::new(M::loss),
    })
}
