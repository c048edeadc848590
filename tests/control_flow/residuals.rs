//! What a loop keeps for the way back, and what it drops: looked at in programs, without running them.

use crate::support::{results_of, steps};
use expect_test::expect;
use oxidax::core::Program;
use oxidax::passes::{cost, dce};
use oxidax::prelude::*;

fn aval(shape: &[usize]) -> Aval {
    Aval::new(DType::F32, shape)
}

/// The program of the gradient by `w` of a function of `w` and other things, without dead code.
fn gradient(f: fn(&Array, &Array) -> Array, w: Aval, x: Aval) -> Program {
    let program =
        make_program(move |w: Array, x: Array| grad(|w: &Array| f(w, &x))(&w), (w, x)).unwrap();
    dce(&program)
}

#[test]
fn a_recurrent_network_keeps_states_and_slopes_and_no_weights() {
    let loss = |w: &Array, xs: &Array| {
        let step = |h: Array, x: Array| (tanh(&(h.matmul(w) + x)), ());
        scan(step, zeros([8], DType::F32), xs).0.sum()
    };
    let program = gradient(loss, aval(&[8, 8]), aval(&[100, 8]));
    expect![[r#""#]].assert_eq(&program.to_string());
}

#[test]
fn what_is_the_same_in_every_step_is_kept_once() {
    // exp(w) depends on no step; its value and the weights are handed to the way back as they are.
    let loss = |w: &Array, xs: &Array| {
        let step = |h: Array, x: Array| (&h * exp(w) + x * w, ());
        scan(step, zeros([8], DType::F32), xs).0.sum()
    };
    let program = gradient(loss, aval(&[8]), aval(&[100, 8]));
    expect![[r#""#]].assert_eq(&format!("{:?}", results_of(&program, "scan")));
}

#[test]
fn carried_weights_that_never_change_are_constants() {
    let loss = |w: &Array, xs: &Array| {
        let step = |(w, h): (Array, Array), x: Array| {
            let h = sin(&(h.matmul(&w) + x));
            ((w, h), ())
        };
        scan(step, (w.clone(), zeros([8], DType::F32)), xs).0.1.sum()
    };
    let program = gradient(loss, aval(&[8, 8]), aval(&[100, 8]));
    expect![[r#""#]].assert_eq(&format!("{:?}", results_of(&program, "scan")));
}

#[test]
fn results_that_nobody_uses_go_with_all_that_only_they_need() {
    let f = |x: Array, xs: Array| {
        let step = |(a, b, unused): (Array, Array, Array), x: Array| {
            let next = (sin(&a), &b + &a, exp(&unused) + cos(&x));
            (next, (&x * &b, cos(&x)))
        };
        // The second carry needs the first; the third and both outputs go.
        scan(step, (x.clone(), zeros_like(&x), x), xs).0.1
    };
    let program = dce(&make_program(f, (aval(&[]), aval(&[5]))).unwrap());
    expect![[r#""#]].assert_eq(&program.to_string());
}

#[test]
fn choices_keep_what_the_branches_need_in_shared_places() {
    let loss = |a: &Array, x: &Array| {
        let wave = |x: Array| sin(&(x * a));
        let growth = |x: Array| exp(&(x * a));
        cond(&gt(x.sum(), 0.0), wave, growth, x).sum()
    };
    let program = gradient(loss, aval(&[]), aval(&[3]));
    expect![[r#""#]].assert_eq(&program.to_string());
}

#[test]
fn pruned_choices_and_loops_lose_results() {
    let f = |x: Array| {
        let both = |x: Array| (sin(&x), cos(&x));
        let (a, _) = cond(&gt(&x, 0.0), both, |x: Array| (x.clone(), exp(&x)), &x);
        let step = |(x, unused): (Array, Array)| (&x * 2.0, exp(&unused));
        let (b, _) = while_loop(|(x, _): (Array, Array)| lt(&x, 9.0), step, (a.clone(), a));
        b
    };
    let program = dce(&make_program(f, aval(&[])).unwrap());
    expect![[r#""#]].assert_eq(&program.to_string());
}

/// The work of a loop is that of its steps.
#[test]
fn costs_count_steps() {
    let of = |length: usize| {
        let f =
            move |x: Array| scan_with(|c: Array, ()| (sin(&c) * 2.0, ()), x, (), steps(length)).0;
        cost(&make_program(f, aval(&[4])).unwrap())
    };
    assert_eq!((of(10).transcendentals, of(10).flops), (40, 40));
    assert_eq!(of(1000).flops, 100 * of(10).flops);
    let f = |x: Array| cond(&gt(x.sum(), 0.0), |x: Array| sin(&sin(&x)), |x: Array| sin(&x), &x);
    assert_eq!(cost(&make_program(f, aval(&[4])).unwrap()).transcendentals, 8);
}
