//! Compares layers with results recorded from Flax.

#![allow(clippy::unwrap_used, reason = "a case without its parameters fails")]

use oxidax::nn::LstmState;
use oxidax::prelude::*;
use oxidax_flax::{
    AttentionWeightsOptions, Bidirectional, ConvLocal, ConvLstmCell, Einsum, Fp8DotGeneral,
    Fp8Formats, Fp8Scale, InstanceNorm, LinearGeneral, Lora, LoraLinear, MguCell, PRelu,
    RecurrentCell, Rnn, RnnScanOptions, SimpleCell, SpectralNorm, SpectralStats, WeightNorm,
    dot_product_attention_weights,
};
use oxidax_parity::Suite;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

fn flag(params: &Value, name: &str) -> bool {
    params[name].as_bool().unwrap()
}

fn list<T: serde::de::DeserializeOwned>(params: &Value, name: &str) -> Vec<T> {
    serde_json::from_value(params[name].clone()).unwrap()
}

fn padding(params: &Value) -> Padding {
    if params["padding"] == "SAME" { Padding::Same } else { Padding::Valid }
}

fn linear(weight: &Array, bias: &Array) -> nn::Linear {
    nn::Linear { weight: weight.clone(), bias: Some(bias.clone()) }
}

fn simple(leaves: &[Array]) -> SimpleCell {
    SimpleCell {
        input: leaves[0].clone(),
        recurrent: leaves[1].clone(),
        bias: leaves[2].clone(),
        residual: false,
        activation: nn::Activation::Tanh,
    }
}

fn cell(params: &Value, x: &[Array]) -> Array {
    let (h, leaves) = (&x[0], &x[2..]);
    match params["cell"].as_str().unwrap() {
        "simple" => simple(leaves).forward(h, &x[1]),
        "residual" => SimpleCell { residual: true, ..simple(leaves) }.forward(h, &x[1]),
        _ => MguCell {
            input: concatenate(&leaves[..2], -1),
            recurrent: concatenate(&leaves[2..4], -1),
            bias: concatenate(&leaves[4..6], -1),
            recurrent_bias: leaves.get(6).cloned(),
        }
        .forward(h, &x[1]),
    }
}

fn lengths(params: &Value) -> Array {
    let lengths: Vec<i32> = list(params, "seq_lengths");
    Array::from_slice(&lengths, [lengths.len()]).unwrap()
}

fn recurrent(op: &str, params: &Value, x: &[Array]) -> Option<Vec<Array>> {
    Some(match op {
        "cell" => vec![cell(params, x)],
        "conv_lstm" => {
            let conv =
                |at: usize| nn::Conv::with_weight(x[at].clone()).with_bias(x[at + 1].clone());
            let rnn = Rnn::new(ConvLstmCell { input: conv(1), recurrent: conv(3) });
            let (LstmState { c, .. }, ys) = rnn.scan(&x[0]);
            vec![ys, c]
        }
        "rnn" => {
            let options = RnnScanOptions {
                lengths: flag(params, "lengths").then(|| lengths(params)),
                reverse: flag(params, "reverse"),
                keep_order: flag(params, "keep_order"),
                time_major: flag(params, "time_major"),
            };
            let (h, ys) = Rnn::new(simple(&x[1..])).scan_with(None, &x[0], &options);
            vec![h, ys]
        }
        "bidirectional" => {
            let options =
                RnnScanOptions { lengths: Some(lengths(params)), ..RnnScanOptions::default() };
            let layer = Bidirectional::new(simple(&x[1..4]), simple(&x[4..7]));
            vec![layer.scan_with(None, &x[0], &options, |a, b| concatenate([a, b], -1)).1]
        }
        _ => return None,
    })
}

fn attention(x: &[Array]) -> Array {
    let heads = |at: usize| {
        let [n_in, n, h] = x[at].dims();
        linear(&x[at].reshape([n_in, n * h]), &x[at + 1].reshape([n * h]))
    };
    let [n, h, n_out] = x[8].dims();
    let out = linear(&x[8].reshape([n * h, n_out]), &x[9]);
    let layer = nn::MultiHeadAttention::with_projections(2, heads(2), heads(4), heads(6), out);
    let norm = |at: usize| Some(nn::LayerNorm::with_scale(x[at].clone()));
    let layer = nn::MultiHeadAttention { query_norm: norm(10), key_norm: norm(11), ..layer };
    layer.attend(&x[0], &x[1], None)
}

