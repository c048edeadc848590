//! Finding the operation that makes a NaN.

use crate::core::nan_check::{NanCheck, with_nan_check};

/// Runs `f` and names the first operation that makes a NaN: with its line, forward or backward.
///
/// Within `f`, results of compiled programs and of single operations are looked at. If there is a NaN, the
/// program runs again operation by operation until one makes a NaN of operands that have none; that one is
/// thrown as `Op` (value), or returned as `Err` by `Jit::call`. NaN that a program makes and masks again is
/// not seen. Nothing is donated meanwhile, and everything is slower: for finding mistakes.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let f = jit(|x: Array| grad(|x: &Array| sqrt(x))(&x) * 0.0);
/// let error = debug::nan_check(|| f.call(&zeros([], DType::F32))).unwrap_err();
/// assert!(error.to_string().contains("made a NaN"));
/// ```
#[doc(alias = "jax.debug_nans")]
#[doc(alias = "jax_debug_nans")]
pub fn nan_check<R>(f: impl FnOnce() -> R) -> R {
    with_nan_check(NanCheck::Nan, f)
}

/// As [`nan_check`], and for infinities too, but for those that constants hold.
#[doc(alias = "jax_debug_infs")]
pub fn finite_check<R>(f: impl FnOnce() -> R) -> R {
    with_nan_check(NanCheck::NonFinite, f)
}
