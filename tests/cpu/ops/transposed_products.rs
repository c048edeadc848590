//! Products that take over permutations of their operands' axes.

use crate::arrays::Numbers;
use oxidax::jit::disable_most_optimizations;
use oxidax::prelude::*;
use oxidax::primitives::DotGeneral;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn permutation(numbers: &mut Numbers, rank: usize) -> Vec<usize> {
    let mut axes: Vec<usize> = (0..rank).collect();
    for last in (1..rank).rev() {
        axes.swap(last, numbers.below(last + 1));
    }
    axes
}

/// A product of two operands whose axes are permuted, once or twice.
#[derive(Clone)]
struct Case {
    dot: DotGeneral,
    shapes: [Vec<usize>; 2],
    orders: [Vec<Vec<usize>>; 2],
}

impl Case {
    fn random(numbers: &mut Numbers) -> Case {
        let [batch, contracting] = [numbers.below(3), numbers.below(3)];
        let sizes: Vec<usize> = (0..batch + contracting).map(|_| 1 + numbers.below(4)).collect();
        let mut side = || {
            let free: Vec<usize> = (0..numbers.below(3)).map(|_| 1 + numbers.below(4)).collect();
            // The axes of the product's operand, in a random order.
            let places = permutation(numbers, batch + contracting + free.len());
            let mut product = vec![0; places.len()];
            for (&place, &size) in places.iter().zip(sizes.iter().chain(&free)) {
                product[place] = size;
            }
            let orders: Vec<_> =
                (0..1 + numbers.below(2)).map(|_| permutation(numbers, places.len())).collect();
            // The shape before the permutations, which are applied in order.
            let shape = orders.iter().rev().fold(product, |shape, order| {
                let mut before = vec![0; shape.len()];
                for (&axis, &size) in order.iter().zip(&shape) {
                    before[axis] = size;
                }
                before
            });
            let axes = |from: usize, count: usize| places[from..from + count].to_vec();
            (shape, orders, axes(0, batch), axes(batch, contracting))
        };
        let (lhs, lhs_orders, lhs_batch, lhs_contracting) = side();
        let (rhs, rhs_orders, rhs_batch, rhs_contracting) = side();
        let dot = DotGeneral {
            lhs_batch,
            lhs_contracting,
            rhs_batch,
            rhs_contracting,
            ..Default::default()
        };
        Case { dot, shapes: [lhs, rhs], orders: [lhs_orders, rhs_orders] }
    }

    fn apply(&self, x: &Array, y: &Array) -> Array {
        let [x, y] = [(x, 0), (y, 1)].map(|(operand, side)| {
            self.orders[side].iter().fold(operand.clone(), |x, order| transpose(&x, order))
        });
        dot_general(&x, &y, self.dot.clone())
    }

    /// Returns integers, whose products have no rounding.
    fn operands(&self) -> [Array; 2] {
        self.shapes.clone().map(|shape| {
            let count: usize = shape.iter().product();
            (arange(count).reshape(shape) * 7 + 3) % 11 - 5
        })
    }
}

/// Returns the number of transpositions in the text for a platform.
fn transpositions(f: impl Fn(Array, Array) -> Array, avals: [Aval; 2], platform: &str) -> usize {
    let [x, y] = avals;
    let program = make_program(f, (x, y)).unwrap();
    let text = oxidax::passes::lower(&program, "f", platform).unwrap().text;
    text.matches("stablehlo.transpose").count()
}

/// Multiplies a vector by a transposed matrix in a loop.
fn step(a: Array, v: Array) -> Array {
    fori_loop(0, 5, move |_, v: Array| a.t().matmul(&v), v)
}

#[test]
fn transposed_matrix_is_not_copied_in_a_loop() {
    let matrix = |dtype| Aval::new(dtype, [3, 3]);
    let vector = |dtype| Aval::new(dtype, [3]);
    let count = |dtype, platform| transpositions(step, [matrix(dtype), vector(dtype)], platform);
    assert_eq!(count(DType::F32, "cpu"), 0);
    assert_eq!(count(DType::F32, "tpu"), 1);
    assert_eq!(count(DType::BF16, "cpu"), 0);
}

#[test]
fn transposition_that_is_also_used_elsewhere_stays() {
    let both = |a: Array, b: Array| a.t().matmul(&b) + a.t().sum();
    let twice = |a: Array, b: Array| {
        let t = a.t();
        t.matmul(&b) + &t
    };
    let avals = || [Aval::new(DType::F32, [3, 3]), Aval::new(DType::F32, [3, 3])];
    assert_eq!(transpositions(both, avals(), "cpu"), 1);
    assert_eq!(transpositions(twice, avals(), "cpu"), 1);
}

mod on_cpu {
    use super::*;

