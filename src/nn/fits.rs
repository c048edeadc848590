//! What layers ask of their operands, refused in one form: the layer, the leaf, the sizes.

use crate::core::{Array, DType, RuleError, throw_operands};
use crate::ops::promote_types;

/// Refuses an `x` whose last axis has not the `n` features that a leaf takes.
#[track_caller]
pub(super) fn expect_features(layer: &str, x: &Array, leaf: &str, array: &Array, n: usize) {
    let found = x.shape().last().copied();
    if found == Some(n) {
        return;
    }
    let has = match found {
        Some(found) => format!("has {found} features in its last axis"),
        None => "has no axis of features".into(),
    };
    let message = format!("x {} {has}, `{leaf}` {} takes {n}", x.aval(), array.aval());
    throw_operands(layer, RuleError::shape(message), &[x, array]);
}

/// The dtype that `x` and a layer's leaves promote to.
#[track_caller]
pub(super) fn promoted(layer: &str, x: &Array, leaves: &[(&str, &Array)]) -> DType {
    leaves.iter().fold(x.dtype(), |dtype, (name, leaf)| {
        promote_types(dtype, leaf.dtype()).unwrap_or_else(|| {
            let message =
                format!("{dtype} and `{name}` {} have no implicit promotion", leaf.aval());
            let error = RuleError::dtype(message).help("convert one of them with `astype`");
            throw_operands(layer, error, &[x, leaf])
        })
    })
}

/// The dtype that statistics are computed in: `f32` at least.
pub(super) fn wide(dtype: DType) -> DType {
    if dtype.bits() < 32 { DType::F32 } else { dtype }
}
