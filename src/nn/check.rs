//! Checks of a layer's operands, for layers of this crate and of others. Errors name the layer, the
//! leaf and the sizes.
//!
//! ```
//! use oxidax::nn::check::expect_features;
//! use oxidax::prelude::*;
//! let forward = |x: &Array, weight: &Array| {
//!     expect_features("Scale", x, "weight", weight, weight.size());
//!     x * weight
//! };
//! let error = oxidax::catch(|| forward(&ones([2, 3]), &ones([4]))).unwrap_err();
//! assert!(error.to_string().contains("has 3 features in its last axis, `weight` f32[4] takes 4"));
//! ```

use crate::core::{Array, DType, Loc, RuleError, throw_operands};
use crate::ops::promote_types;

/// Throws `Op` (shape) unless the last axis of `x` has the `n` features that a leaf takes.
#[track_caller]
pub fn expect_features(layer: &str, x: &Array, leaf: &str, array: &Array, n: usize) {
    let n_features = x.shape().last().copied();
    if n_features == Some(n) {
        return;
    }
    let has = match n_features {
        Some(n_features) => format!("has {n_features} features in its last axis"),
        None => "has no axis of features".into(),
    };
    let message = format!("x {} {has}, `{leaf}` {} takes {n}", x.aval(), array.aval());
    throw_operands(layer, RuleError::shape(message), &[x, array]);
}

/// Throws `Op` (shape) unless a given `leaf` has shape `[n]`, with `n` from `like`, another leaf of
/// the layer.
#[track_caller]
pub fn expect_vector(layer: &str, leaf: &str, array: &Array, n: usize, like: &Array) {
    if array.shape().dims() != [n] {
        let message =
            format!("`{leaf}` needs shape [{n}] for {}, got {}", like.aval(), array.aval());
        throw_operands(layer, RuleError::shape(message), &[array, like]);
    }
}

/// Returns the dtype that `x` and a layer's leaves, given with their names, promote to.
///
/// Throws `Op` (dtype) if they have no common dtype.
#[track_caller]
pub fn promoted_dtype(layer: &str, x: &Array, leaves: &[(&str, &Array)]) -> DType {
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

/// Returns the dtype in which statistics are computed: `f32` at least.
pub fn wide(dtype: DType) -> DType {
    if dtype.bits() < 32 { DType::F32 } else { dtype }
}
