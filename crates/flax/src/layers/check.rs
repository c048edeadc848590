//! Checks of a layer's operands.

use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::prelude::*;

/// Throws unless the last axis of `x` has the `n` features that a leaf takes.
#[track_caller]
pub(super) fn expect_features(layer: &str, x: &Array, leaf: &str, array: &Array, n: usize) {
    if x.shape().last() == Some(&n) {
        return;
    }
    let message = format!("x {} needs {n} features for `{leaf}` {}", x.aval(), array.aval());
    throw_operands(layer, RuleError::shape(message), &[x, array]);
}

/// Returns the dtype that `x` and a layer's leaves promote to.
#[track_caller]
pub(super) fn promoted_dtype(layer: &str, x: &Array, leaves: &[(&str, &Array)]) -> DType {
    Loc::caller().scope(|| {
        leaves.iter().fold(x.dtype(), |dtype, (name, leaf)| {
            promote_types(dtype, leaf.dtype()).unwrap_or_else(|| {
                let message =
                    format!("{dtype} and `{name}` {} have no implicit promotion", leaf.aval());
                let error = RuleError::dtype(message).help("convert one of them with `astype`");
                throw_operands(layer, error, &[x, leaf])
            })
        })
    })
}

/// Computes `x · weight` in `dtype`, with the sizes checked.
#[track_caller]
pub(super) fn project(layer: &str, x: &Array, name: &str, weight: &Array, dtype: DType) -> Array {
    let [n_in, _] = weight.dims();
    expect_features(layer, x, name, weight, n_in);
    matmul(&x.astype(dtype), &weight.astype(dtype))
}
