//! Options of `lax`, `numpy`, `nn` and `random` that few programs use, compared with JAX: values,
//! derivatives, and both under `vmap`. An operation's name stands for one call with its options.

#[cfg(test)]
use crate::fixtures::Suite;
use crate::fixtures::by_example;
use oxidax::linalg::{self, EighOptions, SvdAlgorithm};
use oxidax::nn::init::{Distribution, Fan, VarianceScaling, variance_scaling};
use oxidax::nn::{LstmSizes, lstm};
use oxidax::prelude::*;
use oxidax::primitives::{
    AccuracyMode, AccuracyOptions, ApproxTopKOptions, DotGeneral, Window, approx_max_k_with,
    cbrt_with, cos_with, exp_with, exp2_with, expm1_with, log_with, log1p_with, logistic_with,
    rsqrt_with, sin_with, sqrt_with, tan_with, tanh_with,
};
use oxidax::random::stateful_rng;
use serde_json::Value;

fn windows(dimensions: &[usize], strides: &[usize], padding: Padding) -> Window {
    let (dimensions, strides) = (dimensions.to_vec(), strides.to_vec());
    Window { dimensions, strides, padding, ..Window::default() }
}

/// Returns the largest element of each window, and its index along the last axis.
fn largest(x: &Array, window: &Window) -> (Array, Array) {
    let index = broadcasted_iota(DType::I32, x.shape().clone(), x.rank() - 1);
    let larger = |(a, i): (Array, Array), (b, j): (Array, Array)| {
        let first = ge(&a, &b);
        (select(&first, &a, &b), select(&first, &i, &j))
    };
    let init = (full(([], x.dtype()), f64::NEG_INFINITY), scalar(-1));
    reduce_window_multi((x, &index), init, larger, window)
}

fn weighted<'a>(weights: Option<&'a Array>) -> QuantileOptions<'a> {
    QuantileOptions { method: QuantileMethod::InvertedCdf, weights }
}

fn reductions(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let list = |numbers: &[f32]| {
        let q = Array::from_slice(numbers, [numbers.len()]).unwrap();
        q.astype(x[0].dtype())
    };
    Some(match op {
        "reduce_captured" | "reduce_captured_bf16" => {
            let w = x[1].clone();
            let combine = move |a: Array, b: Array| &a + &b + &w * &a * &b * 0.1;
            vec![reduce(&x[0], scalar(0.0), combine, &[0])]
        }
        "window_largest" => {
            let (value, index) = largest(&x[0], &windows(&[1, 3], &[1, 1], Padding::Same));
            vec![value, index]
        }
        "window_largest_valid" => {
            vec![largest(&x[0], &windows(&[2, 1], &[1, 1], Padding::Valid)).0]
        }
        "window_pair" => {
            let combine = |(a, b): (Array, Array), (c, d): (Array, Array)| (&a + &c, &b * &d);
            let init = (scalar(0.0), scalar(1.0));
            let window = windows(&[2, 2], &[1, 2], Padding::Valid);
            let (sum, product) = reduce_window_multi((&x[0], &x[1]), init, combine, &window);
            vec![sum, product]
        }
        "quantile_weights" => {
            vec![quantile_with(&x[0], list(&[0.1, 0.5, 0.9]), 0, weighted(Some(&x[1])))]
        }
        "quantile_weights_bf16" => vec![quantile_with(&x[0], 0.5, 0, weighted(Some(&x[1])))],
        "quantile_axis_weights" => vec![quantile_with(&x[0], 0.3, 1, weighted(Some(&x[1])))],
        "quantile_bad_weights" => {
            vec![quantile_with(&x[0], list(&[0.2, 1.0]), [0], weighted(Some(&x[1])))]
        }
        "nanquantile_weights" => {
            vec![nanquantile_with(&x[0], list(&[0.0, 0.2, 0.9]), 1, weighted(Some(&x[1])))]
        }
        "percentile_weights" => {
            vec![percentile_with(&x[0], 40.0, Axes::all(), weighted(Some(&x[1])))]
        }
        "nanpercentile_cdf" => vec![nanpercentile_with(&x[0], 40.0, 0, weighted(None))],
        "argmax_i16" => {
            vec![argmax_with(&x[0], 1, ArgmaxOptions { index_dtype: DType::I16 })]
        }
        "argmin_u8" => vec![argmin_with(&x[0], 0, ArgmaxOptions { index_dtype: DType::U8 })],
        _ => return None,
    })
}

fn block_scaled(x: &[Array], mode: BlockScaleMode, global_scale: Option<f32>) -> Vec<Array> {
    let numbers = DotGeneral {
        lhs_contracting: vec![2],
        rhs_contracting: vec![2],
        lhs_batch: vec![0],
        rhs_batch: vec![0],
        ..DotGeneral::default()
    };
    let global_scale = global_scale.map(|scale| full([1], scale));
    let config = BlockScaleConfig { global_scale, ..BlockScaleConfig::new(mode) };
    vec![scaled_dot_general(&x[0], &x[1], numbers, [config.clone(), config.clone(), config])]
}

