//! Slices at fixed and at computed indices, and updates of slices.

mod dynamic;
mod slice;
mod update;
pub use dynamic::{
    DynamicIndexOptions, DynamicSlice, dynamic_index_in_dim, dynamic_index_in_dim_with,
    dynamic_slice, dynamic_slice_in_dim,
};
pub use slice::{Slice, slice, slice_in_dim};
pub use update::{DynamicUpdateSlice, dynamic_update_slice, dynamic_update_slice_in_dim};

use super::arithmetic::add;
use super::comparison::lt;
use super::constant::index_of;
use super::convert::convert_to;
use super::promote::{ArrayLike, Like};
use super::select::select;
use crate::core::{
    Array, Aval, DType, Loc, LowerCtx, RuleError, RuleResult, Scalar, Shape, promote,
};
use crate::stablehlo::Value;
use crate::{ensure, ensure_dtype, ensure_shape};

/// Checks start indices: one scalar per axis of `x`, all of one integer dtype.
fn check_starts(x: &Aval, starts: &[Aval]) -> RuleResult<()> {
    ensure!(
        starts.len() == x.rank(),
        "takes one start index per axis of {x}, {} in all, got {}",
        x.rank(),
        starts.len()
    );
    for start in starts {
        ensure_shape!(start.rank() == 0, "start indices must be scalars, got {start}");
        ensure_dtype!(
            start.dtype.is_integer() && start.dtype == starts[0].dtype,
            "start indices must be integers of one dtype, got {} and {}",
            starts[0].dtype,
            start.dtype
        );
    }
    Ok(())
}

/// Converts start indices to one dtype; negative ones count from the end of their axis.
#[track_caller]
fn resolve_starts(x: &Array, starts: &[impl ArrayLike]) -> RuleResult<Vec<Array>> {
    ensure!(
        starts.len() == x.rank(),
        "takes one start index per axis of {}, {} in all, got {}",
        x.aval(),
        x.rank(),
        starts.len()
    );
    let mut joint = (DType::I32, true);
    for start in starts {
        if let Like::Array(start) = start.like() {
            ensure_dtype!(
                start.dtype().is_integer(),
                "start indices must be integers, got {}",
                start.dtype()
            );
            ensure_shape!(start.rank() == 0, "start indices must be scalars, got {}", start.aval());
            let type_of_start = (start.dtype(), start.aval().weak);
            joint = promote(joint, type_of_start)
                .filter(|(dtype, _)| dtype.is_integer())
                .ok_or_else(|| {
                    RuleError::dtype(format!(
                        "start indices of {} and {} have no common integer dtype",
                        joint.0,
                        start.dtype()
                    ))
                })?;
        }
    }
    // Wide enough for every index and for the sum with a negative index.
    let longest = x.shape().iter().max().copied().unwrap_or(0) as i128;
    let dtype = match joint.0 {
        narrow if narrow.bits() < 32 => DType::I32,
        dtype if longest > dtype.int_range().1 => DType::I64,
        dtype => dtype,
    };
    let from_the_front = starts.iter().zip(x.shape().iter()).map(|(start, &size)| {
        match start.like() {
            Like::Scalar(Scalar::Int(start)) => {
                let start = if start < 0 { start + size as i128 } else { start };
                // Clamped to the axis, so that the dtype can represent the number.
                let start = start.clamp(0, size as i128);
                Ok(index_of(Scalar::Int(start), dtype))
            }
            Like::Scalar(other) => Err(RuleError::dtype(format!(
                "start indices must be integers, got {}",
                other.as_f64()
            ))),
            Like::Array(start) => {
                let start = convert_to(start, dtype, false);
                Ok(if dtype.is_signed() {
                    let size = Scalar::Int(size as i128);
                    select(&lt(&start, 0), &add(&start, size), &start)
                } else {
                    start
                })
            }
        }
    });
    Loc::caller().scope(|| from_the_front.collect())
}

/// Returns the axis sizes with the size of `axis` replaced.
fn with_size(shape: &Shape, axis: usize, size: usize) -> Vec<usize> {
    let mut sizes = shape.to_vec();
    sizes[axis] = size;
    sizes
}

/// Widens indices narrower than 32 bits, so that plugins do not compute bounds in 8 bits.
pub(super) fn widened_indices(ctx: &mut LowerCtx<'_>, indices: &Value) -> Value {
    let wide = match indices.ty().element() {
        "i2" | "i4" | "i8" | "i16" => "i32",
        "ui2" | "ui4" | "ui8" | "ui16" => "ui32",
        _ => return indices.clone(),
    };
    let ty = indices.ty().with_element(wide);
    ctx.op_as("convert", std::slice::from_ref(indices), "", &ty)
}

/// Stacks scalar start indices, each possibly batched, into one array of index vectors: `[batch?,
/// n]`, and returns its batch axis.
fn index_vectors(starts: &[Array], axes: &[Option<usize>], batch: usize) -> (Array, Option<usize>) {
    use super::shape::broadcast_in_dim;
    let mapped = axes.iter().any(Option::is_some);
    let columns: Vec<Array> = starts
        .iter()
        .zip(axes)
        .map(|(start, axis)| match (mapped, axis) {
            (false, _) => broadcast_in_dim(start, [1], &[]),
            (true, None) => broadcast_in_dim(start, [batch, 1], &[]),
            (true, Some(_)) => broadcast_in_dim(start, [batch, 1], &[0]),
        })
        .collect();
    let vectors = super::structural::concatenate(&columns, -1);
    (vectors, mapped.then_some(0))
}
