//! Compares padding modes, masks and statistics of layers with results recorded from Flax.

#![allow(clippy::unwrap_used, reason = "a case without its parameters fails")]

use oxidax::nn::{BatchNormOptions, BatchStats, NormLayerOptions, PaddingMode, VarianceFormula};
use oxidax::prelude::*;
use oxidax_parity::Suite;
use serde_json::Value;
use std::path::Path;

fn sizes(params: &Value, name: &str) -> Vec<usize> {
    serde_json::from_value(params[name].clone()).unwrap()
}

fn conv(params: &Value, x: &[Array]) -> nn::Conv {
    nn::Conv {
        strides: sizes(params, "strides"),
        dilation: sizes(params, "dilation"),
        groups: params["groups"].as_u64().unwrap() as usize,
        ..nn::Conv::with_weight(x[1].clone()).with_bias(x[2].clone())
    }
}

fn padding_mode(params: &Value) -> PaddingMode {
    match params["mode"].as_str().unwrap() {
        "CIRCULAR" => PaddingMode::Circular,
        "REFLECT" => PaddingMode::Reflect,
        "CAUSAL" => PaddingMode::Causal,
        other => panic!("no mode is called {other}"),
    }
}

fn variance(params: &Value) -> VarianceFormula {
    match params["fast"].as_bool().unwrap() {
        true => VarianceFormula::Fast,
        false => VarianceFormula::TwoPass,
    }
}

/// Returns the options, and the operands without the mask.
fn options<'a>(params: &Value, x: &'a [Array]) -> (NormLayerOptions, &'a [Array]) {
    let (mask, leaves) = match (params["mask"].as_bool().unwrap(), x.split_last().unwrap()) {
        (true, (mask, leaves)) => (Some(mask.clone()), leaves),
        (false, _) => (None, x),
    };
    let reduction_axes = serde_json::from_value(params["axes"].clone()).unwrap();
    (NormLayerOptions { mask, reduction_axes, variance: variance(params) }, leaves)
}

fn apply(op: &str, params: &Value, x: &[Array]) -> Vec<Array> {
    let (scale, bias) = (x.get(1).cloned(), x.get(2).cloned());
    let epsilon = 1e-6.into();
    vec![match op {
        "conv_mode" => {
            let layer = nn::Conv { padding_mode: padding_mode(params), ..conv(params, x) };
            layer.forward(&x[0])
        }
        "conv_input_dilated" => {
            let padding = serde_json::from_value(params["padding"].clone()).unwrap();
            let padding = Padding::Explicit(padding);
            let input_dilation = sizes(params, "input_dilation");
            let layer = nn::Conv { input_dilation, padding, ..conv(params, x) };
            layer.forward(&x[0])
        }
        "conv_masked" => conv(params, x).forward_masked(&x[0], &x[3]),
        "conv_transpose_masked" => {
            let layer = nn::ConvTranspose::with_weight(x[1].clone()).with_bias(x[2].clone());
            let layer = nn::ConvTranspose { strides: sizes(params, "strides"), ..layer };
            layer.forward_masked(&x[0], &x[3])
        }
        "layer_norm" => {
            let (options, x) = options(params, x);
            nn::LayerNorm { scale, bias, epsilon }.forward_with(&x[0], &options)
        }
        "rms_norm" => {
            let (options, x) = options(params, x);
            nn::RmsNorm { scale, epsilon }.forward_with(&x[0], &options)
        }
        "group_norm" => {
            let (options, x) = options(params, x);
            nn::GroupNorm { scale, bias, groups: 3, epsilon }.forward_with(&x[0], &options)
        }
        "batch_norm" => {
            let stats = BatchStats { mean: x[3].clone(), var: x[4].clone() };
            let options = BatchNormOptions { mask: x.get(5).cloned(), variance: variance(params) };
            let layer =
                nn::BatchNorm { scale, bias, momentum: 0.9.into(), ..nn::BatchNorm::new(6) };
            let (y, stats) = layer.forward_train_with(&x[0], &stats, &options);
            return vec![y, stats.mean, stats.var];
        }
        _ => panic!("no layer is called {op}"),
    }]
}

mod on_cpu {
    use super::*;

    #[test]
    fn options_of_layers_are_those_of_flax() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python-compat/fixtures");
        Suite::open(folder, "flax_options").unwrap_or_else(|e| panic!("{e}")).expect_equal(apply);
    }

    #[test]
    fn wrong_options_are_refused() {
        let message = |f: &dyn Fn() -> Array| oxidax::catch(f).unwrap_err().to_string();
        let x = ones([2, 4, 6]);
        let norm = |mask: Option<Array>, axes: &[isize]| {
            let reduction_axes = Some(axes.to_vec());
            NormLayerOptions { mask, reduction_axes, ..NormLayerOptions::default() }
        };
        let layer = nn::LayerNorm::new(6);
        let text = message(&|| layer.forward_with(&x, &norm(Some(ones([3, 6])), &[-1])));
        assert!(text.contains("mask f32[3,6] does not broadcast to x f32[2,4,6]"), "{text}");
        let text = message(&|| layer.forward_with(&x, &norm(None, &[1, -2])));
        assert!(text.contains("reduction_axes [1, -2] must be distinct axes"), "{text}");
        let text = message(&|| nn::GroupNorm::new(6, 2).forward_with(&x, &norm(None, &[1])));
        assert!(text.contains("must include the last axis"), "{text}");
        let kernel = || nn::Conv::with_weight(ones([3, 3, 6, 1]));
        let causal = nn::Conv { padding_mode: PaddingMode::Causal, ..kernel() };
        let text = message(&|| causal.forward(&ones([2, 4, 4, 6])));
        assert!(text.contains("`Causal` needs one spatial axis, the window has 2"), "{text}");
        let text = message(&|| kernel().forward_masked(&ones([2, 4, 4, 6]), &ones([3, 3])));
        assert!(text.contains("mask f32[3,3] needs the shape of f32[3,3,6,1]"), "{text}");
        let dilated =
            nn::Conv { dilation: vec![1 << 62], ..nn::Conv::with_weight(ones([9, 6, 1])) };
        let circular = nn::Conv { padding_mode: PaddingMode::Circular, ..dilated };
        let text = message(&|| circular.forward(&x));
        assert!(text.contains("too large for Circular padding"), "{text}");
    }
}
