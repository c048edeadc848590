//! Automatic checks: `checkify`, and the setting for all functions.

use oxidax::config::with_error_checking;
use oxidax::debug::{CheckSet, checkify};
use oxidax::prelude::*;

/// Returns the first line of the error that `f` throws or returns, and the line that it names.
fn failure(f: impl FnOnce() -> Array) -> (String, u32) {
    let error = oxidax::catch(f).expect_err("a check fails");
    let text = error.to_string();
    let location = text.lines().find(|line| line.contains("--> ")).expect("there is a location");
    assert!(location.contains("checkify.rs"), "{text}");
    let line = location.split(':').nth(1).and_then(|line| line.parse().ok());
    (text.lines().next().unwrap_or_default().to_owned(), line.expect("a line number"))
}

/// Returns the first line of the error of `f` applied to `x`, and checks that `jit` reports the
/// same.
fn failure_of(f: impl Fn(&Array) -> Array + Sync, x: &Array) -> (String, u32) {
    let eager = failure(|| f(x));
    let compiled = jit(|x: Array| f(&x));
    let compiled = failure(|| compiled.call(x).unwrap_or_else(|failed| panic_with(failed.error)));
    assert_eq!(eager, compiled);
    eager
}

fn panic_with(error: oxidax::Error) -> Array {
    oxidax::core::throw(error)
}

mod on_cpu {
    use super::*;

    #[test]
    fn an_index_out_of_bounds_names_the_axis_and_the_line() {
        let x = array![1.0, 2.0, 3.0];
        let (text, line) =
            failure_of(|i| checkify(|i: &Array| take(&x, i, 0), CheckSet::INDEX)(i), &scalar(7));
        let expected = "error[value]: gather: index out of bounds for f32[3]: along axis 0 the \
                        index is 7, 0 to 2 are inside";
        assert_eq!((text.as_str(), line), (expected, line!() - 3));
        // Indices that count from the end are inside.
        let pick = checkify(|i: &Array| take(&x, i, 0), CheckSet::AUTOMATIC);
        assert_eq!(pick(&array![-1, 0]).to_vec::<f32>().unwrap(), [3.0, 1.0]);
        let (text, _) = failure_of(|i| pick(i), &array![0, -4]);
        assert!(text.ends_with("along axis 0 indices are -1 to 0, 0 to 2 are inside"), "{text}");
        assert_eq!(pick(&zeros([0]).astype(DType::I32)).size(), 0);
    }

    #[test]
    fn updates_and_slices_are_checked() {
        let set = checkify(|i: &Array| zeros([2]).at(&[i.into()]).add(1.0), CheckSet::INDEX);
        assert_eq!(set(&array![1, 1]).to_vec::<f32>().unwrap(), [0.0, 2.0]);
        let (text, _) = failure_of(|i| set(i), &array![0, 2]);
        assert!(
            text.starts_with("error[value]: scatter: index out of bounds for f32[2]"),
            "{text}"
        );
        let slice =
            checkify(|i: &Array| dynamic_slice(&ones([4, 2]), (i, 0), [3, 2]), CheckSet::INDEX);
        assert_eq!(slice(&scalar(1)).shape().dims(), [3, 2]);
        let (text, _) = failure_of(|i| slice(i), &scalar(2));
        let found = "along axis 0 the index is 2, 0 to 1 are inside; along axis 1 the index is 0";
        assert!(text.contains(found), "{text}");
        let update = checkify(
            |i: &Array| dynamic_update_slice(&ones([4]), &zeros([2]), (i,)),
            CheckSet::INDEX,
        );
        let (text, _) = failure_of(|i| update(i), &scalar(3));
        assert!(text.starts_with("error[value]: dynamic_update_slice: index out"), "{text}");
    }

