//! `remat`: equal gradients with fewer stored values.

use super::f32s;
use oxidax::core::{Program, RunCount};
use oxidax::prelude::*;

fn layers(policy: Option<Policy>, n: usize) -> impl Fn(&Array, &Array) -> Array {
    move |w, x| {
        let layer = |h: &Array| {
            let h = checkpoint_name(h.matmul(w), "product");
            sin(sin(sin(&h)))
        };
        let mut h = x.clone();
        for _ in 0..n {
            h = match &policy {
                Some(policy) => remat_with(
                    layer,
                    RematOptions { policy: policy.clone(), ..RematOptions::default() },
                )(&h),
                None => layer(&h),
            };
        }
        h.sum()
    }
}

/// Counts the sines, cosines and products in the gradient's program.
fn counts(policy: Option<Policy>) -> (usize, usize) {
    let f = layers(policy, 3);
    let program = make_program(
        move |w: Array, x: Array| grad(|w: &Array| f(w, &x))(&w),
        (Aval::new(DType::F32, [4, 4]), Aval::new(DType::F32, [4])),
    )
    .unwrap();
    let text = program.to_string();
    (
        text.matches("= sin ").count() + text.matches("= cos ").count(),
        text.matches("= dot_general").count(),
    )
}

#[test]
fn policy_selects_recomputed_operations() {
    // Per layer: three sines in the forward pass and three cosines for the derivative; one product
    // in the forward pass, and in the backward pass one for the weights and one for the input,
    // which the first layer does not need.
    let plain = counts(None);
    assert_eq!(plain, (18, 3 + 3 + 2));
    assert_eq!(counts(Some(Policy::Everything)), plain);
    // Recomputed: two sines (the value of the last is not needed) and the product.
    assert_eq!(counts(Some(Policy::Nothing)), (18 + 6, 8 + 3));
    assert_eq!(counts(Some(Policy::Dots)), (18 + 6, 8));
    assert_eq!(counts(Some(Policy::DotsWithNoBatchDims)), (18 + 6, 8));
    assert_eq!(counts(Some(Policy::names(["product"]))), (18 + 6, 8));
    assert_eq!(counts(Some(Policy::names(["other"]))), (18 + 6, 8 + 3));
    assert_eq!(counts(Some(Policy::all_but_names(["other"]))), plain);
}

#[test]
fn policies_apply_inside_calls() {
    let product = jit(|w: Array, x: Array| x.matmul(&w));
    let f = move |w: &Array, x: &Array| {
        let block = remat_with(
            |x: &Array| sin(product.apply(w, x)),
            RematOptions { policy: Policy::Dots, ..RematOptions::default() },
        );
        block(&block(x)).sum()
    };
    let program = make_program(
        move |w: Array, x: Array| grad(|w: &Array| f(w, &x))(&w),
        (Aval::new(DType::F32, [4, 4]), Aval::new(DType::F32, [4])),
    )
    .unwrap();
    assert_eq!(program.to_string().matches("= dot_general").count(), 2 + 3);
}

/// Returns the hyperbolic tangent with a reverse rule. The rule's forward pass computes it from the
/// hyperbolic sine and cosine, so that programs show which of the two runs.
fn ruled(optimize_remat: bool) -> impl Fn(&Array) -> Array {
    let f = custom_vjp_with(
        |x: &Array| tanh(x),
        |x: &Array| {
            let cosine = cosh(x);
            (sinh(x) / &cosine, cosine)
        },
        |cosine: &Array, ct: &Array| ct / (cosine * cosine),
        CustomVjpOptions { optimize_remat },
    );
    move |x: &Array| f(x)
}

/// Returns the value of `exp(tanh(x))` twice under `remat`, and its gradient.
fn ruled_twice(optimize_remat: bool) -> impl Fn(Array) -> (Array, Array) {
    move |x| {
        let f = ruled(optimize_remat);
        let block = remat(move |x: &Array| exp(f(x)));
        value_and_grad(|x: &Array| block(&block(x)).sum())(&x)
    }
}

