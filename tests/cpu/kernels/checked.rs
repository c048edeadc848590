//! The kernels of the library, forward and backward, in the checked interpreter at sizes that their
//! blocks do not divide, compared with plain functions in `f64`.

use super::{expect_close, normal};
use oxidax::kernel;
use oxidax::kernels::{self, FlashAttentionOptions, Quantization, QuantizedWeight};
use oxidax::prelude::*;

type Function = fn(&[Array]) -> Array;

/// Returns the result and the gradients of the sum of its squares, by the leading float operands.
fn with_gradients(f: Function, operands: &[Array], n_floats: usize) -> Vec<Array> {
    let rest = operands[n_floats..].to_vec();
    let loss = |floats: &Vec<Array>| {
        let all = [floats.clone(), rest.clone()].concat();
        let y = f(&all);
        (&y * &y).sum()
    };
    let gradients = grad(loss)(&operands[..n_floats].to_vec());
    std::iter::once(f(operands)).chain(gradients).collect()
}

/// Checks a function with kernels, and compares it with one without, in `f64`.
#[track_caller]
fn check(kernels: Function, plain: Function, operands: &[Array], n_floats: usize) {
    let found = kernel::with_checks(|| with_gradients(kernels, operands, n_floats));
    let found = found.unwrap_or_else(|error| panic!("{error}"));
    let wide: Vec<Array> = operands
        .iter()
        .map(|x| if x.dtype().is_float() { x.astype(DType::F64) } else { x.clone() })
        .collect();
    let expected = with_gradients(plain, &wide, n_floats);
    expect_close(&found, &expected, DType::F32, "checked");
}

fn f32s<const N: usize>(seed: i64, shape: [usize; N]) -> Array {
    normal(seed, shape, DType::F32)
}

fn i32s<const N: usize>(values: [i32; N]) -> Array {
    Array::from_slice(&values, [N]).unwrap()
}

fn causal(x: &[Array]) -> Array {
    let options = FlashAttentionOptions { is_causal: true, ..Default::default() };
    kernels::flash_attention_with(&x[0], &x[1], &x[2], &options)
}

/// Attention `[b, t, n, h]` with one head of keys for two heads of queries.
fn plain_causal(x: &[Array]) -> Array {
    let [_, t, _, h] = x[0].dims();
    let [_, s, _, _] = x[1].dims();
    let repeated = |x: &Array| concatenate([x, x], 2);
    let (keys, values) = (repeated(&x[1]), repeated(&x[2]));
    let scores = einsum("btnh,bsnh->bnts", [&x[0], &keys]) / (h as f64).sqrt();
    let (row, column) =
        (broadcasted_iota(DType::I32, [t, s], 0), broadcasted_iota(DType::I32, [t, s], 1));
    let scores = where_(ge(row, column), scores, -1e30);
    einsum("bnts,bsnh->btnh", [&softmax(&scores, -1), &values])
}

fn plain_loss(x: &[Array]) -> Array {
    let logits = x[0].matmul(&x[1].t());
    nn::softmax_cross_entropy_with_integer_labels(&logits, &x[2])
}

fn plain_rms_norm(x: &[Array]) -> Array {
    let mean = (&x[0] * &x[0]).mean_axes(axes(1).keepdims());
    &x[0] * rsqrt(mean + 1e-6) * &x[1]
}

fn plain_layer_norm(x: &[Array]) -> Array {
    let centred = &x[0] - x[0].mean_axes(axes(1).keepdims());
    let variance = (&centred * &centred).mean_axes(axes(1).keepdims());
    centred * rsqrt(variance + 1e-6) * &x[1] + &x[2]
}

mod on_cpu {
    use super::*;

    #[test]
    fn flash_attention() {
        let operands =
            [f32s(0, [1, 150, 2, 64]), f32s(1, [1, 150, 1, 64]), f32s(2, [1, 150, 1, 64])];
        check(causal, plain_causal, &operands, 3);
    }

