//! Error messages: one snapshot per kind, each with the user's file and line. After every error the
//! next call works.

mod extremes;
mod mistakes;
mod plugin;
mod survival;

use expect_test::{Expect, expect};
use oxidax::prelude::*;

fn f32s(shape: &[usize]) -> Aval {
    Aval::new(DType::F32, shape)
}

/// Checks the error, which must name `line` of this file.
fn check(error: &Error, line: u32, expected: Expect) {
    let text = error.to_string();
    let location = format!("tests/cpu/errors/mod.rs:{line}:");
    let (before, after) =
        text.split_once(&location).unwrap_or_else(|| panic!("line {line} is not named: {text}"));
    let rest = after.find('\n').map_or("", |column| &after[column..]);
    expected.assert_eq(&format!("{before}tests/cpu/errors/mod.rs:LINE:COLUMN{rest}"));
}

/// Checks that a valid program can be traced.
fn assert_tracing_works() {
    let program = make_program(|x: Array| sin(&x), f32s(&[2])).unwrap();
    assert_eq!(program.eqns().len(), 1);
}

#[test]
fn shape_mismatch_names_operation_line_and_path() {
    let line = line!() + 4;
    let train_step = jit(|w: Array, xs: Array| {
        let loss = |w: &Array| {
            let w = w.clone();
            reduce_sum(&vmap(move |x: Array| add(&w, &x)).apply(&xs), &[0])
        };
        grad(loss)(&w)
    })
    .name("train_step");
    let error = train_step.lower(f32s(&[3]), f32s(&[8, 4])).unwrap_err();
    check(
        &error,
        line,
        expect![[r#"
        error[shape]: add: shapes [3] and [4] do not broadcast: axis -1 is 3 and 4
          lhs: f32[3]
          rhs: f32[4]
           --> tests/cpu/errors/mod.rs:LINE:COLUMN
          while tracing: jit(train_step) > grad(shape_mismatch_names_operation_line_and_path::{closure}) > vmap[batch=8]"#]],
    );
    assert_tracing_works();
}

#[test]
fn branch_on_traced_value_suggests_cond() {
    let line = line!() + 1;
    let f = jit(|x: Array| if x.item::<f32>().unwrap() > 0.0 { x.clone() } else { -&x }).name("f");
    let error = f.lower(f32s(&[])).unwrap_err();
    check(
        &error,
        line,
        expect![[r#"
            error[tracer]: asked for the elements of a traced array, which has none while tracing
              traced array: f32[]
               --> tests/cpu/errors/mod.rs:LINE:COLUMN
              while tracing: jit(f)
              help: choose with `where_` or `cond`, pass the value as a static argument, or return the array and read it outside"#]],
    );
    assert_tracing_works();
}

#[test]
fn leaked_tracer_is_detected() {
    let leaked = std::sync::Arc::new(std::sync::Mutex::new(None));
    let cell = leaked.clone();
    eval_shape(
        move |x: Array| {
            *cell.lock().unwrap() = Some(x.clone());
            x
        },
        f32s(&[2]),
    )
    .unwrap();
    let tracer: Array = leaked.lock().unwrap().take().unwrap();
    let same_tracer = tracer.clone();
    let line = line!() + 1;
    let error = make_program(move |x: Array| add(&x, &same_tracer), f32s(&[2])).unwrap_err();
    check(
        &error,
        line,
        expect![[r#"
        error[tracer]: a traced array was used outside the trace that made it
          traced array: f32[2]
           --> tests/cpu/errors/mod.rs:LINE:COLUMN
          while tracing: leaked_tracer_is_detected::{closure}
          help: return the array from the traced function instead of keeping it in a cell, a static or another thread"#]],
    );
    let thread = std::thread::spawn(move || catch(|| sin(&tracer)).unwrap_err().to_string());
    assert!(thread.join().unwrap().contains("outside the trace that made it"));
    assert_tracing_works();
}

#[test]
fn dtype_mismatch_names_both_operands() {
    let fp8 = |dtype| Aval::new(dtype, [2]);
    let line = line!() + 2;
    let error =
        make_program(|x: Array, y: Array| add(&x, &y), (fp8(DType::F8E5M2), fp8(DType::F8E4M3FN)))
            .unwrap_err();
    check(
        &error,
        line,
        expect![[r#"
        error[dtype]: add: f8_e5m2 and f8_e4m3fn have no implicit promotion
          lhs: f8_e5m2[2]
          rhs: f8_e4m3fn[2]
           --> tests/cpu/errors/mod.rs:LINE:COLUMN
          while tracing: dtype_mismatch_names_both_operands::{closure}
          help: convert one of them with `astype`"#]],
    );
    assert_tracing_works();
}

#[test]
fn tree_mismatch_names_the_leaf() {
    let line = line!() + 4;
    let error = catch(|| {
        let a = vec![zeros_like_type(&[2]), zeros_like_type(&[3])];
        let b = vec![zeros_like_type(&[2])];
        tree::zip_map(&a, &b, |a, _| a.clone())
    })
    .unwrap_err();
    check(
        &error,
        line,
        expect![[r#"
        error[tree]: $: the structures differ: the first tree has 2 children, the second has 1 child
           --> tests/cpu/errors/mod.rs:LINE:COLUMN
          help: build both trees the same way"#]],
    );
    assert_tracing_works();
}

fn zeros_like_type(shape: &[usize]) -> Array {
    Array::of_type(f32s(shape))
}

#[test]
fn grad_requires_a_real_scalar() {
    let line = line!() + 1;
    let vector = make_program(|x: Array| grad(|x: &Array| sin(x))(&x), f32s(&[2])).unwrap_err();
    check(
        &vector,
        line,
        expect![[r#"
        error[shape]: grad: needs a function with a scalar output, got f32[2]
           --> tests/cpu/errors/mod.rs:LINE:COLUMN
          while tracing: grad_requires_a_real_scalar::{closure}"#]],
    );
    let complex = Aval::new(DType::C64, []);
    let complex = make_program(|x: Array| grad(|x: &Array| sin(x))(&x), complex).unwrap_err();
    assert!(complex.to_string().contains("real float output, got c64[]"));
    assert_tracing_works();
}

#[test]
fn vmap_requires_one_batch_size() {
    let line = line!() + 2;
    let error = make_program(
        |x: Array, y: Array| vmap(|x: Array, y: Array| add(&x, &y)).apply(&x, &y),
        (f32s(&[3, 2]), f32s(&[4, 2])),
    )
    .unwrap_err();
    check(
        &error,
        line,
        expect![[r#"
        error[tree]: $[1]: vmap: batch sizes differ: axis 0 is 4, axis 0 of $[0] is 3
           --> tests/cpu/errors/mod.rs:LINE:COLUMN
          help: pass `None` in `in_axes` for an argument that is not mapped"#]],
    );
    let line = line!() + 1;
    let error = make_program(|x: Array| vmap(|x: Array| x).apply(&x), f32s(&[])).unwrap_err();
    check(
        &error,
        line,
        expect![[r#"
        error[tree]: $[0]: vmap: in_axes: axis 0 is out of range for an array of rank 0
           --> tests/cpu/errors/mod.rs:LINE:COLUMN
          help: pass `None` in `in_axes` for an argument that is not mapped"#]],
    );
    assert_tracing_works();
}

#[test]
fn array_without_elements_cannot_be_an_operand() {
    let line = line!() + 1;
    let error = catch(|| sin(Array::of_type(f32s(&[2])))).unwrap_err();
    check(
        &error,
        line,
        expect![[r#"
        error[tracer]: an array without elements, which stands for a type, was used as an operand
          traced array: f32[2]
           --> tests/cpu/errors/mod.rs:LINE:COLUMN
          help: use it as an example argument of `eval_shape`, `make_program` or `lower` only"#]],
    );
}

#[test]
fn parse_error_names_line_and_column() {
    let texts = [
        "",
        "{ lambda ; a:f32[2]. let\n    b:f32[2] = sine a\n  in (b) }",
        "{ lambda ; a:f32[2]. let\n    b:f32[3] = sin a\n  in (b) }",
        "{ lambda ; a:f32[2]. let\n    b:f32[2] = sin c\n  in (b) }",
        "{ lambda ; a:f99[2]. let\n  in (a) }",
        "{ lambda ; a:f32[2]. let\n    b:f32[2] = convert_element_type[dtype=3] a\n  in (b) }",
    ];
    let errors: Vec<String> =
        texts.iter().map(|text| parse_program(text).unwrap_err().to_string()).collect();
    expect![[r#"
        error[value]: parse_program: line 1, column 1: expected `{`
        error[value]: parse_program: line 2, column 22: no primitive is called `sine`
        error[value]: parse_program: line 2, column 21: sin: the results are of type f32[2]
        error[value]: parse_program: line 2, column 21: `c` is not defined
        error[value]: parse_program: line 1, column 17: no dtype is called `f99`
        error[value]: parse_program: line 2, column 47: invalid type: integer `3`, expected a string"#]].assert_eq(&errors.join("\n"));
}

#[test]
fn equations_carry_the_users_locations() {
    #[track_caller]
    fn layer(x: &Array, w: &Array) -> Array {
        sin(&(x * w)) + 1.0
    }
    let step = |w: Array, x: Array| {
        let loss = |w: &Array| reduce_sum(&layer(&x, w), &[0]);
        let (value, gradient) = value_and_grad(loss)(&w);
        (value, &w - gradient * 0.1)
    };
    let program = make_program(step, (f32s(&[4]), f32s(&[4]))).unwrap();
    let other_locations: Vec<String> = program
        .eqns()
        .iter()
        .filter(|eqn| {
            eqn.loc.get().is_none_or(|location| !location.file().ends_with("errors/mod.rs"))
        })
        .map(|eqn| format!("{} at {:?}", eqn.primitive.name(), eqn.loc.get()))
        .collect();
    assert!(other_locations.is_empty(), "{other_locations:?}");
}

mod on_cpu {
    use super::*;

    #[test]
    fn error_before_execution_returns_the_arguments() {
        let step = jit(|w: Array, x: Array| add(&w, &x)).name("step");
        let w = Array::from_slice(&[1.0f32, 2.0], [2]).unwrap();
        let x = Array::from_slice(&[1.0f32, 2.0, 3.0], [3]).unwrap();
        let failed = step.call(w, &x).unwrap_err();
        assert!(failed.to_string().starts_with("error[shape]: add: "));
        let w = failed.args.0.expect("the owned argument is returned");
        assert!(failed.args.1.is_none(), "the borrowed argument is not returned");
        let x = Array::from_slice(&[1.0f32, 1.0], [2]).unwrap();
        assert_eq!(step.call(w, &x).unwrap().to_vec::<f32>().unwrap(), [2.0, 3.0]);
        assert_eq!(step.stats().signatures, 1);
        assert_eq!(step.stats().compiles, 1);
    }

    #[test]
    fn reading_as_another_dtype_is_an_error() {
        let x = Array::from_slice(&[1.0f32, 2.0], [2]).unwrap();
        let line = line!() + 1;
        let error = x.to_vec::<i32>().unwrap_err();
        check(
            &error,
            line,
            expect![[r#"
            error[dtype]: to_vec: asked for i32, the array is f32[2]
               --> tests/cpu/errors/mod.rs:LINE:COLUMN"#]],
        );
        let line = line!() + 1;
        let error = x.item::<f32>().unwrap_err();
        check(
            &error,
            line,
            expect![[r#"
            error[shape]: item: needs an array with one element, got f32[2]
               --> tests/cpu/errors/mod.rs:LINE:COLUMN"#]],
        );
        let line = line!() + 1;
        let short = Array::from_slice(&[1.0f32], [2]).unwrap_err();
        check(
            &short,
            line,
            expect![[r#"
            error[shape]: from_slice: f32[2] takes 8 bytes (2 elements of 4), got 4
               --> tests/cpu/errors/mod.rs:LINE:COLUMN"#]],
        );
        assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    }

    #[test]
    fn out_of_memory_is_recoverable() {
        let huge = jit(|x: Array| {
            let wide = |n: i32| broadcast_in_dim(&(&x + n), [1 << 17, 1 << 16], &[]);
            (0..64).map(wide).collect::<Vec<_>>()
        })
        .name("huge");
        let x = Array::from_slice(&[1.0f32], []).unwrap();
        let failed = huge.call(&x).unwrap_err();
        assert!(failed.to_string().contains("error[runtime]"), "{failed}");
        assert!(failed.to_string().contains("memory"), "{failed}");
        assert_eq!(sin(zeros([1])).to_vec::<f32>().unwrap(), [0.0]);
    }

    #[test]
    fn uncaught_eager_error_panics_with_its_message() {
        let x = Array::from_slice(&[1.0f32, 2.0], [2]).unwrap();
        let y = Array::from_slice(&[1.0f32, 2.0, 3.0], [3]).unwrap();
        let caught = catch(|| add(&x, &y)).unwrap_err().to_string();
        let payload = std::panic::catch_unwind(|| add(&x, &y)).unwrap_err();
        let text = payload.downcast_ref::<String>().expect("the panic has a message");
        assert_eq!(caught.lines().next(), text.lines().next());
        assert_eq!(sin(zeros([1])).to_vec::<f32>().unwrap(), [0.0]);
    }
}
