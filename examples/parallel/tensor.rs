//! Tensor parallel as in Megatron: layers are split, alone or together with the batch.
//!
//! Of two consecutive linear layers, the first is split by columns, so each device computes some
//! features from the whole input. The second is split by rows, so it needs only these features.
//! Attention heads or an activation in between stay on the device. The results of the second layer
//! are partial sums: each pair of layers has one all-reduce forward and one backward.
//!
//! Shoeybi et al.: Megatron-LM: training multi-billion parameter language models using model
//! parallelism (2019).

use super::model::Model;
use super::train::Recipe;
use oxidax::prelude::*;
use std::sync::Arc;

/// Splits queries, keys and values by heads, and feed-forward layers by features.
fn rules() -> PartitionRules {
    let mut rules = Vec::new();
    for first in ["query", "key", "value", "layers[0]"] {
        rules.push((format!("*blocks*{first}.weight"), p![None, "model"]));
        rules.push((format!("*blocks*{first}.bias"), p!["model"]));
    }
    for second in ["out", "layers[1]"] {
        // The bias is replicated: it is added once, to the sum.
        rules.push((format!("*blocks*{second}.weight"), p!["model", None]));
    }
    PartitionRules::new(rules)
}

/// All devices share every layer and process the whole batch.
pub fn recipe<M: Model>(devices: &[Device]) -> Result<Recipe<M>, Error> {
    Ok(Recipe {
        mesh: Mesh::new(devices, [("model", devices.len())])?,
        rules: rules(),
        batch: p![],
        loss: Arc::new(M::loss),
    })
}

/// Groups of `model` devices share the layers, and each group has a part of the batch. This suits a
/// cluster of machines with several devices each, which communicate faster within a machine.
pub fn with_data<M: Model>(devices: &[Device], model: usize) -> Result<Recipe<M>, Error> {
    Ok(Recipe {
        mesh: Mesh::new(devices, [("data", devices.len() / model), ("model", model)])?,
        rules: rules(),
        batch: p!["data"],
        loss: Arc::new(M::loss),
    })
}
