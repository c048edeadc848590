//! Locating the operation that produces a NaN.

use crate::core::nan_check::{NanCheck, with_nan_check};

/// Runs `f` and reports the first operation that produces a NaN, with its line, in the forward or
/// backward pass.
///
/// Within `f`, results of compiled programs and of single operations are checked. If one contains
/// NaN, the program runs again operation by operation, until one produces NaN from operands without
/// NaN. The error names that operation: it is thrown as `Op` (value), or returned as `Err` by
/// `Jit::call`. NaN that a program masks before its results is not detected. Donation is disabled
/// and everything is slower.
///
/// ```
/// use oxidax::prelude::*;
/// let f = jit(|x: Array| grad(|x: &Array| sqrt(x))(&x) * 0.0);
/// let error = debug::nan_check(|| f.call(&zeros([]))).unwrap_err();
/// assert!(error.to_string().contains("made a NaN"));
/// ```
#[doc(alias = "jax.debug_nans")]
#[doc(alias = "jax_debug_nans")]
pub fn nan_check<R>(f: impl FnOnce() -> R) -> R {
    with_nan_check(NanCheck::Nan, f)
}

/// Like [`nan_check`], and also reports infinities, except those in constants.
#[doc(alias = "jax_debug_infs")]
pub fn finite_check<R>(f: impl FnOnce() -> R) -> R {
    with_nan_check(NanCheck::NonFinite, f)
}
