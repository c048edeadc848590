//! Conventions that many rules share.

use super::shape::{broadcast_in_dim, transpose};
use crate::core::{
    Array, Aval, BatchAxis, Batched, DType, JvpResult, Primitive, RuleError, RuleResult, Shape,
    Tangent, bind_shared,
};
use crate::stablehlo::Value;
use crate::{ensure_dtype, ensure_shape};
use std::sync::Arc;

/// Returns the operands as an array of exactly `N`: `let [x, y] = arity(operands)?;`.
///
/// # Errors
/// If the number of operands differs.
pub fn arity<const N: usize>(operands: &[Aval]) -> RuleResult<&[Aval; N]> {
    operands
        .try_into()
        .map_err(|_| RuleError::value(format!("takes {N} operands, got {}", operands.len())))
}

/// Returns the type of operands that all have the same one; weak if all operands are weak.
///
/// # Errors
/// If dtypes or shapes differ.
pub fn same_type(operands: &[Aval]) -> RuleResult<Aval> {
    let [first, rest @ ..] = operands else {
        return Err(RuleError::value("takes at least one operand, got 0"));
    };
    for other in rest {
        ensure_dtype!(
            other.dtype == first.dtype,
            "operands must have one dtype, got {} and {}",
            first.dtype,
            other.dtype
        );
        ensure_shape!(
            other.shape == first.shape,
            "operands must have one shape, got {} and {}",
            first.shape,
            other.shape
        );
    }
    Ok(Aval { weak: operands.iter().all(|aval| aval.weak), ..first.clone() })
}

/// Like [`same_type`], for a float or complex dtype.
///
/// # Errors
/// If types differ or the dtype is another one.
pub fn same_inexact_type(operands: &[Aval]) -> RuleResult<Aval> {
    let aval = same_type(operands)?;
    ensure_dtype!(aval.dtype.is_inexact(), "needs a float or complex operand, got {}", aval.dtype);
    Ok(aval)
}

/// Like [`same_type`], for every dtype but `bool`.
///
/// # Errors
/// If types differ or the dtype is `bool`.
pub fn same_numeric_type(operands: &[Aval]) -> RuleResult<Aval> {
    let aval = same_type(operands)?;
    ensure_dtype!(!aval.dtype.is_bool(), "needs a numeric operand, got {}", aval.dtype);
    Ok(aval)
}

/// Like [`same_type`], for a float dtype.
///
/// # Errors
/// If types differ or the dtype is another one.
pub fn same_float_type(operands: &[Aval]) -> RuleResult<Aval> {
    let aval = same_type(operands)?;
    ensure_dtype!(aval.dtype.is_float(), "needs a float operand, got {}", aval.dtype);
    Ok(aval)
}

/// Like [`same_type`], for an integer dtype.
///
/// # Errors
/// If types differ or the dtype is another one.
pub fn same_integer_type(operands: &[Aval]) -> RuleResult<Aval> {
    let aval = same_type(operands)?;
    ensure_dtype!(aval.dtype.is_integer(), "needs an integer operand, got {}", aval.dtype);
    Ok(aval)
}

/// Like [`same_type`], for `bool` or an integer dtype.
///
/// # Errors
/// If types differ or the dtype is another one.
pub fn same_bits_type(operands: &[Aval]) -> RuleResult<Aval> {
    let aval = same_type(operands)?;
    ensure_dtype!(
        aval.dtype.is_bool() || aval.dtype.is_integer(),
        "needs a bool or integer operand, got {}",
        aval.dtype
    );
    Ok(aval)
}

/// Resolves an axis that counts from the back if it is negative.
///
/// # Errors
/// If the axis is out of range.
pub fn resolve_axis(axis: isize, rank: usize) -> RuleResult<usize> {
    let position = if axis < 0 { axis + rank as isize } else { axis };
    usize::try_from(position).ok().filter(|&position| position < rank).ok_or_else(|| {
        RuleError::shape(format!("axis {axis} is out of range for an array of rank {rank}"))
    })
}

/// Moves axis `from` to position `to`.
#[track_caller]
pub fn move_axis(x: &Array, from: usize, to: usize) -> Array {
    if from == to {
        return x.clone();
    }
    let mut order: Vec<usize> = (0..x.rank()).filter(|&axis| axis != from).collect();
    order.insert(to, from);
    transpose(x, &order)
}

/// Inserts an axis of size `size` at position `axis`, along which the array repeats.
pub fn broadcast_axis(x: &Array, axis: usize, size: usize) -> Array {
    let dimensions: Vec<usize> = (0..=x.rank()).filter(|&other| other != axis).collect();
    broadcast_in_dim(x, x.shape().insert(axis, size), &dimensions)
}

