//! Errors of options of `lax`, `linalg` and `random`, and scopes that set them.

use oxidax::linalg::{self, EigImplementation, EigOptions, EighImplementation, EighOptions};
use oxidax::prelude::*;
use oxidax::primitives::{
    AccuracyMode, AccuracyOptions, ApproxTopKOptions, Tolerance, Window, approx_max_k_with,
    approx_min_k_with, tanh_with,
};

#[track_caller]
fn assert_rejected(f: fn(&Array) -> Array, phrases: &[&str]) {
    let error = eval_shape(move |x: Array| f(&x), Aval::new(DType::F32, [3, 3])).unwrap_err();
    let text = error.to_string();
    for phrase in phrases.iter().chain(&["lax_options.rs"]) {
        assert!(text.contains(phrase), "no `{phrase}` in\n{text}");
    }
}

#[test]
fn weights_of_quantiles_are_checked() {
    assert_rejected(
        |x| quantile_with(x, 0.5, 0, QuantileOptions { weights: Some(x), ..Default::default() }),
        &["quantile: the method Linear takes no weights", "InvertedCdf"],
    );
    assert_rejected(
        |x| {
            let (method, weights) = (QuantileMethod::InvertedCdf, Some(&ones([2])));
            let weights = weights.cloned();
            let options = QuantileOptions { method, weights: weights.as_ref() };
            nanquantile_with(x, 0.5, 0, options)
        },
        &["nanquantile: weights must have the shape", "[3,3]", "[3], got [2]"],
    );
}

#[test]
fn accuracies_are_checked() {
    assert_rejected(
        |x| {
            let tolerance = Tolerance { rtol: 1e-3, ulps: 2, ..Default::default() };
            tanh_with(x, AccuracyOptions { accuracy: AccuracyMode::Tolerance(tolerance) })
        },
        &["tanh: the tolerance states both", "rtol: 0.001", "state atol, rtol or ulps"],
    );
}

#[test]
fn algorithms_and_ranges_of_decompositions_are_checked() {
    assert_rejected(
        |x| {
            let implementation = EighImplementation::Qdwh;
            let options = EighOptions { implementation, ..Default::default() };
            linalg::eigvalsh_with(x, options)
        },
        &["eigh: the algorithm Qdwh is not available", "Default or Jacobi"],
    );
    assert_rejected(
        |x| {
            let options = EigOptions { implementation: EigImplementation::Lapack };
            linalg::eig_with(x, options).eigenvalues
        },
        &["eig: the algorithm Lapack is not available"],
    );
    assert_rejected(
        |x| {
            let options = EighOptions { subset_by_index: Some(1..4), ..Default::default() };
            linalg::eigvalsh_with(x, options)
        },
        &["eigh: subset_by_index is 1..4, and there are 3 values"],
    );
}

#[test]
fn approximate_searches_are_checked() {
    let options = |reduction_input_size| ApproxTopKOptions {
        reduction_input_size,
        ..ApproxTopKOptions::default()
    };
    let too_small = move |x: Array| approx_max_k_with(&x, 2, -1, options(Some(2))).0;
    let error = eval_shape(too_small, Aval::new(DType::F32, [3])).unwrap_err().to_string();
    assert!(error.contains("approx_max_k: reduction_input_size is 2"), "{error}");
    let integers = move |x: Array| approx_min_k_with(&x, 2, -1, options(None)).0;
    let error = eval_shape(integers, Aval::new(DType::I32, [3])).unwrap_err().to_string();
    assert!(error.contains("approx_min_k: needs a float operand, got i32"), "{error}");
}

#[test]
fn operands_of_several_are_checked() {
    assert_rejected(
        |x| {
            let window = Window { dimensions: vec![2, 1], ..Default::default() };
            let sum = |(a, b): (Array, Array), (c, d): (Array, Array)| (a + c, b + d);
            let init = (scalar(0.0), scalar(0.0));
            reduce_window_multi((x, &ones([2])), init, sum, &window).0
        },
        &["$[1]: reduce_window: f32[2] has another shape than the first, [3,3]"],
    );
    assert_rejected(
        |x| {
            let row = NestedBlocks::row([x, x]);
            block(NestedBlocks::List(vec![row.clone(), NestedBlocks::List(vec![row])]))
        },
        &["block: lists of different depths are mixed"],
    );
    assert_rejected(
        |x| vectorize(None, |_| vec![ones([2])])(&[x]).swap_remove(0),
        &["vectorize: results have [1] axes, without a signature they must be scalars"],
    );
    assert_rejected(
        |x| {
            let offset = ones([2]).astype(DType::I32);
            let options =
                RaggedDotOptions { group_offset: Some(&offset), ..RaggedDotOptions::default() };
            ragged_dot_with(x, &ones([1, 3, 2]), &arange(2), options)
        },
        &["ragged_dot: group_offset must have the shape [] or [1], got [2]"],
    );
}

#[test]
fn a_send_is_received_by_the_same_pairs() {
    let mixed = |x: Array| {
        let exchange = |x: Array| precv(psend(&x, "i", &[(0, 1), (1, 0)]), "i", &[(0, 1)]);
        vmap(exchange).axis_name("i").apply(&x)
    };
    let error = eval_shape(mixed, Aval::new(DType::F32, [2])).unwrap_err().to_string();
    assert!(error.contains("precv: the values were sent along"), "{error}");
}

mod on_cpu {
    use super::*;
    use oxidax::config::with_default_prng_impl;
    use oxidax::random::{Key, KeyImpl, StatefulPrng, stateful_rng};

    #[test]
    fn a_scope_sets_the_generator_of_keys() {
        let draw = jit(|x: Array| x + random::uniform(random::key(3), [2], 0.0..1.0));
        let values = || draw.call(zeros([2])).unwrap().to_vec::<f32>().unwrap();
        let threefry = values();
        let rbg = with_default_prng_impl(KeyImpl::Rbg, values);
        assert_ne!(threefry, rbg);
        assert_eq!(threefry, values());
        with_default_prng_impl(KeyImpl::UnsafeRbg, || {
            assert_eq!(Key::of_type().data().shape().dims(), [4]);
            let data = random::key(1).data().clone();
            assert_eq!(Key::from_data(data).implementation(), KeyImpl::UnsafeRbg);
        });
    }

    #[test]
    fn a_stateful_generator_is_a_carry() {
        let step = |mut rng: StatefulPrng, (): ()| {
            let x = rng.random([]);
            (rng, x)
        };
        let options = ScanOptions::default().length(3);
        let (rng, xs) = scan_with(step, stateful_rng(5), (), options);
        let mut eager = stateful_rng(5);
        let expected: Vec<f32> = (0..3).map(|_| eager.random([]).item().unwrap()).collect();
        assert_eq!(xs.to_vec::<f32>().unwrap(), expected);
        assert_eq!(rng.draws().item::<i32>().unwrap(), 3);
        let unseeded = catch(|| make_program(|(): ()| stateful_rng(None).random([]), ()));
        let error = unseeded.and_then(|program| program).unwrap_err().to_string();
        assert!(error.contains("stateful_rng: needs a seed"), "{error}");
    }
}