fn mask(params: &Value, tokens: &Array) -> Array {
    let causal = || nn::make_causal_mask(tokens);
    let padding = || nn::make_attention_mask(&gt(tokens, 0), &gt(tokens, 0));
    match params["mask"].as_str().unwrap() {
        "causal" => causal(),
        "padding" => padding(),
        "segments" => nn::make_attention_mask_with(tokens, tokens, |a, b| eq(a, b)),
        _ => nn::combine_masks([Some(&causal()), None, Some(&padding())]).unwrap(),
    }
}

fn norms(op: &str, params: &Value, x: &[Array]) -> Option<Vec<Array>> {
    Some(match op {
        "instance_norm" => {
            let (scale, bias) = (Some(x[1].clone()), Some(x[2].clone()));
            vec![InstanceNorm { scale, bias, epsilon: 1e-6.into() }.forward(&x[0])]
        }
        "weight_norm" => {
            let scales = BTreeMap::from([("weight".to_owned(), x[3].clone())]);
            let paths = vec!["weight".to_owned()];
            let feature_axes = list(params, "feature_axes");
            let epsilon = 1e-12.into();
            vec![if x[1].rank() == 2 {
                let inner = linear(&x[1], &x[2]);
                WeightNorm { inner, scales, paths, feature_axes, epsilon }.forward(&x[0])
            } else {
                let inner = nn::Conv::with_weight(x[1].clone()).with_bias(x[2].clone());
                WeightNorm { inner, scales, paths, feature_axes, epsilon }.forward(&x[0])
            }]
        }
        "spectral_norm" => {
            let n_steps = params["n_steps"].as_u64().unwrap() as usize;
            let norm = SpectralNorm { n_steps, ..SpectralNorm::default() };
            let stats = SpectralStats {
                vectors: BTreeMap::from([("weight".to_owned(), x[3].clone())]),
                values: BTreeMap::from([("weight".to_owned(), ones([]))]),
            };
            let (layer, stats) = norm.normalize(&linear(&x[1], &x[2]), &stats);
            let (u, sigma) = (&stats.vectors["weight"], &stats.values["weight"]);
            vec![layer.forward(&x[0]), u.clone(), sigma.clone()]
        }
        _ => return None,
    })
}

fn layers(op: &str, params: &Value, x: &[Array]) -> Option<Array> {
    let bias = || Some(x[2].clone());
    Some(match op {
        "linear_general" => {
            let (axes, batch_axes) = (list(params, "axes"), list(params, "batch_axes"));
            let layer = LinearGeneral { weight: x[1].clone(), bias: bias(), axes, batch_axes };
            layer.forward(&x[0])
        }
        "einsum" => {
            let equation = params["equation"].as_str().unwrap();
            Einsum { bias: bias(), ..Einsum::with_weight(equation, x[1].clone()) }.forward(&x[0])
        }
        "lora_linear" => {
            let lora = Lora { a: x[3].clone(), b: x[4].clone() };
            LoraLinear { base: linear(&x[1], &x[2]), lora }.forward(&x[0])
        }
        "prelu" => PRelu { slope: x[1].clone() }.forward(&x[0]),
        "conv_local" => ConvLocal {
            weight: x[1].clone(),
            bias: bias(),
            window: list(params, "window"),
            strides: list(params, "strides"),
            padding: padding(params),
            dilation: Vec::new(),
        }
        .forward(&x[0]),
        "mask" => mask(params, &x[0]),
        "attention_weights" => {
            let mask = Some(tril(&ones(([1, 1, 4, 5], DType::I32)), 0).astype(DType::Bool));
            let options = AttentionWeightsOptions {
                mask,
                bias: bias(),
                ..AttentionWeightsOptions::default()
            };
            dot_product_attention_weights(&x[0], &x[1], &options)
        }
        "attention" => attention(x),
        _ => return None,
    })
}

