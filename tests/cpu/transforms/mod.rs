//! Transforms and their compositions, compared with derivatives computed by hand.

mod collectives;
mod composition;
mod custom;
mod custom_rules;
mod derived_programs;
mod jacobians;
mod linear_calls;
mod memory;
mod named_scopes;
mod references;
mod rematerialization;
mod taylor;

use oxidax::prelude::*;

fn f32s(elements: &[f32], shape: &[usize]) -> Array {
    Array::from_slice(elements, shape).unwrap()
}

fn value(x: &Array) -> f32 {
    x.item::<f32>().unwrap()
}

fn close(a: f32, b: f32) {
    assert!((a - b).abs() <= 1e-5 * (1.0 + b.abs()), "{a} is not {b}");
}

mod on_cpu {
    use super::*;

    #[test]
    fn sine_has_correct_derivatives_to_fourth_order() {
        let x = f32s(&[0.7], &[]);
        let d1 = grad(|x: &Array| sin(x));
        let d2 = grad(grad(|x: &Array| sin(x)));
        let d4 = grad(grad(grad(grad(|x: &Array| sin(x)))));
        close(value(&d1(&x)), 0.7f32.cos());
        close(value(&d2(&x)), -(0.7f32.sin()));
        close(value(&d4(&x)), 0.7f32.sin());
    }

    #[test]
    fn second_derivatives_agree_in_both_orders() {
        let f = |x: &Array| reduce_sum(&(sin(x) * x * x), &[0]);
        let x = f32s(&[0.3, -1.2, 2.0], &[3]);
        let v = f32s(&[1.0, 0.5, -2.0], &[3]);
        let (_, forward_over_reverse) = jvp(grad(f), &x, &v);
        let directional = |x: &Array| jvp(f, x, &v).1;
        let reverse_over_forward = grad(directional)(&x);
        let (a, b) = (forward_over_reverse, reverse_over_forward);
        for (a, b) in a.to_vec::<f32>().unwrap().iter().zip(b.to_vec::<f32>().unwrap()) {
            close(*a, b);
        }
    }

    #[test]
    fn vmap_of_grad_equals_grad_of_each_row() {
        let xs = f32s(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], &[3, 2]);
        let w = f32s(&[2.0, -1.0], &[2]);
        // Only `jit` stores its closure, so only its captures must be owned.
        let per_row =
            vmap(|x: Array| grad(|x: &Array| reduce_sum(&(sin(x) * &w), &[0]))(&x)).apply(&xs);
        let expected: Vec<f32> = [0.1f32, 0.2, 0.3, 0.4, 0.5, 0.6]
            .iter()
            .enumerate()
            .map(|(at, x)| x.cos() * if at % 2 == 0 { 2.0 } else { -1.0 })
            .collect();
        for (a, b) in per_row.to_vec::<f32>().unwrap().iter().zip(expected) {
            close(*a, b);
        }
    }

    #[test]
    fn nested_derivatives_do_not_confuse_perturbations() {
        // d/dx (x * d/dy (x + y)) = 1
        let f = |x: &Array| {
            let inner = grad(|y: &Array| x + y)(x);
            x * inner
        };
        close(value(&grad(f)(&f32s(&[3.0], &[]))), 1.0);
        let x = f32s(&[3.0], &[]);
        close(value(&jvp(f, &x, ones_like(&x)).1), 1.0);
    }

    #[test]
    fn jit_nests_with_every_transform() {
        let inner = std::sync::Arc::new(jit(|x: Array| sin(&x) * &x));
        let f = {
            let inner = inner.clone();
            move |x: &Array| inner.apply(x)
        };
        let x = f32s(&[0.9], &[]);
        let (s, c) = (0.9f32.sin(), 0.9f32.cos());
        close(value(&grad(&f)(&x)), c * 0.9 + s);
        close(value(&grad(grad(f.clone()))(&x)), 2.0 * c - 0.9 * s);
        let outer = {
            let f = f.clone();
            jit(move |x: Array| grad(grad(f.clone()))(&x))
        };
        close(value(&outer.call(&x).unwrap()), 2.0 * c - 0.9 * s);
        let xs = f32s(&[0.9, 0.9], &[2]);
        let rows = vmap(move |x: Array| grad(grad(f.clone()))(&x)).apply(&xs);
        close(rows.to_vec::<f32>().unwrap()[1], 2.0 * c - 0.9 * s);
    }

    #[test]
    fn jit_compiles_once_per_signature() {
        let f = jit(|x: Array| &x + &x);
        for _ in 0..5 {
            f.call(f32s(&[1.0, 2.0], &[2])).unwrap();
        }
        f.call(f32s(&[1.0], &[1])).unwrap();
        let stats = f.stats();
        assert_eq!((stats.calls, stats.traces, stats.compiles), (6, 2, 2));
    }

    #[test]
    fn eager_results_equal_compiled_results() {
        let f = |x: &Array| reduce_sum(&(sin(x) / (x + 2.0)), &[0]);
        let x = f32s(&[0.3, 1.2], &[2]);
        let staged = grad(f)(&x).to_vec::<f32>().unwrap();
        let eager = disable_jit(|| grad(f)(&x)).to_vec::<f32>().unwrap();
        for (a, b) in staged.iter().zip(eager) {
            close(*a, b);
        }
    }
}

#[test]
fn printed_programs_parse_to_themselves() {
    let inner = jit(|x: Array| sin(&x) * 2.0).name("inner");
    let program = make_program(
        move |x: Array, y: Array| reduce_sum(&(inner.apply(&x) + &y), &[0]),
        (Aval::new(DType::F32, [2, 3]), Aval::new(DType::F32, [3])),
    )
    .unwrap();
    let text = program.to_string();
    let parsed = parse_program(&text).unwrap();
    assert_eq!(parsed, program);
    assert_eq!(parsed.to_string(), text);
    expect_test::expect![[r#"
        { lambda ; a:f32[2,3] b:f32[3]. let
            c:f32[2,3] = call[name="inner" program={ lambda ; a:f32[2,3]. let
                b:f32[2,3] = sin a
                c:f32[2,3] = fill[dtype="f32" shape=[2,3] value=2.0 weak=false]
                d:f32[2,3] = mul b c
              in (d) }] a
            d:f32[2,3] = broadcast_in_dim[broadcast_dimensions=[1] shape=[2,3]] b
            e:f32[2,3] = add c d
            f:f32[3] = reduce_sum[axes=[0]] e
          in (f) }"#]]
    .assert_eq(&text);
}
