//! Residuals that loops store for the backward pass, and unused results that they drop. Checked in
//! programs, without running them.

use crate::control_flow::support::{results_of, steps};
use expect_test::expect;
use oxidax::core::Program;
use oxidax::passes::{cost, dce};
use oxidax::prelude::*;

fn aval(shape: &[usize]) -> Aval {
    Aval::new(DType::F32, shape)
}

/// Returns the program of the gradient with respect to `w`, without dead code.
fn gradient(f: fn(&Array, &Array) -> Array, w: Aval, x: Aval) -> Program {
    let program =
        make_program(move |w: Array, x: Array| grad(|w: &Array| f(w, &x))(&w), (w, x)).unwrap();
    dce(&program)
}

#[test]
fn recurrent_network_stores_states_but_not_weights() {
    let loss = |w: &Array, xs: &Array| {
        let step = |h: Array, x: Array| (tanh(&(h.matmul(w) + x)), ());
        scan(step, zeros([8]), xs).0.sum()
    };
    let program = gradient(loss, aval(&[8, 8]), aval(&[100, 8]));
    expect![[r#"
        { lambda ; a:f32[8,8] b:f32[100,8]. let
            c:f32[8] = fill[dtype="f32" shape=[8] value=0 weak=false]
            d:f32[8] e:f32[100,8] f:f32[100,8] = scan[length=100 n_carry=1 n_consts=1 reverse=false unroll=1 body={ lambda ; a:f32[8,8] b:f32[8] c:f32[8]. let
                d:f32[8] = dot_general[lhs_batch=[] lhs_contracting=[0] precision=["Default","Default"] preferred_element_type=null rhs_batch=[] rhs_contracting=[0]] b a
                e:f32[8] = add d c
                f:f32[8] = tanh e
                g:f32[8] = fill[dtype="f32" shape=[8] value=1.0 weak=false]
                h:f32[8] = sub g f
                i:f32[8] = fill[dtype="f32" shape=[8] value=1.0 weak=false]
                j:f32[8] = add f i
                k:f32[8] = mul h j
              in (f b k) }] a c b
            g:f32[] = fill[dtype="f32" shape=[] value=1 weak=false]
            h:f32[8] = broadcast_in_dim[broadcast_dimensions=[] shape=[8]] g
            i:f32[8,8] = fill[dtype="f32" shape=[8,8] value=0 weak=false]
            j:f32[8,8] k:f32[8] = scan[length=100 n_carry=2 n_consts=1 reverse=true unroll=1 body={ lambda ; a:f32[8,8] b:f32[8,8] c:f32[8] d:f32[8] e:f32[8]. let
                f:f32[8] = mul c e
                g:f32[8,8] = dot_general[lhs_batch=[] lhs_contracting=[] precision=["Default","Default"] preferred_element_type=null rhs_batch=[] rhs_contracting=[]] d f
                h:f32[8] = dot_general[lhs_batch=[] lhs_contracting=[0] precision=["Default","Default"] preferred_element_type=null rhs_batch=[] rhs_contracting=[1]] f a
                i:f32[8,8] = add b g
              in (i h) }] a i h e f
          in (j) }"#]].assert_eq(&program.to_string());
}

#[test]
fn loop_invariant_residuals_are_stored_once() {
    // exp(w) does not depend on the step. Its value and the weights are passed on unstacked.
    let loss = |w: &Array, xs: &Array| {
        let step = |h: Array, x: Array| (&h * exp(w) + x * w, ());
        scan(step, zeros([8]), xs).0.sum()
    };
    let program = gradient(loss, aval(&[8]), aval(&[100, 8]));
    expect![[r#"[["f32[8]", "f32[100,8]"], ["f32[8]", "f32[8]"]]"#]]
        .assert_eq(&format!("{:?}", results_of(&program, "scan")));
}

#[test]
fn slopes_are_computed_again_from_values_that_are_stored() {
    let stored = |f: fn(&Array, &Array) -> Array| {
        results_of(&gradient(f, aval(&[8, 8]), aval(&[100, 8])), "scan").swap_remove(0)
    };
    // The product needs `y`, and `1 - y²` follows from it.
    let product = |w: &Array, xs: &Array| {
        let step = |h: Array, x: Array| (tanh(&(h + x)).matmul(w), ());
        scan(step, zeros([8]), xs).0.sum()
    };
    assert_eq!(stored(product), ["f32[8]", "f32[100,8]"]);
    // The states are results, from which the slopes follow. The product needs the state before.
    let states = |w: &Array, xs: &Array| {
        let step = |h: Array, x: Array| {
            let h = tanh(&(h.matmul(w) + x));
            (h.clone(), h)
        };
        scan(step, zeros([8]), xs).1.sum()
    };
    assert_eq!(stored(states), ["f32[8]", "f32[100,8]", "f32[100,8]"]);
    // The state, its sine and its cosine, which are transcendental functions, determine the factor
    // of the product.
    let factor = |w: &Array, xs: &Array| {
        let step = |h: Array, x: Array| ((sin(&h) * &h + x).matmul(w), ());
        scan(step, zeros([8]), xs).0.sum()
    };
    let [carry, stack] = ["f32[8]", "f32[100,8]"];
    assert_eq!(stored(factor), [carry, stack, stack, stack]);
}

#[test]
fn unchanged_carries_become_constants() {
    let loss = |w: &Array, xs: &Array| {
        let step = |(w, h): (Array, Array), x: Array| {
            let h = sin(&(h.matmul(&w) + x));
            ((w, h), ())
        };
        scan(step, (w.clone(), zeros([8])), xs).0.1.sum()
    };
    let program = gradient(loss, aval(&[8, 8]), aval(&[100, 8]));
    expect![[r#"[["f32[8]", "f32[100,8]", "f32[100,8]"], ["f32[8,8]", "f32[8]"]]"#]]
        .assert_eq(&format!("{:?}", results_of(&program, "scan")));
}

#[test]
fn unused_results_are_removed_with_their_inputs() {
    let f = |x: Array, xs: Array| {
        let step = |(a, b, unused): (Array, Array, Array), x: Array| {
            let next = (sin(&a), &b + &a, exp(&unused) + cos(&x));
            (next, (&x * &b, cos(&x)))
        };
        // The second carry needs the first. The third and both outputs are removed.
        scan(step, (x.clone(), zeros_like(&x), x), xs).0.1
    };
    let program = dce(&make_program(f, (aval(&[]), aval(&[5]))).unwrap());
    expect![[r#"
        { lambda ; a:f32[] b:f32[5]. let
            c:f32[] = fill[dtype="f32" shape=[] value=0 weak=false]
            d:f32[] e:f32[] = scan[length=5 n_carry=2 n_consts=0 reverse=false unroll=1 body={ lambda ; a:f32[] b:f32[]. let
                c:f32[] = sin a
                d:f32[] = add b a
              in (c d) }] a c
          in (e) }"#]].assert_eq(&program.to_string());
}

#[test]
fn branches_share_residuals_of_one_type() {
    let loss = |a: &Array, x: &Array| {
        let wave = |x: Array| sin(&(x * a));
        let growth = |x: Array| exp(&(x * a));
        cond(gt(x.sum(), 0.0), wave, growth, x).sum()
    };
    let program = gradient(loss, aval(&[]), aval(&[3]));
    expect![[r#"
        { lambda ; a:f32[] b:f32[3]. let
            c:f32[] = reduce_sum[axes=[0]] b
            d:f32[] = fill[dtype="f32" shape=[] value=0.0 weak=false]
            e:bool[] = compare[direction="GT" total_order=false] c d
            f:i32[] = convert_element_type[dtype="i32" weak=false] e
            g:f32[3] h:f32[3] = cond[branch={ lambda ; a:f32[] b:f32[3]. let
                c:f32[3] = broadcast_in_dim[broadcast_dimensions=[] shape=[3]] a
                d:f32[3] = mul b c
                e:f32[3] = exp d
                f:f32[3] = fill[dtype="f32" shape=[3] value=0 weak=false]
              in (e f) } branch={ lambda ; a:f32[] b:f32[3]. let
                c:f32[3] = broadcast_in_dim[broadcast_dimensions=[] shape=[3]] a
                d:f32[3] = mul b c
                e:f32[3] = sin d
                f:f32[3] = cos d
              in (e f) }] f a b
            i:f32[] = fill[dtype="f32" shape=[] value=1 weak=false]
            j:f32[3] = broadcast_in_dim[broadcast_dimensions=[] shape=[3]] i
            k:f32[] = cond[branch={ lambda ; a:f32[3] b:f32[3] c:f32[3] d:f32[3]. let
                e:f32[3] = mul d b
                f:f32[3] = mul a e
                g:f32[] = reduce_sum[axes=[0]] f
              in (g) } branch={ lambda ; a:f32[3] b:f32[3] c:f32[3] d:f32[3]. let
                e:f32[3] = mul d c
                f:f32[3] = mul a e
                g:f32[] = reduce_sum[axes=[0]] f
              in (g) }] f b g h j
          in (k) }"#]]
    .assert_eq(&program.to_string());
}

#[test]
fn cond_and_while_loop_drop_unused_results() {
    let f = |x: Array| {
        let both = |x: Array| (sin(&x), cos(&x));
        let (a, _) = cond(gt(&x, 0.0), both, |x: Array| (x.clone(), exp(&x)), &x);
        let step = |(x, unused): (Array, Array)| (&x * 2.0, exp(&unused));
        let (b, _) = while_loop(|(x, _): (Array, Array)| lt(&x, 9.0), step, (a.clone(), a));
        b
    };
    let program = dce(&make_program(f, aval(&[])).unwrap());
    expect![[r#"
        { lambda ; a:f32[]. let
            b:f32[] = fill[dtype="f32" shape=[] value=0.0 weak=false]
            c:bool[] = compare[direction="GT" total_order=false] a b
            d:i32[] = convert_element_type[dtype="i32" weak=false] c
            e:f32[] = cond[branch={ lambda ; a:f32[]. let
              in (a) } branch={ lambda ; a:f32[]. let
                b:f32[] = sin a
              in (b) }] d a
            f:f32[] = while_loop[n_body_consts=0 n_cond_consts=0 cond={ lambda ; a:f32[]. let
                b:f32[] = fill[dtype="f32" shape=[] value=9.0 weak=false]
                c:bool[] = compare[direction="LT" total_order=false] a b
              in (c) } body={ lambda ; a:f32[]. let
                b:f32[] = fill[dtype="f32" shape=[] value=2.0 weak=false]
                c:f32[] = mul a b
              in (c) }] e
          in (f) }"#]]
    .assert_eq(&program.to_string());
}

/// The cost of a loop is the cost of its steps.
#[test]
fn cost_is_multiplied_by_steps() {
    let of = |length: usize| {
        let f =
            move |x: Array| scan_with(|c: Array, ()| (sin(&c) * 2.0, ()), x, (), steps(length)).0;
        cost(&make_program(f, aval(&[4])).unwrap())
    };
    assert_eq!((of(10).transcendentals, of(10).flops), (40, 40));
    assert_eq!(of(1000).flops, 100 * of(10).flops);
    let f = |x: Array| cond(gt(x.sum(), 0.0), |x: Array| sin(sin(&x)), |x: Array| sin(&x), &x);
    assert_eq!(cost(&make_program(f, aval(&[4])).unwrap()).transcendentals, 8);
}