fn apply(op: &str, params: &Value, x: &[Array]) -> Vec<Array> {
    layers(op, params, x)
        .map(|y| vec![y])
        .or_else(|| norms(op, params, x))
        .or_else(|| recurrent(op, params, x))
        .unwrap_or_else(|| panic!("no layer is called {op}"))
}

mod on_cpu {
    use super::*;

    #[test]
    fn layers_are_those_of_flax() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python-compat/fixtures");
        let suite = Suite::open(folder, "flax_layers").unwrap_or_else(|error| panic!("{error}"));
        suite.expect_equal(apply);
    }

    /// A sequence of length 0 keeps the first state.
    #[test]
    fn empty_sequences_keep_their_state() {
        let cell = SimpleCell::new(random::key(0), 2, 3);
        let start = full([2, 3], 0.5f32);
        let options = RnnScanOptions { lengths: Some(array![0, 4]), ..RnnScanOptions::default() };
        let (last, _) =
            Rnn::new(cell.clone()).scan_with(Some(start.clone()), &ones([2, 4, 2]), &options);
        assert_eq!(last.index(i![0]).to_vec::<f32>().unwrap(), [0.5; 3]);
        let mut h = start.index(i![1..2]);
        for _ in 0..4 {
            h = cell.step(&h, &ones([1, 2])).0;
        }
        let (found, expected) = (last.index(i![1..2]), h);
        assert!(abs(found - expected).max().item::<f32>().unwrap() < 1e-6);
    }

    /// One step of delayed scaling: operands and gradients are rounded to 8 bits by the scales of
    /// earlier magnitudes, and the gradients of scales are the next scales.
    #[test]
    fn products_are_rounded_to_8_bits() {
        let formats = Fp8Formats::default();
        let mut fp8 = Fp8DotGeneral::with_formats(formats, 3);
        fp8.lhs.amax_history = array![448.0f32 * 2.0, 1.0, 5.0];
        let (x, w) = (array![[3.3f32, 1.06]], array![[1.0f32], [2.1]]);
        let value = |(fp8, x): &(Fp8DotGeneral, Array)| (fp8.matmul(x, &w) * 3.2).sum();
        let (y, (next, by_x)) = value_and_grad(value)(&(fp8, x));
        // 3.3 / 2 rounds to 1.625, 0.53 to 0.5, 2.1 to 2.0 with three digits.
        let expected = (3.25 * 1.0 + 1.0 * 2.0) * 3.2;
        assert!((y.item::<f32>().unwrap() - expected).abs() < 1e-4);
        // 3.2 rounds to 3.0 with two digits.
        assert_eq!(by_x.to_vec::<f32>().unwrap(), [3.0, 6.0]);
        let history = |scale: &Fp8Scale| scale.amax_history.to_vec::<f32>().unwrap();
        assert_eq!(history(&next.lhs), [3.3, 5.0, 896.0]);
        assert_eq!(history(&next.rhs), [2.1, 0.0, 0.0]);
        assert_eq!(history(&next.output_gradient), [3.2, 0.0, 0.0]);
        assert_eq!(next.lhs.scale.to_vec::<f32>().unwrap(), [2.0]);
    }

    /// Adapters do not change the layer at first, and merging keeps the result.
    #[test]
    fn merged_adapters_compute_the_same() {
        let [base, adapter, b] = random::key(0).split();
        let mut layer = LoraLinear::new(adapter, nn::Linear::new(base, 4, 3), 2);
        let x = random::normal(random::key(1), ([5, 4], DType::F32));
        let plain = layer.base.forward(&x);
        assert_eq!(layer.forward(&x).to_vec::<f32>().unwrap(), plain.to_vec::<f32>().unwrap());
        layer.lora.b = random::normal(b, ([2, 3], DType::F32));
        let (separate, merged) = (layer.forward(&x), layer.merged().forward(&x));
        assert!(abs(&separate - plain).max().item::<f32>().unwrap() > 0.1);
        assert!(abs(separate - merged).max().item::<f32>().unwrap() < 1e-5);
    }
}