/// Moves the batch axis to position `to`, or broadcasts an array without one.
pub fn batch_at(x: &Array, axis: Option<usize>, to: usize, batch: &BatchAxis) -> Array {
    match axis {
        Some(from) => move_axis(x, from, to),
        None => broadcast_axis(x, to, batch.size),
    }
}

/// Moves the batch axis of all operands to the front.
pub fn batch_at_front(operands: &[Array], axes: &[Option<usize>], batch: &BatchAxis) -> Vec<Array> {
    operands.iter().zip(axes).map(|(x, &axis)| batch_at(x, axis, 0, batch)).collect()
}

/// Batches an elementwise primitive: applies the same primitive to the aligned operands.
///
/// # Errors
/// Never; the signature is that of the rule.
pub fn batch_elementwise(
    primitive: &(impl Primitive + Clone),
    operands: &[Array],
    axes: &[Option<usize>],
    batch: &BatchAxis,
) -> RuleResult<Batched> {
    let primitive: Arc<dyn Primitive> = Arc::new(primitive.clone());
    batch_shared(&primitive, operands, axes, batch)
}

/// [`batch_elementwise`] for a shared primitive.
pub(super) fn batch_shared(
    primitive: &Arc<dyn Primitive>,
    operands: &[Array],
    axes: &[Option<usize>],
    batch: &BatchAxis,
) -> RuleResult<Batched> {
    let to = axes.iter().flatten().next().copied().unwrap_or(0);
    let aligned: Vec<Array> =
        operands.iter().zip(axes).map(|(x, &axis)| batch_at(x, axis, to, batch)).collect();
    let outputs = bind_shared(primitive, &aligned.iter().collect::<Vec<_>>());
    let axes = vec![Some(to); outputs.len()];
    Ok(Batched { outputs, axes })
}

/// Creates a [`Batched`] of one output.
pub fn batched(output: Array, axis: usize) -> Batched {
    Batched { outputs: vec![output], axes: vec![Some(axis)] }
}

/// Differentiates a function whose derivative is zero wherever it exists: rounding, comparison,
/// operations on integers.
///
/// # Errors
/// Never; the signature is that of the rule.
pub fn zero_jvp(primitive: &(impl Primitive + Clone), primals: &[Array]) -> JvpResult {
    let primitive: Arc<dyn Primitive> = Arc::new(primitive.clone());
    zero_jvp_shared(&primitive, primals)
}

/// [`zero_jvp`] for a shared primitive.
pub(super) fn zero_jvp_shared(primitive: &Arc<dyn Primitive>, primals: &[Array]) -> JvpResult {
    let outputs = bind_shared(primitive, &primals.iter().collect::<Vec<_>>());
    let tangents = outputs.iter().map(Tangent::zero_like).collect();
    Ok((outputs, tangents))
}

/// Differentiates a function that is linear in its only operand.
///
/// # Errors
/// Never; the signature is that of the rule.
pub fn linear_jvp(
    primitive: &(impl Primitive + Clone),
    primals: &[Array],
    tangents: &[Tangent],
) -> JvpResult {
    let primitive: Arc<dyn Primitive> = Arc::new(primitive.clone());
    linear_jvp_shared(&primitive, primals, tangents)
}

/// [`linear_jvp`] for a shared primitive.
pub(super) fn linear_jvp_shared(
    primitive: &Arc<dyn Primitive>,
    primals: &[Array],
    tangents: &[Tangent],
) -> JvpResult {
    let apply = |x: &Array| bind_shared(primitive, &[x]).swap_remove(0);
    let y = apply(&primals[0]);
    let dy = tangents[0].map(y.aval(), apply);
    Ok((vec![y], vec![dy]))
}

/// Returns the cotangent of a primitive with one result.
///
/// # Errors
/// If it is zero, which is a bug: rules are not called with zero cotangents only.
pub fn one_cotangent(cts: &[Tangent]) -> RuleResult<&Array> {
    cts.first().and_then(Tangent::array).ok_or_else(|| {
        RuleError::new(crate::core::OpErrorKind::Bug, "transposed without a cotangent")
    })
}

/// Returns the shape without the given axes.
pub fn without_axes(shape: &Shape, axes: &[usize]) -> Shape {
    (0..shape.rank()).filter(|axis| !axes.contains(axis)).map(|axis| shape[axis]).collect()
}

/// Returns the dtype of an operand of a `lower` rule.
pub fn element_dtype(value: &Value) -> DType {
    DType::from_stablehlo(value.ty().element()).expect("values have the element type of a dtype")
}
