//! Functions with custom derivatives.

use super::{close, f32s, value};
use expect_test::expect;
use oxidax::prelude::*;

/// log(1 + exp(x)) with a rule that does not overflow and calls the function itself.
fn log1pexp(x: &Array) -> Array {
    let rule = |x: &Array, dx: &Array| (log1pexp(x), dx * sigmoid(x));
    custom_jvp(|x: &Array| log1p(exp(x)), rule)(x)
}

/// x·y with rules that return three times the derivative.
fn thrice(pair: &(Array, Array)) -> Array {
    custom_vjp(
        |(x, y): &(Array, Array)| x * y,
        |(x, y): &(Array, Array)| (x * y, (x.clone(), y.clone())),
        |(x, y): &(Array, Array), ct: &Array| (ct * y * 3.0, ct * x * 3.0),
    )(pair)
}

#[test]
fn errors_in_rules_name_the_leaf() {
    let wrong = custom_jvp(|x: &Array| x * 2.0, |x: &Array, dx: &Array| (x * 2.0, dx.sum()));
    let error = eval_shape(|x: Array| wrong(&x), Aval::new(DType::F32, [3])).unwrap_err();
    let text = error.to_string();
    let (first, rest) = text.split_once('\n').unwrap();
    expect!["error[tree]: $: custom_jvp: the rule's tangent: expected f32[3], got f32[]"]
        .assert_eq(first);
    assert!(rest.contains("custom.rs"), "{rest}");

    let wrong = custom_vjp(
        |x: &Array| x * 2.0,
        |x: &Array| (x * 2.0, ()),
        |(): &(), ct: &Array| ct.astype(DType::F64),
    );
    let error = eval_shape(|x: Array| wrong(&x), Aval::new(DType::F32, [3])).unwrap_err();
    let text = error.to_string();
    expect![
        "error[tree]: $: custom_vjp: the backward rule's cotangent: expected f32[3], got f64[3]"
    ]
    .assert_eq(text.lines().next().unwrap());
}

#[test]
fn captured_arrays_have_no_derivative() {
    let through_capture = |w: &Array| {
        let w = w.clone();
        let rule = {
            let w = w.clone();
            move |x: &Array, dx: &Array| (x * &w, dx * &w)
        };
        custom_jvp(|x: &Array| x * &w, rule)(&ones([]))
    };
    let types = make_program(move |w: Array| grad(through_capture)(&w), Aval::new(DType::F32, []));
    let text = types.unwrap_err().to_string();
    assert!(text.contains("captures an array that is being differentiated"), "{text}");
    assert!(text.contains("help: make the array one of the function's arguments"), "{text}");
}

#[test]
fn custom_vjp_rejects_forward_mode() {
    let f = |x: Array| jvp(|x: &Array| thrice(&(x.clone(), x.clone())), &x, ones_like(&x)).1;
    let lowered = jit(f).lower(Aval::new(DType::F32, [])).unwrap();
    let text = lowered.as_text("cpu").unwrap_err().to_string();
    assert!(text.contains("has a reverse rule only"), "{text}");
    assert!(text.contains("help: use reverse mode"), "{text}");
}

mod on_cpu {
    use super::*;

    #[test]
    fn custom_jvp_supports_all_modes_and_orders() {
        let x = f32s(&[100.0], &[]);
        close(value(&grad(log1pexp)(&x)), 1.0);
        close(value(&grad(grad(log1pexp))(&x)), 0.0);
        let x = f32s(&[0.5], &[]);
        let s = 1.0 / (1.0 + (-0.5f32).exp());
        close(value(&log1pexp(&x)), 0.5f32.exp().ln_1p());
        close(value(&jvp(log1pexp, &x, ones_like(&x)).1), s);
        close(value(&grad(grad(log1pexp))(&x)), s * (1.0 - s));
        close(value(&grad(grad(grad(log1pexp)))(&x)), s * (1.0 - s) * (1.0 - 2.0 * s));
        let compiled = jit(|x: Array| grad(log1pexp)(&x));
        close(value(&compiled.call(&x).unwrap()), s);
        close(value(&disable_jit(|| grad(log1pexp)(&x))), s);
    }

    #[test]
    fn custom_rules_nest_with_vmap() {
        let xs = f32s(&[0.5, 100.0, -1.0], &[3]);
        let expected: Vec<f32> =
            [0.5f32, 100.0, -1.0].iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect();
        let per_row = vmap(|x: Array| grad(log1pexp)(&x)).apply(&xs);
        let of_rows = grad(|xs: &Array| vmap(|x: Array| log1pexp(&x)).apply(xs).sum())(&xs);
        for gradient in [per_row, of_rows] {
            for (a, b) in gradient.to_vec::<f32>().unwrap().iter().zip(&expected) {
                close(*a, *b);
            }
        }
    }

    #[test]
    fn gradients_use_the_custom_vjp_rule() {
        let pair = (f32s(&[2.0], &[]), f32s(&[5.0], &[]));
        let (dx, dy) = grad(thrice)(&pair);
        assert_eq!((value(&dx), value(&dy)), (15.0, 6.0));
        // Reverse over reverse differentiates the backward rule.
        let second = grad(|x: &Array| grad(thrice)(&(x.clone(), pair.1.clone())).1)(&pair.0);
        assert_eq!(value(&second), 3.0);
        // Forward over reverse does too.
        let along =
            jvp(|x: &Array| grad(thrice)(&(x.clone(), pair.1.clone())).1, &pair.0, ones([]));
        assert_eq!(value(&along.1), 3.0);
    }

