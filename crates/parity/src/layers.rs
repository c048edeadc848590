//! Layers compared with Flax, losses with Optax, and initializers with JAX.

use crate::fixtures::Case;
#[cfg(test)]
use crate::fixtures::Suite;
use crate::ops::list;
use crate::verify::Computation;
use oxidax::nn::init::{self, Distribution, Fan, FanAxes, VarianceScaling};
use oxidax::prelude::*;
use oxidax::random::Key;
use serde_json::Value;

#[cfg(test)]
fn suite() -> Suite {
    Suite::load("layers")
}

fn number(params: &Value, name: &str) -> f64 {
    params[name].as_f64().unwrap_or_else(|| panic!("no number {name} in {params}"))
}

fn size(params: &Value, name: &str) -> usize {
    params[name].as_u64().unwrap_or_else(|| panic!("no size {name} in {params}")) as usize
}

fn flag(params: &Value, name: &str) -> bool {
    params[name].as_bool().unwrap_or_else(|| panic!("no flag {name} in {params}"))
}

fn padding(params: &Value) -> Padding {
    match &params["padding"] {
        Value::String(text) if text == "SAME" => Padding::Same,
        Value::String(_) => Padding::Valid,
        pairs => {
            let pair = |pair: &Value| {
                let [low, high] = [0, 1].map(|at| pair[at].as_i64().unwrap() as isize);
                (low, high)
            };
            Padding::Explicit(pairs.as_array().unwrap().iter().map(pair).collect())
        }
    }
}

fn dense(weight: &Array, bias: &Array) -> nn::Linear {
    nn::Linear { weight: weight.clone(), bias: Some(bias.clone()) }
}

/// Reshapes a map to heads, `[in, n, h]` with a bias `[n, h]`, to a map to features.
fn to_heads(weight: &Array, bias: &Array) -> nn::Linear {
    let [n_in, n, h] = weight.dims();
    dense(&weight.reshape([n_in, n * h]), &bias.reshape([n * h]))
}

fn attention(params: &Value, leaves: &[Array]) -> nn::MultiHeadAttention {
    let [n, h, n_out] = leaves[6].dims();
    let rotary = params["rotary"].as_str().map(|pairs| nn::Rotary {
        interleaved: pairs == "neighbours",
        ..nn::Rotary::new(10_000.0)
    });
    nn::MultiHeadAttention {
        query: to_heads(&leaves[0], &leaves[1]),
        key: to_heads(&leaves[2], &leaves[3]),
        value: to_heads(&leaves[4], &leaves[5]),
        out: dense(&leaves[6].reshape([n * h, n_out]), &leaves[7]),
        n_heads: size(params, "heads"),
        n_kv_heads: size(params, "kv_heads"),
        is_causal: flag(params, "causal"),
        rotary,
        query_norm: None,
        key_norm: None,
        dropout: nn::Dropout::new(0.0),
    }
}

fn activation(params: &Value) -> nn::Activation {
    match params["activation"].as_str().unwrap() {
        "relu" => nn::Activation::Relu,
        "gelu" => nn::Activation::Gelu,
        "gelu_exact" => nn::Activation::GeluExact,
        "silu" => nn::Activation::Silu,
        "tanh" => nn::Activation::Tanh,
        "sigmoid" => nn::Activation::Sigmoid,
        other => panic!("no activation for {other}"),
    }
}

