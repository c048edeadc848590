//! Products with groups, local convolutions, triangular products and random bits.

use crate::lax::convolution;
use crate::ops::{dtype, list};
use oxidax::prelude::*;
use oxidax::primitives::{DotGeneral, RandomAlgorithm, rng_bit_generator};
use serde_json::Value;

fn ragged(params: &Value) -> RaggedDot {
    let axes = |name: &str, side: usize| list(&params[name][side]);
    RaggedDot {
        dot: DotGeneral {
            lhs_contracting: axes("contracting", 0),
            rhs_contracting: axes("contracting", 1),
            lhs_batch: axes("batch", 0),
            rhs_batch: axes("batch", 1),
            ..DotGeneral::default()
        },
        lhs_ragged: params["ragged"].as_u64().unwrap() as usize,
        rhs_group: params["group"].as_u64().map(|axis| axis as usize),
    }
}

fn algorithm(params: &Value) -> RandomAlgorithm {
    match params["algorithm"].as_str() {
        Some("three_fry") => RandomAlgorithm::ThreeFry,
        Some("philox") => RandomAlgorithm::Philox,
        _ => RandomAlgorithm::Default,
    }
}

pub(crate) fn apply(op: &str, params: &Value, operands: &[Array]) -> Option<Vec<Array>> {
    Some(match (op, operands) {
        ("ragged_dot", [x, y, sizes]) => vec![ragged_dot(x, y, sizes)],
        ("ragged_dot_general", [x, y, sizes]) => {
            vec![ragged_dot_general(x, y, sizes, &ragged(params))]
        }
        ("conv_general_dilated_local", [x, y]) => {
            let filter = list(&params["filter_shape"]);
            vec![conv_general_dilated_local(x, y, &filter, &convolution(params))]
        }
        ("mulhi", [x, y]) => vec![mulhi(x, y)],
        ("rng_bit_generator", [state]) => {
            let kind = dtype(&params["dtype"]);
            let shape = list(&params["shape"]);
            let (state, bits) = rng_bit_generator(state, shape, kind, algorithm(params));
            vec![state, bits]
        }
        _ => return None,
    })
}
