//! Gated linear units.

use super::{expect_close, normal};
use oxidax::kernels::{
    GluActivation, GluOptions, LinearGluOptions, gelu_and_mul, gelu_and_mul_with, linear_glu,
    linear_glu_with, sigmoid_and_mul, sigmoid_and_mul_with, silu_and_mul, silu_and_mul_with,
};
use oxidax::prelude::*;

fn reference(gate: &Array, up: &Array, activation: GluActivation) -> Array {
    match activation {
        GluActivation::Sigmoid => sigmoid(gate) * up,
        GluActivation::Silu => silu(gate) * up,
        GluActivation::Gelu => gelu(gate) * up,
    }
}

fn with_kernel(gate: &Array, up: &Array, activation: GluActivation, blocked: bool) -> Array {
    let options = GluOptions { block_sizes: blocked.then_some((16, 128)) };
    match activation {
        GluActivation::Sigmoid => sigmoid_and_mul_with(gate, up, &options),
        GluActivation::Silu => silu_and_mul_with(gate, up, &options),
        GluActivation::Gelu => gelu_and_mul_with(gate, up, &options),
    }
}

const ACTIVATIONS: [GluActivation; 3] =
    [GluActivation::Sigmoid, GluActivation::Silu, GluActivation::Gelu];

/// Returns the result and the gradients of a weighted sum of it.
fn results<P: Tree>(
    function: impl Fn(&P) -> Array + Send + Sync + 'static,
    operands: &P,
    weights: &Array,
) -> Vec<Array> {
    let step = jit(move |operands: &P, weights: &Array| {
        let gradients = grad(|operands: &P| (function(operands) * weights).sum())(operands);
        std::iter::once(function(operands)).chain(tree::leaves(&gradients)).collect::<Vec<_>>()
    });
    step.call(operands, weights).unwrap()
}

fn wide(x: &Array) -> Array {
    x.astype(DType::F64)
}

mod on_cpu {
    use super::*;

    #[test]
    fn functions_without_options_have_the_default_ones() {
        let (gate, up) = (normal(0, [6, 80], DType::F32), normal(1, [6, 80], DType::F32));
        for (unit, activation) in
            [sigmoid_and_mul, silu_and_mul, gelu_and_mul].into_iter().zip(ACTIVATIONS)
        {
            let expected = with_kernel(&gate, &up, activation, false);
            expect_close(&[unit(&gate, &up)], &[expected], DType::F32, &format!("{activation:?}"));
        }
        let weight = |seed| normal(seed, [80, 32], DType::F32);
        let expected = silu_and_mul(&gate.matmul(&weight(2)), &gate.matmul(&weight(3)));
        let found = linear_glu(&gate, &weight(2), &weight(3));
        expect_close(&[found], &[expected], DType::F32, "linear");
    }

    #[test]
    fn units_of_two_arrays_equal_the_reference() {
        for (shape, dtype) in
            [([3, 7, 80], DType::F32), ([2, 9, 300], DType::F32), ([2, 9, 300], DType::BF16)]
        {
            for activation in ACTIVATIONS {
                let operands = (normal(0, shape, dtype) * 2.0, normal(1, shape, dtype));
                let weights = normal(2, shape, dtype);
                for blocked in [false, true] {
                    let found = results(
                        move |(gate, up): &(Array, Array)| {
                            with_kernel(gate, up, activation, blocked)
                        },
                        &operands,
                        &weights,
                    );
                    let expected = results(
                        move |(gate, up): &(Array, Array)| reference(gate, up, activation),
                        &tree::map(&operands, wide),
                        &wide(&weights),
                    );
                    let what = format!("{shape:?} {dtype} {activation:?} {blocked}");
                    expect_close(&found, &expected, dtype, &what);
                }
            }
        }
    }

    #[test]
    fn units_of_two_products_equal_the_reference() {
        for dtype in [DType::F32, DType::BF16] {
            for activation in ACTIVATIONS {
                let weight = |seed| (normal(seed, [80, 200], DType::F32) * 0.2).astype(dtype);
                let operands = (normal(0, [3, 50, 80], dtype), weight(1), weight(2));
                let weights = normal(3, [3, 50, 200], dtype);
                for block_sizes in [None, Some((128, 128))] {
                    let options = LinearGluOptions { activation, block_sizes };
                    let found = results(
                        {
                            let options = options.clone();
                            move |(x, w, v): &(Array, Array, Array)| {
                                linear_glu_with(x, w, v, &options)
                            }
                        },
                        &operands,
                        &weights,
                    );
                    let expected = results(
                        move |(x, w, v): &(Array, Array, Array)| {
                            reference(&x.matmul(w), &x.matmul(v), activation)
                        },
                        &tree::map(&operands, wide),
                        &wide(&weights),
                    );
                    let what = format!("{dtype} {activation:?} {block_sizes:?}");
                    expect_close(&found, &expected, dtype, &what);
                }
            }
        }
    }
}
