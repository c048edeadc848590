//! Primitives that move elements: shapes, slices, gather, scatter and sorting.

use crate::ops::{axes, dtype, list, whole};
use oxidax::core::{bind, bind1};
use oxidax::prelude::*;
use oxidax::primitives::{
    Combiner, Gather, GatherDimensionNumbers, GatherScatterMode, PaddingDim, Scatter,
    ScatterDimensionNumbers, Sort,
};
use serde_json::Value;

fn padding(config: &Value) -> Vec<PaddingDim> {
    let dim = |dim: &Value| PaddingDim {
        low: isize::try_from(whole(&dim[0])).unwrap(),
        high: isize::try_from(whole(&dim[1])).unwrap(),
        interior: usize::try_from(whole(&dim[2])).unwrap(),
    };
    config.as_array().unwrap().iter().map(dim).collect()
}

fn mode(params: &Value) -> GatherScatterMode {
    match params["mode"].as_str() {
        Some("promise_in_bounds") => GatherScatterMode::PromiseInBounds,
        Some("clip") => GatherScatterMode::Clip,
        Some("fill_or_drop") => GatherScatterMode::FillOrDrop,
        other => panic!("no mode is called {other:?}"),
    }
}

fn gathered(x: &Array, indices: &Array, params: &Value) -> Array {
    let gather = Gather {
        dimension_numbers: GatherDimensionNumbers {
            offset_dims: list(&params["offset_dims"]),
            collapsed_slice_dims: list(&params["collapsed_slice_dims"]),
            start_index_map: list(&params["start_index_map"]),
            operand_batching_dims: list(&params["operand_batching_dims"]),
            start_indices_batching_dims: list(&params["start_indices_batching_dims"]),
        },
        slice_sizes: list(&params["slice_sizes"]),
        unique_indices: false,
        indices_are_sorted: false,
        mode: mode(params),
        fill_value: params["fill_value"].as_i64().map(Scalar::from),
    };
    bind1(gather, [x, indices])
}

fn scattered(op: &str, operands: [&Array; 3], params: &Value) -> Array {
    let [x, updates, indices] = operands;
    let scatter = Scatter {
        dimension_numbers: ScatterDimensionNumbers {
            update_window_dims: list(&params["update_window_dims"]),
            inserted_window_dims: list(&params["inserted_window_dims"]),
            scatter_dims_to_operand_dims: list(&params["scatter_dims_to_operand_dims"]),
            operand_batching_dims: list(&params["operand_batching_dims"]),
            scatter_indices_batching_dims: list(&params["scatter_indices_batching_dims"]),
        },
        combiner: match op {
            "scatter" => Combiner::Update,
            "scatter_add" => Combiner::Add,
            "scatter_mul" => Combiner::Mul,
            "scatter_min" => Combiner::Min,
            _ => Combiner::Max,
        },
        // For the other operations JAX had no such promise, and clamped indices would break it.
        unique_indices: op == "scatter_mul" && params["unique_indices"].as_bool().unwrap(),
        indices_are_sorted: false,
        mode: mode(params),
    };
    bind1(scatter, [x, indices, updates])
}

/// Returns the results if the case belongs to this family.
pub(crate) fn apply(op: &str, params: &Value, operands: &[Array]) -> Option<Vec<Array>> {
    let result = match (op, operands) {
        ("broadcast_in_dim", [x]) => {
            broadcast_in_dim(x, list(&params["shape"]), &list(&params["broadcast_dimensions"]))
        }
        ("reshape", [x]) => reshape(x, list(&params["new_sizes"])),
        ("transpose", [x]) => transpose(x, &list(&params["permutation"])),
        ("rev", [x]) => rev(x, &axes(&params["dimensions"])),
        ("iota", []) => {
            let dimension = usize::try_from(whole(&params["dimension"])).unwrap();
            broadcasted_iota(dtype(&params["dtype"]), list(&params["shape"]), dimension)
        }
        ("pad", [x, value]) => lax_pad(x, value, &padding(&params["padding_config"])),
        ("concatenate", xs) => {
            concatenate(xs, isize::try_from(whole(&params["dimension"])).unwrap())
        }
        ("slice", [x]) => {
            let strides = match &params["strides"] {
                Value::Null => vec![1; x.rank()],
                strides => list(strides),
            };
            slice(x, &list(&params["start_indices"]), &list(&params["limit_indices"]), &strides)
        }
        ("dynamic_slice", [x, starts @ ..]) => {
            dynamic_slice(x, starts, list(&params["slice_sizes"]))
        }
        ("dynamic_update_slice", [x, update, starts @ ..]) => {
            dynamic_update_slice(x, update, starts)
        }
        ("bitcast_convert_type", [x]) => bitcast_convert_type(x, dtype(&params["new_dtype"])),
        ("gather", [x, indices]) => gathered(x, indices, params),
        (op, [x, updates, indices]) if op.starts_with("scatter") => {
            scattered(op, [x, updates, indices], params)
        }
        ("sort", xs) => {
            let sort = Sort {
                dimension: usize::try_from(whole(&params["dimension"])).unwrap(),
                is_stable: params["is_stable"].as_bool().unwrap(),
                num_keys: usize::try_from(whole(&params["num_keys"])).unwrap(),
            };
            return Some(bind(sort, &xs.iter().collect::<Vec<_>>()));
        }
        _ => return None,
    };
    Some(vec![result])
}