/// Counts the operations called `name` that run in a program, and in those that it holds.
fn count(program: &Program, name: &str) -> usize {
    let mut total = 0;
    for eqn in program.eqns() {
        total += usize::from(eqn.primitive.name() == name);
        let Some(holder) = eqn.primitive.as_higher_order() else { continue };
        let avals = |vars: &[u32]| -> Vec<Aval> {
            vars.iter().map(|&var| program.aval(var).clone()).collect()
        };
        let runs = holder.run_counts(&avals(&eqn.operands), &avals(&eqn.results));
        for ((_, inner), run) in holder.programs().into_iter().zip(runs) {
            total += if run == RunCount::Never { 0 } else { count(inner, name) };
        }
    }
    total
}

#[test]
fn forward_rules_run_in_the_recomputation_only() {
    let program = |optimize_remat| {
        make_program(ruled_twice(optimize_remat), Aval::new(DType::F32, [3])).unwrap()
    };
    // Each of the two blocks runs forward once, and again in the backward pass.
    let (plain, optimized) = (program(false), program(true));
    assert_eq!([count(&plain, "tanh"), count(&plain, "cosh")], [0, 4]);
    assert_eq!([count(&optimized, "tanh"), count(&optimized, "cosh")], [2, 2]);
    let forward = optimized.eqns().iter().take_while(|eqn| eqn.primitive.name() != "remat");
    let forward: Vec<_> = forward.filter_map(|eqn| eqn.primitive.as_higher_order()).collect();
    let held = || forward.iter().flat_map(|holder| holder.programs());
    assert_eq!(held().map(|(_, inner)| count(inner, "tanh")).sum::<usize>(), 2);
    assert_eq!(held().map(|(_, inner)| count(inner, "cosh")).sum::<usize>(), 0);
}

mod on_cpu {
    use super::*;

    #[test]
    fn remat_keeps_gradients() {
        let w = f32s(&(0..16).map(|i| (i as f32).cos() * 0.4).collect::<Vec<_>>(), &[4, 4]);
        let x = f32s(&[0.1, 0.2, 0.3, 0.4], &[4]);
        let policies = [
            None,
            Some(Policy::Nothing),
            Some(Policy::Everything),
            Some(Policy::Dots),
            Some(Policy::names(["product"])),
        ];
        let gradients: Vec<Vec<Vec<f32>>> = policies
            .into_iter()
            .map(|policy| {
                let f = std::sync::Arc::new(layers(policy, 3));
                let (g, h) = (f.clone(), f.clone());
                let compiled = jit(move |w: Array, x: Array| grad(|w: &Array| g(w, &x))(&w));
                let eager = grad(|w: &Array| f(w, &x))(&w);
                let along = jvp(grad(|w: &Array| h(w, &x)), &w, ones_like(&w)).1;
                let rows = vmap(|x: Array| grad(|w: &Array| h(w, &x))(&w)).apply(x.reshape([1, 4]));
                let all = [compiled.call(&w, &x).unwrap(), eager, along, rows];
                all.iter().map(|g| g.to_vec::<f32>().unwrap()).collect()
            })
            .collect();
        for other in &gradients[1..] {
            for (a, b) in other.iter().flatten().zip(gradients[0].iter().flatten()) {
                assert!((a - b).abs() <= 1e-6 * (1.0 + b.abs()), "{a} is not {b}");
            }
        }
    }

    /// Returns the elements of arrays.
    fn elements(arrays: &[Array]) -> Vec<f32> {
        arrays.iter().flat_map(|array| array.to_vec::<f32>().unwrap()).collect()
    }