    #[test]
    fn random_products_of_permuted_operands_are_exact() {
        let mut numbers = Numbers::new(5);
        let (mut folded, mut left) = (0, 0);
        for number in 0..40 {
            let case = Case::random(&mut numbers);
            let [x, y] = case.operands();
            // Outside of `jit`, each operation is a program of its own.
            let expected = disable_most_optimizations(|| case.apply(&x, &y));
            let compiled = {
                let case = case.clone();
                jit(move |x: &Array, y: &Array| case.apply(x, y))
            };
            let text = compiled.lower(&x, &y).unwrap().as_text("cpu").unwrap();
            match text.contains("stablehlo.transpose") {
                true => left += 1,
                false => folded += 1,
            }
            let found = disable_most_optimizations(|| compiled.call(&x, &y)).unwrap();
            assert_eq!(found.shape(), expected.shape(), "case {number}");
            assert_eq!(
                found.to_vec::<i32>().unwrap(),
                expected.to_vec::<i32>().unwrap(),
                "case {number}: {:?}",
                case.dot
            );
        }
        assert!(folded > 5 && left > 5, "{folded} without a transposition, {left} with one");
    }

    /// Operations without results, such as callbacks, stay.
    #[test]
    fn product_beside_a_callback_is_folded() {
        let calls = Arc::new(AtomicUsize::new(0));
        let f = {
            let calls = calls.clone();
            jit(move |x: &Array, y: &Array| {
                let calls = calls.clone();
                let count = move |_: &[oxidax::core::HostArray]| {
                    calls.fetch_add(1, Ordering::Relaxed);
                };
                debug::callback(count, [y]);
                (zeros([2]).at(i![0]).add(1.0) + y).sum() + x.t().matmul(y).sum()
            })
        };
        let total = f.call(ones([2, 2]), ones([2])).unwrap();
        assert_eq!(total.item::<f32>().unwrap(), 7.0);
        oxidax::jit::effects_barrier().unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn loop_with_a_transposed_matrix_equals_its_steps() {
        let x =
            Array::from_slice(&[1.0f32, 2.0, 0.0, 0.0, 1.0, 3.0, 1.0, 0.0, 1.0], [3, 3]).unwrap();
        let y = Array::from_slice(&[1.0f32, -1.0, 2.0], [3]).unwrap();
        let found = jit(step).call(x.clone(), y.clone()).unwrap();
        let expected = (0..5).fold(y, |v, _| x.t().matmul(&v));
        assert_eq!(found.to_vec::<f32>().unwrap(), expected.to_vec::<f32>().unwrap());
    }

    #[test]
    fn bf16_products_of_empty_columns_are_zero() {
        let empty = |columns| zeros(([0, columns], DType::BF16));
        let product = jit(|x: &Array, y: &Array| contract_rows(x, y));
        let found = product.call(empty(4), empty(2)).unwrap();
        assert_eq!(found.astype(DType::F32).to_vec::<f32>().unwrap(), [0.0; 8]);
    }

    /// Sums over the first axis of both.
    fn contract_rows(x: &Array, y: &Array) -> Array {
        let how =
            DotGeneral { lhs_contracting: vec![0], rhs_contracting: vec![0], ..Default::default() };
        dot_general(x, y, how)
    }

    /// A processor may multiply `bf16` in a library that declines some of these products.
    #[test]
    fn bf16_products_of_every_orientation_are_exact() {
        let matrices = |step: usize| {
            let numbers: Vec<f32> =
                (0..2 * 32 * 32).map(|at| (at * step % 3) as f32 - 1.0).collect();
            Array::from_slice(&numbers, [2, 32, 32]).unwrap()
        };
        let (x, y) = (matrices(5), matrices(7));
        for (lhs, rhs, is_transposed) in
            [1, 2].iter().flat_map(|&lhs| [(lhs, 1, false), (lhs, 1, true), (lhs, 2, true)])
        {
            let product = jit(move |x: &Array, y: &Array| {
                let how = DotGeneral {
                    lhs_contracting: vec![lhs],
                    rhs_contracting: vec![rhs],
                    lhs_batch: vec![0],
                    rhs_batch: vec![0],
                    ..Default::default()
                };
                let z = dot_general(x, y, how);
                if is_transposed { z.swapaxes(1, 2) } else { z }
            });
            let expected = product.call(&x, &y).unwrap();
            let [x, y] = [&x, &y].map(|of| of.astype(DType::BF16));
            let found = product.call(&x, &y).unwrap();
            assert_eq!(found.dtype(), DType::BF16);
            assert_eq!(
                found.astype(DType::F32).to_vec::<f32>().unwrap(),
                expected.to_vec::<f32>().unwrap(),
                "sums over {lhs} and {rhs}, transposed: {is_transposed}"
            );
        }
    }
}
