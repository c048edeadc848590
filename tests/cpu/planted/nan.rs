//! Planted NaNs. The error names the operation, its line, the leaf that it read if that is an
//! argument, and the index of the first element.

use oxidax::prelude::*;

/// Checks the error of a call: the operation, the line, and further parts of the text.
fn check<T>(called: Result<T, impl Into<Error>>, operation: &str, line: u32, parts: &[&str]) {
    let text = called.map(|_| ()).map_err(Into::into).unwrap_err().to_string();
    let first = format!("error[value]: {operation}: made a NaN of operands without one\n");
    assert!(text.starts_with(&first), "{text}");
    assert!(text.contains(&format!("\n   --> {}:{line}:", file!())), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

/// Calls a function of one line with these arguments, and checks the error.
macro_rules! planted {
    ($operation:literal: $f:expr, $($argument:expr),*; $($part:expr),*) => {{
        let (f, line) = (jit($f), line!());
        let called = debug::nan_check(|| f.call($($argument),*));
        check(called.map_err(|failed| failed.error), $operation, line, &[$($part),*]);
    }};
}

mod on_cpu {
    use super::*;

    #[test]
    fn domains_of_functions() {
        let x = (ones([2, 2]), array![[1.0, 1.0], [1.0, -1.0]]);
        planted!("log": |x: (Array, Array)| log(&x.1) + &x.0, x;
            "\n  operand 0, $[0][1]: f32[2,2]",
            "\n  result f32[2,2]: 1 of 4 elements, the first at [1, 1]\n");
        planted!("div": |x: Array, y: Array| &x / &y, zeros([3]), array![1.0, 0.0, 0.0];
            "\n  operand 0, $[0]: f32[3]", "\n  operand 1, $[1]: f32[3]",
            "\n  result f32[3]: 2 of 3 elements, the first at [1]\n");
        planted!("pow": |x: Array| power(&x, 0.5), array![4.0, -4.0];
            "result f32[2]: 1 of 2 elements, the first at [1]");
    }

    #[test]
    fn differences_of_infinities() {
        // A row that is masked as a whole: the maximum is -∞, and -∞ + ∞ is NaN.
        planted!("sub": |x: Array| &x - &x.max_axes([1]).reshape([2, 1]),
            array![[0.0, 1.0], [f32::NEG_INFINITY, f32::NEG_INFINITY]];
            "\n  operand 0, $[0]: f32[2,2]", "2 of 4 elements, the first at [1, 0]");
        // The exponentials overflow.
        planted!("div": |x: Array| exp(&x) / &exp(&x).sum(), array![1.0, 100.0];
            "result f32[2]: 1 of 2 elements, the first at [1]");
        planted!("mul": |x: Array| &x * &exp(-&(&x * 1e9)), array![0.0, f32::INFINITY, 1.0];
            "the first at [1]");
    }

    #[test]
    fn gradients_and_loops() {
        // The gradient of a norm at 0 is 0 times infinity.
        planted!("mul": |x: Array| grad(|x: &Array| sqrt((x * x).sum()))(&x), zeros([2]);
            "result f32[2]: 2 of 2 elements, the first at [0]");
        let step = |x: Array, w: Array| (sqrt(&(&x - &w)), ());
        let line = line!() - 1;
        let f = jit(move |x: Array, ws: Array| scan(step, x, &ws).0);
        let called = debug::nan_check(|| f.call(array![2.0], array![[1.0], [2.0]]));
        let elements = ["operand 0 = [-1.]", "1 of 1 elements, the first at [0]"];
        check(called.map_err(|failed| failed.error), "sqrt", line, &elements);
    }

    #[test]
    fn compiled_ahead_of_time() {
        let (f, line) = (jit(|x: (Array, Array)| acos(&x.1)), line!());
        let arguments = (zeros([1]), array![2.0]);
        let f = f.lower(&arguments).unwrap().compile().unwrap();
        let called = debug::nan_check(|| f.call(&arguments));
        let leaf = ["operand 0, $[0][1]: f32[1]"];
        check(called.map_err(|failed| failed.error), "acos", line, &leaf);
    }
}