fn layer(op: &str, params: &Value, x: &[Array]) -> Vec<Array> {
    let leaf = |at: usize| x.get(at).cloned();
    vec![match op {
        "dense" => dense(&x[1], &x[2]).forward(&x[0]),
        "embed" => nn::Embedding::with_weight(x[0].clone()).forward(&x[1]),
        "embed_attend" => nn::Embedding::with_weight(x[0].clone()).attend(&x[1]),
        "conv" => nn::Conv {
            bias: leaf(2),
            strides: list(&params["strides"]),
            padding: padding(params),
            dilation: list(&params["dilation"]),
            groups: size(params, "groups"),
            ..nn::Conv::with_weight(x[1].clone())
        }
        .forward(&x[0]),
        "conv_transpose" => nn::ConvTranspose {
            bias: leaf(2),
            strides: list(&params["strides"]),
            padding: padding(params),
            dilation: list(&params["dilation"]),
            transpose_kernel: flag(params, "transpose_kernel"),
            ..nn::ConvTranspose::with_weight(x[1].clone())
        }
        .forward(&x[0]),
        "layer_norm" => {
            let epsilon = number(params, "epsilon").into();
            nn::LayerNorm { scale: leaf(1), bias: leaf(2), epsilon }.forward(&x[0])
        }
        "rms_norm" => {
            let epsilon = number(params, "epsilon").into();
            nn::RmsNorm { scale: leaf(1), epsilon }.forward(&x[0])
        }
        "group_norm" => {
            let (groups, epsilon) = (size(params, "groups"), number(params, "epsilon").into());
            nn::GroupNorm { scale: leaf(1), bias: leaf(2), groups, epsilon }.forward(&x[0])
        }
        "batch_norm_train" | "batch_norm_eval" => {
            let norm = nn::BatchNorm {
                scale: leaf(1),
                bias: leaf(2),
                momentum: number(params, "momentum").into(),
                epsilon: number(params, "epsilon").into(),
                axis_name: None,
            };
            let stats = nn::BatchStats { mean: x[3].clone(), var: x[4].clone() };
            if op == "batch_norm_eval" {
                return vec![norm.forward_eval(&x[0], &stats)];
            }
            let (y, stats) = norm.forward_train(&x[0], &stats);
            return vec![y, stats.mean, stats.var];
        }
        "dropout" => {
            let axes: Vec<i64> = serde_json::from_value(params["broadcast_axes"].clone()).unwrap();
            let broadcast_axes = axes.into_iter().map(|axis| axis as isize).collect();
            let dropout =
                nn::Dropout { broadcast_axes, ..nn::Dropout::new(number(params, "rate")) };
            dropout.forward(&x[1], Some(Key::from_data(x[0].clone())))
        }
        "attention" => attention(params, &x[1..]).forward(&x[0]),
        "attention_cross" => attention(params, &x[3..]).attend(&x[0], &x[1], Some(&x[2])),
        "rotary" => {
            let interleaved = params["pairs"] == "neighbours";
            let rotary = nn::Rotary { interleaved, ..nn::Rotary::new(number(params, "base")) };
            rotary.forward(&x[0], &x[1])
        }
        "lstm" | "lstm_scan" => {
            let state = nn::LstmState { c: x[1].clone(), h: x[2].clone() };
            let [input, recurrent, bias] = [3, 4, 5].map(|at| x[at].clone());
            let cell = nn::LstmCell { input, recurrent, bias };
            let rnn_options =
                nn::RnnOptions { reverse: op == "lstm_scan" && flag(params, "reverse") };
            if op == "lstm" {
                let next = cell.forward(&state, &x[0]);
                return vec![next.c, next.h];
            }
            let (last, ys) = cell.scan_with(state, &x[0], rnn_options);
            return vec![last.c, last.h, ys];
        }
        "gru" | "gru_scan" => {
            let [input, recurrent, bias, recurrent_bias] = [2, 3, 4, 5].map(|at| x[at].clone());
            let cell = nn::GruCell { input, recurrent, bias, recurrent_bias };
            let rnn_options =
                nn::RnnOptions { reverse: op == "gru_scan" && flag(params, "reverse") };
            if op == "gru" {
                return vec![cell.forward(&x[1], &x[0])];
            }
            let (last, ys) = cell.scan_with(x[1].clone(), &x[0], rnn_options);
            return vec![last, ys];
        }
        "mlp" => {
            let layers = vec![dense(&x[1], &x[2]), dense(&x[3], &x[4])];
            nn::Mlp { layers, activation: activation(params) }.forward(&x[0])
        }
        "gated_mlp" => {
            let [gate, up, down] =
                [1, 2, 3].map(|at| nn::Linear { weight: x[at].clone(), bias: None });
            nn::GatedMlp { gate, up, down, activation: nn::Activation::Silu }.forward(&x[0])
        }
        "smoothed_cross_entropy" => {
            nn::smoothed_cross_entropy(&x[0], &x[1], number(params, "alpha"))
        }
        "kl_divergence" => nn::kl_divergence(&x[0], &x[1]),
        "cosine_distance" => {
            let options = nn::CosineOptions { epsilon: number(params, "epsilon") };
            nn::cosine_distance_with(&x[0], &x[1], options)
        }
        "cosine_similarity" => {
            let options = nn::CosineOptions { epsilon: number(params, "epsilon") };
            nn::cosine_similarity_with(&x[0], &x[1], options)
        }
        "ctc_loss" => {
            let options = nn::CtcLossOptions { blank_id: size(params, "blank") };
            nn::ctc_loss_with(&x[0], &x[1], &x[2], &x[3], options)
        }
        other => panic!("no layer for {other}"),
    }]
}

fn initial(case: Case<'_>) -> Array {
    let key = Key::from_data(case.input(0));
    let (shape, dtype) = (case.dims("shape"), case.dtype());
    match case.op() {
        "init_orthogonal" => {
            let options = init::OrthogonalInitOptions {
                scale: case.number("scale"),
                ..init::OrthogonalInitOptions::default()
            };
            init::orthogonal_with(key, (shape, dtype), options)
        }
        "init_delta_orthogonal" => {
            init::delta_orthogonal(key, (shape, dtype), case.number("scale"))
        }
        "init_constant" => init::constant((shape, dtype), case.number("value")),
        "init_variance_scaling" => {
            let fan = match case.param("fan").as_str().unwrap() {
                "geometric" => Fan::GeometricAverage,
                "average" => Fan::Average,
                _ => Fan::In,
            };
            let distribution = match case.param("distribution").as_str().unwrap() {
                "geometric" => Distribution::Uniform,
                "batch" => Distribution::TruncatedNormal,
                _ => Distribution::Normal,
            };
            let numbers = VarianceScaling { scale: case.number("scale"), fan, distribution };
            let [inputs, outputs, batch] = ["in", "out", "batch"].map(|name| case.dims(name));
            let axes = FanAxes { inputs, outputs, batch };
            init::variance_scaling_with(key, (shape, dtype), numbers, &axes)
        }
        other => panic!("no initializer for {other}"),
    }
}

pub(crate) fn computation(op: &str) -> Computation {
    match op.starts_with("init_") {
        true => Computation::Alone(|case| Ok(vec![initial(case)])),
        false => Computation::Joined(layer),
    }
}

#[cfg(test)]
mod on_cpu {
    use super::*;

    #[test]
    fn layers_and_their_derivatives() {
        suite().check_ops(|op| !op.starts_with("init_"), layer);
    }

    #[test]
    fn initial_weights_of_other_layouts() {
        suite().check(|op| op.starts_with("init_"), |case| case.expect_outputs(&[initial(case)]));
    }
}
