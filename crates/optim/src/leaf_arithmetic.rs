//! Functions that several optimizers share.

use oxidax::optim::Leaves;
use oxidax::prelude::*;

/// Returns the dtype of numbers that belong to all leaves: `f64` if a leaf has it, or `f32`.
pub(crate) fn scalar_dtype(leaves: &Leaves) -> DType {
    let is_wide = leaves.values().iter().any(|leaf| leaf.dtype().real() == DType::F64);
    if is_wide { DType::F64 } else { DType::F32 }
}

/// Returns a number in the dtype of numbers that belong to all leaves.
pub(crate) fn number(leaves: &Leaves, value: f64) -> Array {
    full(([], scalar_dtype(leaves)), value)
}

/// Returns a copy, because a step may take the buffer of the parameter by donation.
pub(crate) fn copied(leaves: &Leaves) -> Leaves {
    leaves.map(|leaf| leaf + zeros(([], leaf.dtype())))
}

/// Multiplies leaves by a number, in their dtypes.
pub(crate) fn scaled(leaves: &Leaves, rate: &Array) -> Leaves {
    leaves.map(|leaf| leaf * rate.astype(leaf.dtype()))
}

/// Returns `(1 - decay) · x + decay · mean`.
pub(crate) fn mean(x: &Array, mean: &Array, decay: f64) -> Array {
    x * (1.0 - decay) + mean * decay
}

/// Chooses between two trees of equal structure.
pub(crate) fn select<T: Tree>(condition: &Array, yes: &T, no: &T) -> T {
    tree::zip_map(yes, no, |yes, no| where_(condition, yes, no))
}

/// Returns `base^count` for a count, in a dtype.
pub(crate) fn power(base: f64, count: &Array, dtype: DType) -> Array {
    pow(full(([], dtype), base), count.astype(dtype))
}

/// Returns the squared norm of all leaves together.
pub(crate) fn squared_norm(leaves: &Leaves) -> Array {
    let squares = leaves.map(|leaf| match leaf.dtype().is_complex() {
        true => leaf.real().square() + leaf.imag().square(),
        false => leaf.square(),
    });
    tree::sum(&squares)
}
