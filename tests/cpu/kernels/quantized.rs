//! Products with quantized weights, and their derivatives.

use crate::ops::support::{assert_close, f64s};
use expect_test::expect;
use oxidax::kernels::{
    Activations, Quantization, QuantizedMatmulOptions, QuantizedWeight, quantized_matmul,
    quantized_matmul_with,
};
use oxidax::prelude::*;

const ALL: [Quantization; 4] = [
    Quantization::Int8 { group_size: None },
    Quantization::Int8 { group_size: Some(32) },
    Quantization::Int4 { group_size: 32 },
    Quantization::Int4 { group_size: 64 },
];

fn as_f64(x: &Array) -> Vec<f64> {
    f64s(&x.astype(DType::F64))
}

fn quantized(weight: &Array, quantization: Quantization, has_zeros: bool) -> QuantizedWeight {
    match has_zeros {
        false => QuantizedWeight::quantize(weight, quantization),
        true => QuantizedWeight::quantize_with_zero_points(weight, quantization),
    }
}

/// Returns the product `[m, k] · [k, n]`.
fn product(x: &[f64], w: &[f64], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let at = |row: usize, j: usize| (0..k).map(|i| x[row * k + i] * w[i * n + j]).sum();
    (0..m * n).map(|index| at(index / n, index % n)).collect()
}

/// Returns the product `[m, n] · [k, n]ᵀ`.
fn product_transposed(ct: &[f64], w: &[f64], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let at = |row: usize, i: usize| (0..n).map(|j| ct[row * n + j] * w[i * n + j]).sum();
    (0..m * k).map(|index| at(index / k, index % k)).collect()
}

/// Rounds rows to integers of 8 bits times their scale.
fn rounded_rows(x: &[f64], k: usize) -> Vec<f64> {
    let row = |row: &[f64]| -> Vec<f64> {
        let scale = row.iter().fold(0.0f64, |most, x| most.max(x.abs())) as f32 / 127.0;
        row.iter().map(|&x| f64::from((x as f32 / scale).round_ties_even() * scale)).collect()
    };
    x.chunks(k).flat_map(row).collect()
}

/// Compares the product and its derivative with sums in `f64` over the dequantized weight.
fn check(weight: &QuantizedWeight, m: usize, dtype: DType, options: &QuantizedMatmulOptions) {
    let [k, n] = weight.shape();
    let x = random::normal(random::key(1), [m, k]).astype(dtype);
    let ct = random::normal(random::key(2), [m, n]).astype(dtype);
    let with_options = options.clone();
    let run = jit(move |x: &Array, weight: &QuantizedWeight, ct: &Array| {
        let (weight, options) = (weight.clone(), with_options.clone());
        let (y, pull) = vjp(move |x: &Array| quantized_matmul_with(x, &weight, &options), x);
        (y, pull(ct))
    });
    let (y, of_x) = run.call(&x, weight, &ct).unwrap();
    assert_eq!((y.dtype(), of_x.dtype()), (dtype, dtype));
    let [x, w, ct] = [&x, &weight.dequantize(), &ct].map(as_f64);
    let x = if options.activations == Activations::Int8 { rounded_rows(&x, k) } else { x };
    // The backward pass rounds scaled cotangents to the dtype before it sums them.
    let (forward, backward) = if dtype == DType::F32 { (3e-5, 3e-5) } else { (5e-3, 0.12) };
    // Half the largest number of a row, which is frequent in `bf16`, may round down or up.
    let is_tied = options.activations == Activations::Int8 && dtype == DType::BF16;
    let tolerance = if is_tied { 0.15 } else { forward };
    assert_close(&as_f64(&y), &product(&x, &w, [m, k, n]), tolerance);
    assert_close(&as_f64(&of_x), &product_transposed(&ct, &w, [m, k, n]), backward);
}

mod on_cpu {
    use super::*;

    fn check_all(activations: Activations, interpret: bool) {
        let weight = random::normal(random::key(0), [200, 150]) + 0.25;
        let options = QuantizedMatmulOptions {
            activations,
            interpret,
            block_m: Some(32),
            block_k: Some(128),
            block_n: Some(128),
        };
        for quantization in ALL {
            for (has_zeros, dtype) in [(false, DType::BF16), (true, DType::F32)] {
                check(&quantized(&weight, quantization, has_zeros), 37, dtype, &options);
            }
        }
    }

    #[test]
    fn equals_sums_over_dequantized_weights() {
        check_all(Activations::Float, false);
    }

    #[test]
    fn equals_sums_in_the_blocks_of_other_platforms() {
        check_all(Activations::Float, true);
    }

    #[test]
    fn equals_sums_of_rounded_activations() {
        check_all(Activations::Int8, false);
    }

    #[test]
    fn equals_sums_of_rounded_activations_in_the_blocks_of_other_platforms() {
        check_all(Activations::Int8, true);
    }

    #[test]
    fn one_row_uses_small_blocks() {
        let weight = random::normal(random::key(0), [1100, 140]);
        for quantization in ALL {
            let weight = QuantizedWeight::quantize(&weight, quantization);
            check(&weight, 1, DType::F32, &QuantizedMatmulOptions::default());
        }
    }

