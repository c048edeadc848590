//! `reduce`, `custom_linear_solve` and `custom_root`: programs, errors and values.

use expect_test::{Expect, expect};
use oxidax::prelude::*;

fn f32s(shape: &[usize]) -> Aval {
    Aval::new(DType::F32, shape)
}

/// Checks the error of tracing `f`, without its location, which must be in this file.
#[track_caller]
fn check<O: Tree>(f: impl Fn(Array) -> O + Send + Sync + 'static, x: Aval, expected: Expect) {
    let text = make_program(f, x).unwrap_err().to_string();
    assert!(text.contains("tests/cpu/control_flow/implicit.rs"), "this file is not named: {text}");
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("-->"));
    expected.assert_eq(&lines.map(|line| format!("{line}\n")).collect::<String>());
}

fn operations(program: &oxidax::core::Program) -> Vec<&'static str> {
    program.eqns().iter().map(|eqn| eqn.primitive.name()).collect()
}

#[test]
fn reduce_uses_reduction_primitives() {
    let reduce_by = |f: fn(Array, Array) -> Array| {
        make_program(move |x: Array| reduce(x, scalar(0.0), f, &[1]), f32s(&[2, 3])).unwrap()
    };
    assert!(operations(&reduce_by(|a, b| a + b)).contains(&"reduce_sum"));
    assert!(operations(&reduce_by(|a, b| b * a)).contains(&"reduce_prod"));
    assert!(operations(&reduce_by(|a, b| maximum(&a, &b))).contains(&"reduce_max"));
    // Two operations, or one operand used twice, are not recognized.
    assert!(operations(&reduce_by(|a, b| a + b * 1.0)).contains(&"reduce"));
    assert!(operations(&reduce_by(|a, _| &a + &a)).contains(&"reduce"));
}

#[test]
fn reductions_with_captured_arrays_are_ordinary_operations() {
    let program = |x: Array| {
        let y = x.sum();
        reduce(&x, scalar(0.0), |a: Array, b: Array| (a + b) * &y, &[0])
    };
    let program = make_program(program, f32s(&[3])).unwrap();
    assert!(!operations(&program).contains(&"reduce"));
    let of_two = |x: Array| {
        let y = x.sum();
        let combine = move |(a, b): (Array, Array), (c, d): (Array, Array)| (&a * &y + c, &b + d);
        reduce((&x, &zeros([2])), (scalar(0.0), scalar(0.0)), combine, &[0]).0
    };
    check(
        of_two,
        f32s(&[3]),
        expect![[r#"
        error[tree]: $[1]: reduce: the operand f32[2] has another shape than the first, [3]
    "#]],
    );
}

#[test]
fn reduce_rejects_changed_types() {
    let f = |x: Array| reduce(&x, scalar(0.0), |a: Array, b: Array| lt(&a, &b), &[0]);
    check(
        f,
        f32s(&[3]),
        expect![[r#"
        error[tree]: $: reduce: the function takes f32[] here and gives bool[]
    "#]],
    );
    let f = |x: Array| reduce(&x, zeros([2]), |a: Array, b: Array| a + b, &[0]);
    check(
        f,
        f32s(&[3]),
        expect![[r#"
        error[tree]: $: reduce: f32[3] has the initial value f32[2], which must be a scalar of its dtype
    "#]],
    );
}

#[test]
fn reverse_mode_requires_a_transpose_solver() {
    let f = |b: Array| {
        let loss = |b: &Array| {
            let solve = |_: &dyn Fn(&Array) -> Array, b: &Array| b / 2.0;
            custom_linear_solve(|x: &Array| x * 2.0, b, solve, TransposeSolve::Unknown).sum()
        };
        grad(loss)(&b)
    };
    check(
        f,
        f32s(&[3]),
        expect![[r#"
        error[unsupported]: linear_solve: reverse mode requires a solver of the transposed system
          operand: f32[3]
          while tracing: reverse_mode_requires_a_transpose_solver::{closure}
          help: pass `TransposeSolve::By` or `TransposeSolve::Symmetric`
    "#]],
    );
}

#[test]
fn linear_solve_rejects_changed_types() {
    let f = |b: Array| {
        let solve = |_: &dyn Fn(&Array) -> Array, b: &Array| b.clone();
        custom_linear_solve(|x: &Array| x.sum(), &b, solve, TransposeSolve::Symmetric)
    };
    check(
        f,
        f32s(&[3]),
        expect![[r#"
        error[tree]: $: custom_linear_solve: the result of `matvec`: expected f32[3], got f32[]
          help: convert or reshape it to the expected type
    "#]],
    );
    let f = |b: Array| {
        let solve = |_: &dyn Fn(&Array) -> Array, b: &Array| b.clone();
        custom_linear_solve(|x: &Array| x * 2, &b, solve, TransposeSolve::Symmetric)
    };
    check(
        f,
        Aval::new(DType::I32, [3]),
        expect![[r#"
        error[dtype]: custom_linear_solve: the right-hand side must be float or complex, got i32[3]
          operand: i32[3]
          while tracing: linear_solve_rejects_changed_types::{closure}
    "#]],
    );
}

mod on_cpu {
    use super::*;

    fn numbers(elements: &[f32]) -> Array {
        Array::from_slice(elements, [elements.len()]).unwrap()
    }

    #[test]
    fn reduce_applies_init_once() {
        let x = numbers(&[1.0, 2.0, 4.0]);
        let sum = reduce(&x, scalar(0.5), |a: Array, b: Array| a + b, &[0]);
        assert_eq!(sum.item::<f32>().unwrap(), 7.5);
        let none = zeros([0, 2]);
        let twice = |a: Array, b: Array| a * 1.0 + b;
        assert_eq!(reduce(&none, scalar(0.0), twice, &[0]).to_vec::<f32>().unwrap(), [0.0, 0.0]);
    }

    #[test]
    fn reduce_batches_over_init() {
        let reduced =
            |x: Array, init: Array| reduce(x, init, |a: Array, b: Array| logaddexp(&a, &b), &[0]);
        let x = numbers(&[0.0, 0.0, 0.0, 0.0]).reshape([2, 2]);
        let y = vmap(reduced).apply(&x, numbers(&[0.0, f32::NEG_INFINITY]));
        let expected = [3f32.ln(), 2f32.ln()];
        for (y, expected) in y.to_vec::<f32>().unwrap().iter().zip(expected) {
            assert!((y - expected).abs() < 1e-6, "{y} is not {expected}");
        }
    }

    #[test]
    fn disable_jit_gives_equal_results() {
        disable_jit(|| {
            let a = numbers(&[4.0, 9.0]);
            let newton = |f: &dyn Fn(&Array) -> Array, x: &Array| {
                fori_loop(0, 20, |_: Array, x: Array| &x - f(&x) / (&x * 2.0), x)
            };
            let divide = |g: &dyn Fn(&Array) -> Array, y: &Array| y / g(&ones_like(y));
            let root = custom_root(|x: &Array| x * x - &a, &ones_like(&a), newton, divide);
            assert_eq!(root.to_vec::<f32>().unwrap(), [2.0, 3.0]);
            let solve = |matvec: &dyn Fn(&Array) -> Array, b: &Array| b / matvec(&ones_like(b));
            let x = custom_linear_solve(|x: &Array| &a * x, &a, solve, TransposeSolve::Symmetric);
            assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 1.0]);
            let first = |a: Array, _: Array| a * 1.0;
            let (x, init) = (numbers(&[3.0, 3.0]), scalar(3.0));
            assert_eq!(reduce(&x, init, first, &[0]).item::<f32>().unwrap(), 3.0);
        });
    }
}
