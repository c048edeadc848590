//! Random networks of equal layers, with and without functions for the layers.

use crate::arrays::Numbers;
use oxidax::jit::{disable_most_optimizations, disable_outlining};
use oxidax::prelude::*;

/// Sizes of the square matrices. Two products are enough arithmetic for a function.
const N: usize = 64;

/// The networks that are compared.
const SEEDS: std::ops::Range<i64> = 0..14;

/// One operation of a layer on `f64[N, N]`.
fn operation(kind: usize, layer: usize, [x, before, weight, mask]: [&Array; 4]) -> Array {
    match kind {
        0 => standardize(x, -1, 1e-5),
        1 => tanh(x),
        2 => gelu(x),
        3 => x + before,
        4 => softmax(x, -1) * 4.0,
        5 => x * weight,
        6 => x * (0.5 + layer as f32),
        7 => where_(mask.greater(0.0), x, before),
        8 => x.t(),
        9 => {
            let parts = split(x, 2, -1);
            concatenate([&parts[1], &parts[0]], -1)
        }
        10 => x - &x.mean_axes(axes(0).keepdims()),
        11 => maximum(x, -0.5),
        _ => x + &weight.index(i![layer as isize, ..]),
    }
}

/// The operations of a layer, by kind.
fn recipe(seed: i64) -> (Vec<usize>, usize) {
    let mut numbers = Numbers::new(seed.unsigned_abs());
    let n = 5 + numbers.below(8);
    let kinds = (0..n).map(|_| numbers.below(13)).collect();
    (kinds, 3 + numbers.below(4))
}

fn network(kinds: &[usize], weights: &[Array], mask: &Array, x: &Array) -> Array {
    let mut x = x.clone();
    for (layer, weight) in weights.iter().enumerate() {
        let before = x.clone();
        x = standardize(&x, -1, 1e-5).matmul(weight) * 0.2;
        for &kind in kinds {
            x = operation(kind, layer, [&x, &before, weight, mask]);
        }
        x = standardize(x.matmul(weight), -1, 1e-5) + &before;
    }
    x
}

mod on_cpu {
    use super::*;

    /// Returns the largest difference of two trees, each leaf relative to its largest element.
    fn apart<T: Tree>(a: &T, b: &T) -> f64 {
        let both = tree::leaves(a).into_iter().zip(tree::leaves(b));
        let each = both.map(|(a, b)| {
            let (a, b) = (a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
            let largest = b.iter().fold(f64::MIN_POSITIVE, |most, x| most.max(x.abs()));
            a.iter().zip(&b).map(|(a, b)| (a - b).abs() / largest).fold(0.0, f64::max)
        });
        each.fold(0.0, f64::max)
    }

    #[test]
    fn functions_for_layers_do_not_change_results() {
        let mut outlined = 0;
        for seed in SEEDS {
            let (kinds, depth) = recipe(seed);
            let f = jit(|weights: Vec<Array>, mask: Array, x: Array| {
                let loss = |weights: &Vec<Array>| {
                    let y = network(&kinds, weights, &mask, &x);
                    (&y * &y).mean()
                };
                value_and_grad(loss)(&weights)
            });
            let keys = random::split(random::key(seed), depth);
            let matrix =
                |key: random::Key| convert_element_type(&random::normal(key, [N, N]), DType::F64);
            let weights: Vec<Array> = keys.into_iter().map(matrix).collect();
            let (mask, x) = (matrix(random::key(1)), matrix(random::key(2)));
            let lowered = f.lower(&weights, &mask, &x).unwrap();
            outlined += usize::from(!lowered.repeated_parts("cpu").unwrap().is_empty());
            // Most of the time goes to compilation.
            let call = || disable_most_optimizations(|| f.call(&weights, &mask, &x)).unwrap();
            let apart = apart(&call(), &disable_outlining(call));
            // Some networks amplify rounding, but none a thousand million times.
            assert!(apart <= 1e-7, "seed {seed}, {depth} layers of {kinds:?}: {apart:e} apart");
        }
        assert!(outlined >= 8, "{outlined} networks have functions for their layers");
    }
}