    #[test]
    fn weights_are_rounded_to_the_nearest_integer() {
        let weight = random::normal(random::key(0), [70, 5]).at(i![.., 2]).set(0.0);
        for (has_zeros, levels) in [(false, [127.0, 7.0]), (true, [127.5, 7.5])] {
            for quantization in ALL {
                let levels = levels[usize::from(matches!(quantization, Quantization::Int4 { .. }))];
                let quantized = quantized(&weight, quantization, has_zeros);
                let error = (quantized.dequantize() - &weight).abs().max().item::<f32>().unwrap();
                let most = weight.abs().max().item::<f32>().unwrap();
                // Half a step, and as much again at the ends of a range whose zero was rounded.
                let bound = most / levels * if has_zeros { 1.0 } else { 0.5 };
                assert!(error > 0.0 && error <= bound * 1.001, "{error} > {bound}");
                let zeros = quantized.dequantize().index(i![.., 2]).abs().max();
                assert_eq!(zeros.item::<f32>().unwrap(), 0.0);
            }
        }
    }

    #[test]
    fn integers_of_four_bits_share_bytes_with_the_next_group() {
        let column: Vec<f32> = (-8..8).map(|x| x.max(-7) as f32).collect();
        let weight = Array::from_slice(&column, [16, 1]).unwrap();
        let quantized = QuantizedWeight::quantize(&weight, Quantization::Int4 { group_size: 8 });
        let expected: Vec<i8> = column[..8]
            .iter()
            .zip(&column[8..])
            .map(|(&low, &high)| (low as i8 & 15) | ((high as i8) << 4))
            .collect();
        assert_eq!(quantized.values.to_vec::<i8>().unwrap(), expected);
        assert_eq!(quantized.scales.to_vec::<f32>().unwrap(), [1.0, 1.0]);
        assert_eq!(quantized.dequantize().to_vec::<f32>().unwrap(), column);
    }

    #[test]
    fn leading_axes_and_batches_are_rows() {
        let weight = random::normal(random::key(0), [64, 24]);
        for quantization in ALL {
            let weight = QuantizedWeight::quantize(&weight, quantization);
            let x = random::normal(random::key(1), [2, 3, 64]);
            let all = as_f64(&quantized_matmul(&x, &weight));
            let rows = quantized_matmul(&x.reshape([6, 64]), &weight);
            assert_eq!(as_f64(&rows), all);
            let mapped = vmap(|x: Array, weight: QuantizedWeight| quantized_matmul(&x, &weight))
                .in_axes((0, None))
                .apply(&x, &weight);
            assert_close(&as_f64(&mapped), &all, 1e-6);
        }
    }

    #[test]
    fn weights_are_constants_of_the_derivative() {
        let weight = random::normal(random::key(0), [64, 24]);
        let weight = QuantizedWeight::quantize(&weight, Quantization::Int4 { group_size: 32 });
        let x = random::normal(random::key(1), [3, 64]);
        let QuantizedWeight { values, scales, .. } = weight.clone();
        let loss = move |scales: &Array| {
            let weight = QuantizedWeight {
                values: values.clone(),
                scales: scales.clone(),
                ..weight.clone()
            };
            quantized_matmul(&x, &weight).sum()
        };
        assert_eq!(grad(loss)(&scales).abs().max().item::<f32>().unwrap(), 0.0);
    }

    #[test]
    fn no_rows_give_no_results() {
        let weight = QuantizedWeight::quantize(&ones([8, 4]), ALL[0]);
        assert_eq!(quantized_matmul(&zeros([0, 8]), &weight).shape().dims(), [0, 4]);
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let first = |error: Error| error.to_string().lines().next().unwrap().to_string();
    let refused = |x: Aval, w: Aval, quantization: Quantization| {
        let product = move |x: Array, w: Array| {
            quantized_matmul(&x, &QuantizedWeight::quantize(&w, quantization))
        };
        first(eval_shape(product, (x, w)).unwrap_err())
    };
    let f32s = |shape: &[usize]| Aval::new(DType::F32, shape);
    let shape = refused(f32s(&[8, 5]), f32s(&[4, 2]), ALL[0]);
    expect!["error[shape]: quantized_matmul: takes activations […, 4], got f32[8,5]"]
        .assert_eq(&shape);
    let dtype = refused(Aval::new(DType::I32, [8, 4]), f32s(&[4, 2]), ALL[0]);
    expect!["error[dtype]: quantized_matmul: takes floats of at most 32 bits, got i32"]
        .assert_eq(&dtype);
    let rank = refused(f32s(&[8, 4]), f32s(&[4]), ALL[0]);
    expect![
        "error[shape]: QuantizedWeight::quantize: takes a matrix [k, n] with elements, got f32[4]"
    ]
    .assert_eq(&rank);
    let group = refused(f32s(&[8, 4]), f32s(&[4, 2]), Quantization::Int4 { group_size: 0 });
    expect!["error[shape]: QuantizedWeight::quantize: a group size of 0 in Int4 { group_size: 0 }"]
        .assert_eq(&group);
}
