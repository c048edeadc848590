//! Norms with and without a residual.

use super::{difference, expect_close, normal};
use oxidax::kernels::{
    LayerNormOptions, RmsNormOptions, add_layer_norm, add_layer_norm_with, add_rms_norm,
    add_rms_norm_with, layer_norm, layer_norm_with, rms_norm,
};
use oxidax::prelude::*;

/// Operands: `x`, the residual, scale and bias.
type Operands = (Array, Array, Array, Array);

#[test]
fn operands_that_do_not_fit_are_refused() {
    let norm = |x: Array, scale: Array| rms_norm(&x, &scale);
    let error = |x: Aval, scale: Aval| eval_shape(norm, (x, scale)).unwrap_err().to_string();
    let text = error(Aval::new(DType::F32, [4, 8]), Aval::new(DType::F32, [9]));
    assert!(text.contains("takes a scale of [8], got f32[9]"), "{text}");
    assert!(text.contains("norms.rs"), "{text}");
    let text = error(Aval::new(DType::F64, [4, 8]), Aval::new(DType::F32, [8]));
    assert!(text.contains("x must be bf16, f16 or f32"), "{text}");
}

fn reference((x, residual, scale, bias): &Operands, is_centred: bool) -> [Array; 2] {
    let sum = x + residual;
    let centred = if is_centred { &sum - sum.mean_axes(axes(-1).keepdims()) } else { sum.clone() };
    let variance = (&centred * &centred).mean_axes(axes(-1).keepdims());
    let y = centred * rsqrt(&(variance + 1e-5)) * scale;
    [if is_centred { y + bias } else { y }, sum]
}

fn with_kernel((x, residual, scale, bias): &Operands, is_centred: bool) -> [Array; 2] {
    let (y, sum) = if is_centred {
        let options = LayerNormOptions { epsilon: 1e-5, block_rows: Some(16) };
        add_layer_norm_with(x, residual, scale, Some(bias), &options)
    } else {
        let options = RmsNormOptions { epsilon: 1e-5, block_rows: Some(16) };
        add_rms_norm_with(x, residual, scale, &options)
    };
    [y, sum]
}

/// Returns the results, and the gradients of a weighted sum of them.
fn results(
    function: impl Fn(&Operands) -> [Array; 2] + Send + Sync + 'static,
    operands: &Operands,
    weights: &[Array; 2],
) -> Vec<Array> {
    let step = jit(move |operands: &Operands, weights: &Vec<Array>| {
        let weighted = |operands: &Operands| {
            let [y, sum] = function(operands);
            (y * &weights[0]).sum() + (sum * &weights[1]).sum()
        };
        let (dx, dr, dscale, dbias) = grad(weighted)(operands);
        function(operands).into_iter().chain([dx, dr, dscale, dbias]).collect::<Vec<_>>()
    });
    step.call(operands, weights.to_vec()).unwrap()
}

mod on_cpu {
    use super::*;

    #[test]
    fn norms_of_sums_equal_the_reference() {
        for (features, dtype) in
            [(80, DType::F32), (768, DType::F32), (768, DType::BF16), (1, DType::F32)]
        {
            for is_centred in [false, true] {
                let matrix = |seed| normal(seed, [5, 11, features], dtype);
                let vector = |seed| normal(seed, [features], DType::F32);
                let operands = (matrix(0), matrix(1), vector(2), vector(3));
                let weights = [matrix(4), matrix(5)];
                let found = results(move |of| with_kernel(of, is_centred), &operands, &weights);
                let wide = tree::map(&operands, |x| x.astype(DType::F64));
                let weights = weights.map(|x| x.astype(DType::F64));
                let expected = results(move |of| reference(of, is_centred), &wide, &weights);
                let what = format!("{features} {dtype} {is_centred}");
                expect_close(&found, &expected, dtype, &what);
            }
        }
    }

    #[test]
    fn functions_without_options_have_the_default_ones() {
        let (x, residual) = (normal(0, [6, 80], DType::F32), normal(1, [6, 80], DType::F32));
        let (scale, bias) = (normal(2, [80], DType::F32), normal(3, [80], DType::F32));
        let (of_rms, of_layer) = (RmsNormOptions::default(), LayerNormOptions::default());
        let bias = Some(&bias);
        let (y, sum) = add_rms_norm(&x, &residual, &scale);
        let (other, other_sum) = add_rms_norm_with(&x, &residual, &scale, &of_rms);
        assert_eq!(difference(&y, &other), 0.0);
        assert_eq!(difference(&sum, &other_sum), 0.0);
        let (y, sum) = add_layer_norm(&x, &residual, &scale, bias);
        let (other, other_sum) = add_layer_norm_with(&x, &residual, &scale, bias, &of_layer);
        assert_eq!(difference(&y, &other), 0.0);
        assert_eq!(difference(&sum, &other_sum), 0.0);
        let large = LayerNormOptions { epsilon: 1.0, ..of_layer };
        let y = layer_norm(&x, &scale, bias);
        assert!(difference(&y, &layer_norm_with(&x, &scale, bias, &large)) > 0.01);
    }

    #[test]
    fn norms_equal_the_layers_and_batch() {
        let x = normal(0, [6, 7, 80], DType::F32);
        let (scale, bias) = (normal(1, [80], DType::F32), normal(2, [80], DType::F32));
        let layer = nn::LayerNorm::with_scale(scale.clone()).with_bias(bias.clone());
        let of = move |x: Array, scale: Array, bias: Array| layer_norm(&x, &scale, Some(&bias));
        let mapped = vmap(of).in_axes((0, None, None)).apply(&x, &scale, &bias);
        assert!(difference(&mapped, &layer.forward(&x)) < 1e-5);
        let compiled = jit(of).call(&x, &scale, &bias).unwrap();
        assert!(difference(&compiled, &layer.forward(&x)) < 1e-5);
        let without_bias = layer_norm(&x, &scale, None);
        assert!(difference(&without_bias, &layer.without_bias().forward(&x)) < 1e-5);
        let gradient = |x: Array, scale: Array| {
            let norm = |(x, scale): &(Array, Array)| (rms_norm(x, scale) * 2.0).sin().sum();
            grad(norm)(&(x, scale))
        };
        let plain = |(x, scale): &(Array, Array)| {
            (nn::RmsNorm::with_scale(scale.clone()).forward(x) * 2.0).sin().sum()
        };
        let (dx, dscale) = vmap(gradient).in_axes((0, None)).apply(&x, &scale);
        let (expected_dx, expected_dscale) = grad(plain)(&(x, scale));
        assert!(difference(&dx, &expected_dx) < 1e-5);
        assert!(difference(&dscale.sum_axes(0), &expected_dscale) < 1e-5);
    }
}