    fn expect_close(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{found:?} is not {expected:?}");
        }
    }

    #[test]
    fn replaced_forward_rules_keep_values_and_gradients() {
        let x = f32s(&[0.1, -0.4, 0.7], &[3]);
        let parts = |(value, gradient): (Array, Array)| elements(&[value, gradient]);
        let plain = parts(ruled_twice(false)(x.clone()));
        expect_close(&parts(ruled_twice(true)(x.clone())), &plain);
        expect_close(&parts(jit(ruled_twice(true)).call(&x).unwrap()), &plain);
        expect_close(&parts(disable_jit(|| ruled_twice(true)(x.clone()))), &plain);
        let without_remat = |x: &Array| {
            let f = ruled(true);
            value_and_grad(|x: &Array| exp(f(&exp(f(x)))).sum())(x)
        };
        expect_close(&parts(without_remat(&x)), &plain);
        let nested = |x: &Array| {
            let f = ruled(true);
            let inner = remat(move |x: &Array| exp(f(x)));
            let outer = remat(move |x: &Array| inner(&inner(x)));
            value_and_grad(|x: &Array| outer(x).sum())(x)
        };
        expect_close(&parts(nested(&x)), &plain);
        // The loop keeps the carries of its steps, and no cosines.
        let looped = |x: &Array| {
            let f = ruled(true);
            let step = remat(move |x: &Array| exp(f(x)));
            value_and_grad(|x: &Array| fori_loop(0, 2, |_, x: Array| step(&x), x).sum())(x)
        };
        expect_close(&parts(looped(&x)), &plain);
    }

    #[test]
    fn replaced_forward_rules_are_batched() {
        let x = f32s(&[0.1, -0.4, 0.7], &[3]);
        let slopes = |optimize| {
            let rows = vmap(move |x: Array| ruled_twice(optimize)(x)).apply(x.reshape([3, 1]));
            let block = move |x: &Array| {
                let f = ruled(optimize);
                remat(move |x: &Array| exp(f(x)))(x)
            };
            let shared = grad(|x: &Array| vmap(move |x: Array| block(&x)).apply(x).sum())(&x);
            elements(&[rows.0, rows.1, shared])
        };
        expect_close(&slopes(true), &slopes(false));
    }

    #[test]
    fn replaced_forward_rules_have_second_derivatives() {
        let x = f32s(&[0.1, -0.4, 0.7], &[3]);
        let second = |optimize| {
            // Forward over reverse has no rule: the backward rule is differentiated.
            let slope = move |x: &Array| ruled_twice(optimize)(x.clone()).1.sum();
            elements(&[grad(slope)(&x)])
        };
        let (found, expected) = (second(true), second(false));
        expect_close(&found, &expected);
        let exact = grad(|x: &Array| grad(|x: &Array| exp(tanh(exp(tanh(x)))).sum())(x).sum())(&x);
        expect_close(&found, &elements(&[exact]));
    }

    #[test]
    fn replaced_forward_rules_may_capture() {
        let (x, w) = (f32s(&[0.3], &[1]), f32s(&[2.0], &[1]));
        let slope = |w: Array, x: Array| {
            let (forward, scale) = (w.clone(), f32s(&[10.0], &[1]));
            let options = CustomVjpOptions { optimize_remat: true };
            let f = custom_vjp_with(
                |x: &Array| x * &w,
                move |x: &Array| (x * &forward, &forward * &scale),
                |slope: &Array, ct: &Array| ct * slope,
                options,
            );
            let block = remat(|x: &Array| sin(f(x)));
            grad(|x: &Array| block(x).sum())(&x)
        };
        let expected = [20.0 * 0.6f32.cos()];
        expect_close(&elements(&[slope(w.clone(), x.clone())]), &expected);
        expect_close(&elements(&[jit(slope).call(&w, &x).unwrap()]), &expected);
        let row = vmap(move |x: Array| slope(w.clone(), x)).apply(x.reshape([1, 1]));
        expect_close(&elements(&[row]), &expected);
    }
}