    #[test]
    fn divisions_by_zero_are_counted() {
        let inverse = checkify(|x: &Array| 1.0 / x, CheckSet::DIV);
        let (text, _) = failure_of(|x| inverse(x), &array![0.0, 1.0, -0.0]);
        assert_eq!(text, "error[value]: div: divides by zero: 2 of 3 divisors are zero");
        let modulo = checkify(|x: &Array| scalar(7) % x, CheckSet::FLOAT);
        assert_eq!(modulo(&scalar(4)).item::<i32>().unwrap(), 3);
        let (text, _) = failure_of(|x| modulo(x), &scalar(0));
        assert_eq!(text, "error[value]: rem: divides by zero");
        for dtype in [DType::BF16, DType::F16, DType::F64, DType::C64, DType::U8] {
            let zero = scalar(0).astype(dtype);
            let divide = checkify(|x: &Array| oxidax::primitives::div(x, x), CheckSet::DIV);
            assert!(failure(|| divide(&zero)).0.contains("divides by zero"), "{dtype}");
        }
    }

    #[test]
    fn a_nan_is_reported_where_it_appears() {
        let f = |x: &Array| (log(x) * 2.0).sum();
        let (text, line) = failure_of(|x| checkify(f, CheckSet::NAN)(x), &array![-1.0, 1.0]);
        let expected = "error[value]: log: made a NaN of operands without one";
        assert_eq!((text.as_str(), line), (expected, line!() - 3));
        // A NaN of an argument, and constants, are not errors; neither is an infinity.
        let checked = checkify(|x: &Array| log(x), CheckSet::NAN);
        assert!(checked(&scalar(f32::NAN)).item::<f32>().unwrap().is_nan());
        assert_eq!(checked(&scalar(0.0)).item::<f32>().unwrap(), f32::NEG_INFINITY);
        // The cause is reported, not the NaN that follows from it.
        let (text, _) =
            failure_of(|x| checkify(|x: &Array| x / x, CheckSet::FLOAT)(x), &scalar(0.0));
        assert_eq!(text, "error[value]: div: divides by zero");
    }

    #[test]
    fn loops_branches_and_calls_are_checked_inside() {
        let in_scan = checkify(
            |x: &Array| scan(|c: Array, x: Array| (c / x, ()), scalar(1.0), x.clone()).0,
            CheckSet::DIV,
        );
        assert_eq!(in_scan(&array![2.0, 4.0]).item::<f32>().unwrap(), 0.125);
        assert!(failure_of(|x| in_scan(x), &array![2.0, 0.0]).0.contains("divides by zero"));
        let in_while = checkify(
            |n: &Array| {
                let step =
                    |(i, x): (Array, Array)| (&i + 1, dynamic_slice(&arange(4), (&i,), [1]) + x);
                while_loop(|(i, _): &(Array, Array)| lt(i, n), step, (scalar(0), array![0])).1
            },
            CheckSet::INDEX,
        );
        assert_eq!(in_while(&scalar(4)).to_vec::<i32>().unwrap(), [6]);
        assert!(failure_of(|n| in_while(n), &scalar(5)).0.contains("the index is 4"));
        let branches = checkify(
            |x: &Array| cond(gt(x, 0.0), |x: Array| 1.0 / x, |x: Array| log(&x), x.clone()),
            CheckSet::FLOAT,
        );
        assert_eq!(branches(&scalar(2.0)).item::<f32>().unwrap(), 0.5);
        assert!(failure_of(|x| branches(x), &scalar(-1.0)).0.starts_with("error[value]: log"));
        let inner = jit(|x: Array| 1.0 / x);
        let calls = checkify(|x: &Array| remat(|x: &Array| inner.apply(x))(x), CheckSet::DIV);
        assert!(failure_of(|x| calls(x), &scalar(0.0)).0.contains("divides by zero"));
        let custom = custom_jvp(|x: &Array| log(x), |x: &Array, dx: &Array| (log(x), dx / x));
        let custom = checkify(|x: &Array| custom(x), CheckSet::NAN);
        assert!(failure_of(|x| custom(x), &scalar(-1.0)).0.starts_with("error[value]: log"));
    }