fn products(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    Some(match op {
        "div_integers" | "div_floats" => vec![lax_div(&x[0], &x[1])],
        "ragged_offset" => {
            let offset = full([1], 1);
            let options =
                RaggedDotOptions { group_offset: Some(&offset), ..RaggedDotOptions::default() };
            vec![ragged_dot_with(&x[0], &x[1], &x[2], options)]
        }
        "block_layers" => {
            let (x, y) = (&x[0], &x[1]);
            vec![block(NestedBlocks::layers([[[x, y], [y, x]], [[x, x], [x, x]]]))]
        }
        "vectorize_scalars" => {
            let larger = |x: &[Array]| vec![where_(gt(&x[0], &x[1]), &x[0] * &x[1], &x[1])];
            vectorize(None, larger)(&[&x[0], &x[1]])
        }
        "scaled_dot_mxfp8" => block_scaled(x, BlockScaleMode::Mxfp8, None),
        "scaled_dot_nvfp4" => block_scaled(x, BlockScaleMode::Nvfp4, Some(0.5)),
        _ => return None,
    })
}

fn accurate(name: &str, x: &Array) -> Option<Array> {
    let options = AccuracyOptions { accuracy: AccuracyMode::Highest };
    Some(match name {
        "cbrt" => cbrt_with(x, options),
        "cos" => cos_with(x, options),
        "exp" => exp_with(x, options),
        "exp2" => exp2_with(x, options),
        "expm1" => expm1_with(x, options),
        "log" => log_with(x, options),
        "log1p" => log1p_with(x, options),
        "logistic" => logistic_with(x, options),
        "rsqrt" => rsqrt_with(x, options),
        "sin" => sin_with(x, options),
        "sqrt" => sqrt_with(x, options),
        "tan" => tan_with(x, options),
        "tanh" => tanh_with(x, options),
        _ => return None,
    })
}

fn complex_weights(distribution: Distribution) -> Vec<Array> {
    let numbers = VarianceScaling { scale: 2.0, fan: Fan::Average, distribution };
    vec![variance_scaling(random::key(3), ([4, 5], DType::C64), numbers)]
}

fn draws() -> Vec<Array> {
    let mut rng = stateful_rng(7);
    let uniform = rng.uniform([3], -1.0..2.0);
    let normal = rng.normal([3], 1.0, 2.0);
    let integers = rng.integers([4], 0..10);
    let child = rng.spawn(1).swap_remove(0).random([2]);
    let parts = vmap(|mut rng: random::StatefulPrng| rng.random([])).apply(rng.split(3));
    vec![uniform, normal, integers, child, parts]
}

fn functions(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    if let Some(name) = op.strip_suffix("_highest") {
        return accurate(name, &x[0]).map(|y| vec![y]);
    }
    Some(match op {
        "pbroadcast" => {
            vec![vmap(|x: Array| pbroadcast(&x, "i", 1)).axis_name("i").apply(&x[0])]
        }
        "psend_precv" => {
            let around = [(0, 1), (1, 2), (2, 0)];
            let step = |x: Array| precv(psend(&x, "i", &around), "i", &around);
            vec![vmap(step).axis_name("i").apply(&x[0])]
        }
        "eigh_subset" => {
            let a = x[0].matmul(&x[0].mt()) + eye((3, x[0].dtype())) * 2.0;
            let options = EighOptions { subset_by_index: Some(1..3), ..EighOptions::default() };
            vec![linalg::eigh_with(&a, options).eigenvalues]
        }
        "svd_subset" => {
            let options = SvdOptions {
                full_matrices: false,
                subset_by_index: Some(0..2),
                algorithm: SvdAlgorithm::Jacobi,
            };
            vec![linalg::svd_with(&x[0], options).s]
        }
        "approx_min" => {
            let (values, indices) = approx_min_k(&x[0], 5, 1, 0.9);
            vec![values, indices]
        }
        "approx_max_candidates" => {
            let options = ApproxTopKOptions {
                reduction_input_size: Some(3000),
                aggregate_to_topk: false,
                ..ApproxTopKOptions::default()
            };
            let (values, indices) = approx_max_k_with(&x[0], 3, -1, options);
            vec![values, indices]
        }
        "approx_max_gradient" => vec![approx_max_k(&x[0], 4, -1, 0.95).0],
        "lstm" | "lstm_bidirectional" => {
            let sizes = LstmSizes {
                input_size: 3,
                hidden_size: 2,
                num_layers: 2,
                bidirectional: op == "lstm_bidirectional",
            };
            let (y, [h, c]) = lstm(&x[0], [&x[1], &x[2]], &x[3], &x[4], sizes);
            vec![y, h, c]
        }
        "qr_raw" => {
            let raw = linalg::qr_raw(&x[0]);
            vec![raw.h, raw.tau]
        }
        "complex_weights_uniform" => complex_weights(Distribution::Uniform),
        "complex_weights_truncated_normal" => complex_weights(Distribution::TruncatedNormal),
        "complex_weights_normal" => complex_weights(Distribution::Normal),
        "stateful_rng" => draws(),
        _ => return None,
    })
}

/// Computes a case's operation.
pub(crate) fn apply(op: &str, params: &Value, x: &[Array]) -> Vec<Array> {
    by_example(params, x, |x| {
        let results = reductions(op, x).or_else(|| products(op, x)).or_else(|| functions(op, x));
        results.unwrap_or_else(|| panic!("no operation {op}"))
    })
}

#[cfg(test)]
mod on_cpu {
    use super::*;

    recorded_families!("lax_options": reductions, products, functions);
}