    #[test]
    fn linear_cross_entropy() {
        let labels = Array::from_slice(&Vec::from_iter((0..20).map(|i| i * 9)), [20]).unwrap();
        let operands = [f32s(0, [20, 96]), f32s(1, [200, 96]), labels];
        check(|x| kernels::linear_cross_entropy(&x[0], &x[1], &x[2]), plain_loss, &operands, 2);
    }

    #[test]
    fn norms() {
        let (x, scale, bias) = (f32s(0, [300, 80]), f32s(1, [80]), f32s(2, [80]));
        let operands = [x.clone(), scale.clone()];
        check(|x| kernels::rms_norm(&x[0], &x[1]), plain_rms_norm, &operands, 2);
        let layer_norm: Function = |x| kernels::layer_norm(&x[0], &x[1], Some(&x[2]));
        check(layer_norm, plain_layer_norm, &[x, scale, bias], 3);
    }

    #[test]
    fn gated_linear_units() {
        let operands = [f32s(0, [300, 150]), f32s(1, [300, 150])];
        let plain: Function = |x| &x[0] * sigmoid(&x[0]) * &x[1];
        check(|x| kernels::silu_and_mul(&x[0], &x[1]), plain, &operands, 2);
    }

    /// Four groups, one of them empty.
    #[test]
    fn grouped_matmul() {
        let operands = [f32s(0, [150, 40]), f32s(1, [4, 40, 72]), i32s([70, 0, 13, 67])];
        let plain: Function = |x| {
            let (starts, ends) = ([0, 70, 70, 83], [70, 70, 83, 150]);
            let rows = |g: usize| x[0].index(i![starts[g]..ends[g]]).matmul(&x[1].index(i![g]));
            concatenate((0..4).map(rows), 0)
        };
        check(|x| kernels::grouped_matmul(&x[0], &x[1], &x[2]), plain, &operands, 2);
    }

    #[test]
    fn quantized_matmul() {
        fn weight(quantization: Quantization) -> QuantizedWeight {
            QuantizedWeight::quantize(&f32s(7, [192, 150]), quantization)
        }
        let operands = [f32s(0, [20, 192])];
        let int8: Function =
            |x| kernels::quantized_matmul(&x[0], &weight(Quantization::Int8 { group_size: None }));
        let plain8: Function = |x| {
            let weight = weight(Quantization::Int8 { group_size: None }).dequantize();
            x[0].matmul(&weight.astype(x[0].dtype()))
        };
        check(int8, plain8, &operands, 1);
        let int4: Function =
            |x| kernels::quantized_matmul(&x[0], &weight(Quantization::Int4 { group_size: 64 }));
        let plain4: Function = |x| {
            let weight = weight(Quantization::Int4 { group_size: 64 }).dequantize();
            x[0].matmul(&weight.astype(x[0].dtype()))
        };
        check(int4, plain4, &operands, 1);
    }

    /// Sequences of 5, 0 and 11 tokens in pages of 8. It has no derivative.
    #[test]
    fn paged_attention() {
        let (query, keys, values) =
            (f32s(0, [3, 2, 64]), f32s(1, [1, 6, 8, 64]), f32s(2, [1, 6, 8, 64]));
        let lengths = i32s([5, 0, 11]);
        let table = i32s([3, 0, 1, 1, 5, 2]).reshape([3, 2]);
        let run = || kernels::paged_attention(&query, &keys, &values, &lengths, &table);
        let found = kernel::with_checks(run).unwrap_or_else(|error| panic!("{error}"));
        let rows = |pages: &Array, sequence: usize, length: usize| {
            let pages = pages.index(i![0]).index(i![&table.index(i![sequence])]);
            pages.reshape([16, 64]).index(i![..length]).astype(DType::F64)
        };
        for (sequence, length) in [(0, 5), (2, 11)] {
            let (keys, values) = (rows(&keys, sequence, length), rows(&values, sequence, length));
            let scores = query.index(i![sequence]).astype(DType::F64).matmul(&keys.t()) / 8.0;
            let expected = softmax(&scores, -1).matmul(&values);
            expect_close(&[found.index(i![sequence])], &[expected], DType::F32, "paged");
        }
        assert_eq!(found.index(i![1]).abs().max().item::<f32>().unwrap(), 0.0);
    }
}