    #[test]
    fn transforms_keep_checks_and_checks_take_transforms() {
        let pick = checkify(|x: &Array, i: &Array| take(x, i, 0), CheckSet::INDEX);
        let batched =
            |i: &Array| vmap(|x: Array, i: Array| pick(&x, &i)).apply(ones([2, 3]), i.clone());
        assert_eq!(batched(&array![0, 2]).to_vec::<f32>().unwrap(), [1.0, 1.0]);
        assert!(failure_of(batched, &array![1, 4]).0.contains("the index is 4"));
        let whole = checkify(vmap(|x: Array, i: Array| take(&x, &i, 0)), CheckSet::INDEX);
        let whole = |i: &Array| whole(&ones([2, 3]), i);
        assert!(failure_of(whole, &array![1, 4]).0.contains("along axis 1 indices are 1 to 4"));
        // The value is fine, the derivative divides by zero.
        let value = checkify(|x: &Array| sqrt(x), CheckSet::FLOAT);
        assert_eq!(grad(|x: &Array| value(x))(&scalar(0.0)).item::<f32>().unwrap(), f32::INFINITY);
        let slope = checkify(grad(|x: &Array| sqrt(x)), CheckSet::FLOAT);
        assert!(failure_of(|x| slope(x), &scalar(0.0)).0.contains("divides by zero"));
        let both = |x: &Array| value_and_grad(|x: &Array| value(x).sum())(x).1;
        assert!(failure_of(both, &array![1.0, -1.0]).0.starts_with("error[value]: sqrt"));
        // A batch of conditions runs all branches.
        let branches = |x: Array| cond(gt(&x, 0.0), |x: Array| 1.0 / x, |x: Array| x, x.clone());
        let checked = checkify(|x: &Array| branches(x.clone()), CheckSet::DIV);
        let error = oxidax::catch(|| vmap(|x: Array| checked(&x)).apply(array![1.0, 0.0]));
        assert!(error.unwrap_err().to_string().contains("side effects"), "a clear refusal");
    }

    #[test]
    fn user_checks_are_a_set_of_their_own() {
        let f = |x: &Array| {
            debug::check(gt(x, 0.0), "not positive: {}", [x]);
            1.0 / x
        };
        assert_eq!(checkify(f, CheckSet::DIV)(&scalar(-2.0)).item::<f32>().unwrap(), -0.5);
        let user = checkify(f, CheckSet::USER);
        assert_eq!(
            failure_of(|x| user(x), &scalar(-2.0)).0,
            "error[value]: check: not positive: -2."
        );
        let all = checkify(checkify(f, CheckSet::ALL), CheckSet::ALL - CheckSet::USER);
        assert!(failure_of(|x| all(x), &scalar(0.0)).0.contains("divides by zero"));
    }

    #[test]
    fn a_scope_checks_every_function_and_recompiles() {
        let inner = jit(|x: Array| 1.0 / x);
        let outer = jit(move |x: Array| inner.apply(x) * 2.0);
        let call = || outer.call(zeros([2])).unwrap_or_else(|failed| panic_with(failed.error));
        assert_eq!(call().to_vec::<f32>().unwrap(), [f32::INFINITY; 2]);
        assert!(failure(|| with_error_checking(CheckSet::DIV, call)).0.contains("divides by zero"));
        assert_eq!(call().to_vec::<f32>().unwrap(), [f32::INFINITY; 2]);
        let eager = || with_error_checking(CheckSet::AUTOMATIC, || 1.0 / zeros([]));
        assert_eq!(failure(eager), ("error[value]: div: divides by zero".into(), line!() - 1));
        let slope = || with_error_checking(CheckSet::DIV, || grad(|x: &Array| sqrt(x))(&zeros([])));
        assert!(failure(slope).0.contains("divides by zero"));
        // The checks of the user stay.
        let refuse = || {
            debug::check(full([], false), "no", ());
            zeros([])
        };
        assert_eq!(
            failure(|| with_error_checking(CheckSet::DIV, refuse)).0,
            "error[value]: check: no"
        );
        with_error_checking(CheckSet::NONE, || 1.0 / zeros([]));
    }

    #[test]
    fn the_text_of_a_checked_program_names_the_operation() {
        let checked = checkify(|x: &Array| (1.0 / x).sum(), CheckSet::DIV);
        let program = make_program(|x: Array| checked(&x), Aval::new(DType::F32, [2])).unwrap();
        let text = program.to_string();
        assert!(text.contains("divides by zero") && text.contains("\"div\""), "{text}");
    }
}
