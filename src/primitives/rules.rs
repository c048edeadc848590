//! Conventions that many rules share. Where a rule is conventional, its author writes the
//! convention's name.

use super::arithmetic::Add;
use super::shape::{broadcast_in_dim, transpose};
use crate::core::{
    Array, Aval, BatchAxis, Batched, DType, JvpResult, Primitive, RuleError, RuleResult, Shape,
    Tangent, bind, bind1,
};
use crate::stablehlo::Value;
use crate::{ensure_dtype, ensure_shape};

/// The operands as an array of exactly `N`: `let [x, y] = arity(operands)?;`.
///
/// # Errors
/// If there are more or fewer.
pub fn arity<const N: usize>(operands: &[Aval]) -> RuleResult<&[Aval; N]> {
    operands
        .try_into()
        .map_err(|_| RuleError::value(format!("takes {N} operands, got {}", operands.len())))
}

/// The result of an elementwise operation on operands of one type: that type, weak if all are.
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

/// As [`same_type`], and the dtype must be float or complex.
///
/// # Errors
/// If it is not.
pub fn same_inexact_type(operands: &[Aval]) -> RuleResult<Aval> {
    let aval = same_type(operands)?;
    ensure_dtype!(aval.dtype.is_inexact(), "needs a float or complex operand, got {}", aval.dtype);
    Ok(aval)
}

/// As [`same_type`], and the dtype must not be `bool`.
///
/// # Errors
/// If it is.
pub fn same_numeric_type(operands: &[Aval]) -> RuleResult<Aval> {
    let aval = same_type(operands)?;
    ensure_dtype!(!aval.dtype.is_bool(), "needs a numeric operand, got {}", aval.dtype);
    Ok(aval)
}

/// As [`same_type`], and the dtype must be float: not complex.
///
/// # Errors
/// If it is not.
pub fn same_float_type(operands: &[Aval]) -> RuleResult<Aval> {
    let aval = same_type(operands)?;
    ensure_dtype!(aval.dtype.is_float(), "needs a float operand, got {}", aval.dtype);
    Ok(aval)
}

/// As [`same_type`], and the dtype must be integer: not `bool`.
///
/// # Errors
/// If it is not.
pub fn same_integer_type(operands: &[Aval]) -> RuleResult<Aval> {
    let aval = same_type(operands)?;
    ensure_dtype!(aval.dtype.is_integer(), "needs an integer operand, got {}", aval.dtype);
    Ok(aval)
}

/// As [`same_type`], and the dtype must be `bool` or integer.
///
/// # Errors
/// If it is not.
pub fn same_bits_type(operands: &[Aval]) -> RuleResult<Aval> {
    let aval = same_type(operands)?;
    ensure_dtype!(
        aval.dtype.is_bool() || aval.dtype.is_integer(),
        "needs a bool or integer operand, got {}",
        aval.dtype
    );
    Ok(aval)
}

/// An axis given from the front or, negative, from the back, as a position.
///
/// # Errors
/// If there is no such axis.
pub fn resolve_axis(axis: isize, rank: usize) -> RuleResult<usize> {
    let position = if axis < 0 { axis + rank as isize } else { axis };
    usize::try_from(position).ok().filter(|&position| position < rank).ok_or_else(|| {
        RuleError::shape(format!("axis {axis} is out of range for an array of rank {rank}"))
    })
}

/// The array with axis `from` moved to position `to`.
#[track_caller]
pub fn move_axis(x: &Array, from: usize, to: usize) -> Array {
    if from == to {
        return x.clone();
    }
    let mut order: Vec<usize> = (0..x.rank()).filter(|&axis| axis != from).collect();
    order.insert(to, from);
    transpose(x, &order)
}

/// The array with a new axis of size `size` at position `axis`, along which it repeats.
pub fn broadcast_axis(x: &Array, axis: usize, size: usize) -> Array {
    let dimensions: Vec<usize> = (0..=x.rank()).filter(|&other| other != axis).collect();
    broadcast_in_dim(x, x.shape().insert(axis, size), &dimensions)
}

