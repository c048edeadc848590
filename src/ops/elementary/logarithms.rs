//! Logarithms to base 2 and 10.

use crate::core::{Array, RuleError, trace};
use crate::primitives::{ArrayLike, div, inexact, log, logaddexp, mul, promote_inexact};
use std::f64::consts::{LN_2, LN_10};

/// Returns the logarithm to base 2 of each element; integers become floats. NaN for negative real
/// numbers.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| log2(&x), Aval::new(DType::I32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn log2(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    div(log(inexact(x)), LN_2)
}

/// Returns the logarithm to base 10 of each element; integers become floats. NaN for negative real
/// numbers.
#[track_caller]
pub fn log10(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    div(log(inexact(x)), LN_10)
}

/// Returns `log2(2^x + 2^y)` without overflow, with promotion and broadcasting; integers become
/// floats. Throws `Op` (dtype) for complex operands.
#[track_caller]
pub fn logaddexp2(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_inexact("logaddexp2", [x.like(), y.like()]);
    if x.dtype().is_complex() {
        let error = RuleError::dtype(format!("needs real operands, got {}", x.dtype()));
        trace::throw_operands("logaddexp2", error, &[&x, &y]);
    }
    div(logaddexp(mul(x, LN_2), mul(y, LN_2)), LN_2)
}
