//! Functions of `jax.lax`, `jax.nn` and `jax.scipy.special` that no other suite has.

use oxidax::prelude::*;
use oxidax::primitives::{
    Combiner, DotGeneral, GatherScatterMode, ScatterDimensionNumbers, TransposeA, TriangularSolve,
};

/// Returns `x` with `updates` subtracted at rows.
fn rows_subtracted(x: &Array, rows: &Array, updates: &Array) -> Array {
    let numbers = ScatterDimensionNumbers {
        update_window_dims: vec![1],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        ..ScatterDimensionNumbers::default()
    };
    let at = rows.expand_dims(-1);
    scatter(x, &at, &neg(updates), Combiner::Add, &numbers, GatherScatterMode::FillOrDrop)
}

pub(crate) fn indexing(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let dropped = DynamicIndexOptions { keepdims: false };
    Some(vec![match op {
        "slice_in_dim" => slice_in_dim(&x[0], 1, -1, 2, 1),
        "index_in_dim" => dynamic_index_in_dim(&x[0], -1, 1),
        "index_in_dim_dropped" => dynamic_index_in_dim_with(&x[0], 1, 0, dropped),
        "index_take" => x[0].index(i![&x[1], &x[2]]),
        "scatter_sub" => rows_subtracted(&x[0], &x[1], &x[2]),
        "scatter_apply" => x[0].at(i![&x[1]]).apply(|x| sin(&x)),
        "dynamic_index_dropped" => dynamic_index_in_dim_with(&x[0], &x[1], 0, dropped),
        "dynamic_slice_negative" | "dynamic_slice_after" => {
            dynamic_slice(&x[0], (&x[1], &x[2]), [2, 3])
        }
        "dynamic_slice_in_dim_negative" => dynamic_slice_in_dim(&x[0], &x[1], 3, 1),
        "dynamic_update_slice_negative" => dynamic_update_slice(&x[0], &x[1], (&x[2], &x[3])),
        "dynamic_update_index" => {
            dynamic_update_slice_in_dim(&x[0], &x[1].expand_dims(1), &x[2], 1)
        }
        "dynamic_update_index_after" => dynamic_update_slice_in_dim(&x[0], &x[1], &x[2], 1),
        "sort_key_val" | "sort_key_val_axis" => {
            let axis = if op == "sort_key_val" { -1 } else { 0 };
            let (keys, values) = sort_key_val(&x[0], &x[1], axis);
            return Some(vec![keys, values]);
        }
        _ if op.starts_with("dynamic_index_") => dynamic_index_in_dim(&x[0], &x[1], 1),
        _ => return None,
    }])
}

pub(crate) fn shapes(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    Some(vec![match op {
        "broadcast_like" => broadcast_to(&x[0], x[1].shape()),
        "broadcast_to_rank" => broadcast_in_dim(&x[0], [1, 1, 3], &[2]),
        "collapse" => x[0].reshape([2, 12, 2]),
        "iota" => iota(DType::I32, 5),
        "optimization_barrier" => return Some(optimization_barrier(x.to_vec())),
        _ => match op.strip_prefix("lax_")?.rsplit_once('_')?.0 {
            "bitwise_and" => bitwise_and(&x[0], &x[1]),
            "bitwise_or" => bitwise_or(&x[0], &x[1]),
            "bitwise_xor" => bitwise_xor(&x[0], &x[1]),
            _ => return None,
        },
    }])
}

/// Returns the value and the gradients of the quantized product. The cotangent is the last operand.
fn quantized(
    x: &[Array],
    mode: BlockScaleMode,
    scale: Option<f32>,
    numbers: &DotGeneral,
) -> Vec<Array> {
    let global_scale = scale.map(|scale| full([1], scale));
    let config = BlockScaleConfig { global_scale, ..BlockScaleConfig::new(mode) };
    let configs = [config.clone(), config.clone(), config];
    let product = |x: &Array, y: &Array| scaled_dot_general(x, y, numbers.clone(), configs.clone());
    let (value, pullback) =
        vjp(|(x, y): &(Array, Array)| product(x, y), &(x[0].clone(), x[1].clone()));
    let (of_x, of_y) = pullback.apply(&x[2]);
    vec![value, of_x, of_y]
}

pub(crate) fn products(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let plain =
        DotGeneral { lhs_contracting: vec![1], rhs_contracting: vec![0], ..DotGeneral::default() };
    let batched = DotGeneral {
        lhs_contracting: vec![2],
        rhs_contracting: vec![2],
        lhs_batch: vec![0],
        rhs_batch: vec![0],
        ..DotGeneral::default()
    };
    let solve = TriangularSolve { left_side: true, lower: true, ..TriangularSolve::default() };
    Some(vec![match op {
        "batch_matmul" => matmul(&x[0], &x[1]),
        "conv_with_general_padding" => {
            let padding = Padding::Explicit(vec![(1, 2), (0, -1)]);
            conv_with_general_padding(&x[0], &x[1], &[2, 1], padding, &[2, 1], &[1, 2])
        }
        "conv_with_general_padding_f64" => {
            conv_with_general_padding(&x[0], &x[1], &[2], Padding::Same, &[], &[])
        }
        "composite" | "composite_gradient" => {
            composite(|x: &Array| sin(x) / cos(x), "my.tangent")(&x[0])
        }
        "scaled_dot" => scaled_dot(&x[0], &x[1], [Some(&x[2]), Some(&x[3])], plain),
        "triangular_solve" => triangular_solve(&x[0], &x[1], solve),
        "triangular_solve_right" => {
            let transpose_a = TransposeA::Transpose;
            let options =
                TriangularSolve { transpose_a, unit_diagonal: true, ..Default::default() };
            triangular_solve(&x[0], &x[1], options)
        }
        "scaled_dot_general_mxfp8" => {
            let numbers = DotGeneral {
                lhs_contracting: vec![0],
                rhs_contracting: vec![1],
                ..DotGeneral::default()
            };
            return Some(quantized(x, BlockScaleMode::Mxfp8, None, &numbers));
        }
        "scaled_dot_general_nvfp4" => {
            return Some(quantized(x, BlockScaleMode::Nvfp4, Some(0.001), &batched));
        }
        _ => return None,
    }])
}

pub(crate) fn activations(op: &str, x: &[Array]) -> Option<Array> {
    Some(match op {
        "glu" => glu(&x[0], -1),
        "hard_swish" => hard_silu(&x[0]),
        "hard_tanh" => hard_tanh(&x[0]),
        "selu" => selu(&x[0]),
        "swish" => silu(&x[0]),
        "special_erfc" | "lax_erfc" => erfc(&x[0]),
        "special_erfinv" => erf_inv(&x[0]),
        "special_expit" => sigmoid(&x[0]),
        "special_gammaln" => lgamma(&x[0]),
        "special_i0e" => bessel_i0e(&x[0]),
        "special_i1e" => bessel_i1e(&x[0]),
        "special_gammainc" | "special_gammainc_bf16" => igamma(&x[0], &x[1]),
        "special_gammaincc" | "special_gammaincc_bf16" => igammac(&x[0], &x[1]),
        _ => return None,
    })
}