    #[test]
    fn custom_vjp_under_vmap_sums_unmapped_cotangents() {
        let xs = f32s(&[1.0, 2.0, 3.0], &[3]);
        let y = f32s(&[10.0], &[]);
        let total = |y: &Array| vmap(|x: Array| thrice(&(x, y.clone()))).apply(&xs).sum();
        assert_eq!(value(&grad(total)(&y)), 18.0);
        let gradients = vmap(|x: Array| grad(thrice)(&(x, y.clone())).0).apply(&xs);
        assert_eq!(gradients.to_vec::<f32>().unwrap(), [30.0; 3]);
        let compiled = jit(move |xs: Array, y: Array| {
            grad(|y: &Array| vmap(|x: Array| thrice(&(x, y.clone()))).apply(&xs).sum())(&y)
        });
        assert_eq!(value(&compiled.call(&xs, &y).unwrap()), 18.0);
    }

    #[test]
    fn custom_rules_may_capture_traced_arrays() {
        // The scale belongs to the trace of `jit`. The rules run in the trace of `grad` inside it,
        // and under `vmap`.
        let f = |scale: Array, xs: Array| {
            let (s1, s2) = (scale.clone(), scale.clone());
            let clipped = custom_vjp(
                |x: &Array| x.clone(),
                move |x: &Array| (x.clone(), x * &s1),
                move |scaled: &Array, ct: &Array| ct * scaled * &s2,
            );
            let (s3, s4) = (scale.clone(), scale.clone());
            let forward = custom_jvp(
                move |x: &Array| x * &s3,
                move |x: &Array, dx: &Array| (x * &s4, dx * &s4 * 100.0),
            );
            vmap(|x: Array| grad(|x: &Array| clipped(&forward(x)))(&x)).apply(&xs)
        };
        let xs = f32s(&[1.0, 2.0], &[2]);
        let scale = f32s(&[3.0], &[]);
        // y = 3x; the cotangent of y is (3y)·3 = 27x; then times 300.
        let expected = [27.0 * 300.0, 54.0 * 300.0];
        assert_eq!(jit(f).call(&scale, &xs).unwrap().to_vec::<f32>().unwrap(), expected);
        assert_eq!(f(scale.clone(), xs.clone()).to_vec::<f32>().unwrap(), expected);
        let second = vmap(f).in_axes([Some(0), None]).apply(f32s(&[3.0, 3.0], &[2]), &xs);
        assert_eq!(second.to_vec::<f32>().unwrap(), [expected, expected].concat());
    }

    #[test]
    fn custom_vjp_ignores_integer_cotangents() {
        let picked = custom_vjp(
            |(x, at): &(Array, Array)| take(x, at, 0),
            |(x, at): &(Array, Array)| (take(x, at, 0), (x.clone(), at.clone())),
            |(x, at): &(Array, Array), ct: &Array| (ones_like(x) * ct, zeros_like(at)),
        );
        let x = f32s(&[1.0, 2.0, 3.0], &[3]);
        let at = Array::from_slice(&[1i32], []).unwrap();
        let double = |pair: &(Array, Array)| picked(pair) * 2.0;
        let (dx, dat) =
            grad_with(double, GradOptions { allow_int: true, ..GradOptions::default() })(&(x, at));
        assert_eq!(dx.to_vec::<f32>().unwrap(), [2.0; 3]);
        assert_eq!(dat.item::<i32>().unwrap(), 0);
    }

    #[test]
    fn rule_may_apply_custom_functions_to_tangents() {
        // Linear in `x`, with custom rules.
        let scaled = |w: &Array, x: &Array| {
            let f = |(w, x): &(Array, Array)| w * w * x;
            let rule = |(w, x): &(Array, Array), (dw, dx): &(Array, Array)| {
                (w * w * x, w * dw * x * 2.0 + w * w * dx)
            };
            custom_jvp(f, rule)(&(w.clone(), x.clone()))
        };
        let clipped = |w: &Array, x: &Array| {
            let f = |(w, x): &(Array, Array)| w * x;
            let forward = |(w, x): &(Array, Array)| (w * x, w.clone());
            let backward = |w: &Array, ct: &Array| (zeros_like(ct), w * ct);
            custom_vjp(f, forward, backward)(&(w.clone(), x.clone()))
        };
        let f = move |x: &Array| {
            let rule = move |x: &Array, dx: &Array| {
                (x * x * x, scaled(x, &(dx * 3.0)) + clipped(&zeros_like(x), dx))
            };
            custom_jvp(|x: &Array| x * x * x, rule)(x)
        };
        let x = f32s(&[2.0], &[]);
        assert_eq!(value(&grad(f)(&x)), 12.0);
        assert_eq!(value(&grad(grad(f))(&x)), 12.0);
        assert_eq!(value(&jvp(f, &x, ones_like(&x)).1), 12.0);
        assert_eq!(value(&jit(move |x: Array| grad(f)(&x)).call(&x).unwrap()), 12.0);
    }
}