/// The array with its batch axis at position `to`: moved there, or broadcast if it has none.
pub fn batch_at(x: &Array, axis: Option<usize>, to: usize, batch: &BatchAxis) -> Array {
    match axis {
        Some(from) => move_axis(x, from, to),
        None => broadcast_axis(x, to, batch.size),
    }
}

/// All operands with the batch axis in front.
pub fn batch_at_front(operands: &[Array], axes: &[Option<usize>], batch: &BatchAxis) -> Vec<Array> {
    operands.iter().zip(axes).map(|(x, &axis)| batch_at(x, axis, 0, batch)).collect()
}

/// The batch rule of an elementwise primitive: the same primitive, operands aligned.
///
/// # Errors
/// None; the signature is that of the rule.
pub fn batch_elementwise(
    primitive: &(impl Primitive + Clone),
    operands: &[Array],
    axes: &[Option<usize>],
    batch: &BatchAxis,
) -> RuleResult<Batched> {
    let to = axes.iter().flatten().next().copied().unwrap_or(0);
    let aligned: Vec<Array> =
        operands.iter().zip(axes).map(|(x, &axis)| batch_at(x, axis, to, batch)).collect();
    let outputs = bind(primitive.clone(), &aligned.iter().collect::<Vec<_>>());
    let axes = vec![Some(to); outputs.len()];
    Ok(Batched { outputs, axes })
}

/// A [`Batched`] of one output.
pub fn batched(output: Array, axis: usize) -> Batched {
    Batched { outputs: vec![output], axes: vec![Some(axis)] }
}

/// The sum of two tangents of one value.
pub fn add_tangents(a: &Tangent, b: &Tangent) -> Tangent {
    match (a, b) {
        (Tangent::Zero(_), other) | (other, Tangent::Zero(_)) => other.clone(),
        (Tangent::Dense(a), Tangent::Dense(b)) => Tangent::Dense(bind1(Add, [a, b])),
    }
}

/// The tangent `t` as an array: zeros if it is a symbolic zero.
pub fn dense(t: &Tangent) -> Array {
    match t {
        Tangent::Zero(aval) => super::constant::zeros_of(aval),
        Tangent::Dense(array) => array.clone(),
    }
}

/// The jvp rule of a function whose derivative is zero wherever it exists: rounding, comparison,
/// integer operations.
///
/// # Errors
/// None; the signature is that of the rule.
pub fn zero_jvp(primitive: &(impl Primitive + Clone), primals: &[Array]) -> JvpResult {
    let outputs = bind(primitive.clone(), &primals.iter().collect::<Vec<_>>());
    let tangents = outputs.iter().map(Tangent::zero_like).collect();
    Ok((outputs, tangents))
}

/// The jvp rule of a function that is linear in its one operand.
///
/// # Errors
/// None; the signature is that of the rule.
pub fn linear_jvp(
    primitive: &(impl Primitive + Clone),
    primals: &[Array],
    tangents: &[Tangent],
) -> JvpResult {
    let y = bind1(primitive.clone(), [&primals[0]]);
    let dy = tangents[0].map(y.aval(), |dx| bind1(primitive.clone(), [dx]));
    Ok((vec![y], vec![dy]))
}

/// The one cotangent of a primitive with one result, which the interpreter never gives as zero.
///
/// # Errors
/// If it is zero after all: a bug of the interpreter's.
pub fn one_cotangent(cts: &[Tangent]) -> RuleResult<&Array> {
    cts.first().and_then(Tangent::array).ok_or_else(|| {
        RuleError::new(crate::core::OpErrorKind::Bug, "transposed without a cotangent")
    })
}

/// The shape without the given axes.
pub fn without_axes(shape: &Shape, axes: &[usize]) -> Shape {
    (0..shape.rank()).filter(|axis| !axes.contains(axis)).map(|axis| shape[axis]).collect()
}

/// The dtype of an operand as a `lower` rule sees it.
pub fn element_dtype(value: &Value) -> DType {
    DType::from_stablehlo(value.ty().element()).expect("values have the element type of a dtype")
}
