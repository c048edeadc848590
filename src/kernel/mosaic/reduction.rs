//! Reductions.

use super::elementwise::{XOR, binary};
use super::emitter::{Emitter, Item, Op};
use super::text::{Val, list};
use crate::core::{DType, RuleError, RuleResult, Scalar};
use crate::primitives::{
    ArgMax, ArgMin, ReduceAnd, ReduceMax, ReduceMin, ReduceOr, ReduceProd, ReduceSum, ReduceXor,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sum,
    Max,
    Min,
}

/// Writes a reduction.
pub(super) fn emit(emitter: &mut Emitter, op: &Op<'_>) -> RuleResult<Option<Vec<Item>>> {
    let value = if let Some(sum) = op.get::<ReduceSum>() {
        reduce(emitter, op.value(0)?, Kind::Sum, &sum.axes)?
    } else if let Some(max) = op.get::<ReduceMax>() {
        reduce(emitter, op.value(0)?, Kind::Max, &max.axes)?
    } else if let Some(min) = op.get::<ReduceMin>() {
        reduce(emitter, op.value(0)?, Kind::Min, &min.axes)?
    } else if let Some(all) = op.get::<ReduceAnd>() {
        logical(emitter, op.value(0)?, Kind::Min, &all.axes)?
    } else if let Some(any) = op.get::<ReduceOr>() {
        logical(emitter, op.value(0)?, Kind::Max, &any.axes)?
    } else if let Some(arg) = op.get::<ArgMax>() {
        index_of(emitter, op.value(0)?, ("arg_max", arg.axis), arg.index_dtype)?
    } else if let Some(arg) = op.get::<ArgMin>() {
        index_of(emitter, op.value(0)?, ("arg_min", arg.axis), arg.index_dtype)?
    } else if op.is::<ReduceProd>() || op.is::<ReduceXor>() {
        return Err(RuleError::unsupported("a TPU reduces by sum, maximum and minimum only")
            .help("multiply slices of halves, or sum logarithms"));
    } else {
        return Ok(None);
    };
    Ok(Some(vec![Item::Value(value)]))
}

/// Writes a reduction over axes. Narrow dtypes are reduced in 32 bits.
fn reduce(emitter: &mut Emitter, x: &Val, kind: Kind, axes: &[usize]) -> RuleResult<Val> {
    if axes.is_empty() {
        return Ok(x.clone());
    }
    let dtype = x.dtype;
    if dtype == DType::Bool {
        return logical(emitter, x, if kind == Kind::Min { kind } else { Kind::Max }, axes);
    }
    if dtype.bits() < 32 {
        let wide = match dtype {
            _ if dtype.is_float() => DType::F32,
            _ if dtype.is_unsigned() => DType::U32,
            _ => DType::I32,
        };
        let wide = emitter.convert(x, wide);
        let value = reduce(emitter, &wide, kind, axes)?;
        return Ok(emitter.convert(&value, dtype));
    }
    if dtype.is_unsigned() && kind != Kind::Sum {
        // The order of unsigned numbers is that of signed ones with the sign bit flipped.
        let flip = |emitter: &mut Emitter, x: &Val| {
            let bit = emitter.text.fill(Scalar::Int(1 << 31), x.dtype, &x.shape);
            binary(emitter, XOR, x, &bit)
        };
        let flipped = Val { dtype: DType::I32, ..flip(emitter, x)? };
        let value = reduce(emitter, &flipped, kind, axes)?;
        return flip(emitter, &Val { dtype, ..value });
    }
    let (low, high) = match dtype.is_float() {
        true => (Scalar::Float(f64::NEG_INFINITY), Scalar::Float(f64::INFINITY)),
        false => {
            let (low, high) = dtype.int_range();
            (Scalar::Int(low), Scalar::Int(high))
        }
    };
    // Mosaic requires the neutral element as the start.
    let (name, neutral) = match (kind, dtype.is_float()) {
        (Kind::Sum, true) => ("add", Scalar::Float(0.0)),
        (Kind::Sum, false) => ("add", Scalar::Int(0)),
        (Kind::Max, true) => ("maximumf", low),
        (Kind::Max, false) => ("maxsi", low),
        (Kind::Min, true) => ("minimumf", high),
        (Kind::Min, false) => ("minsi", high),
    };
    let kept = (0..x.rank()).filter(|axis| !axes.contains(axis));
    let shape: Vec<usize> = kept.map(|axis| x.shape[axis]).collect();
    let start = emitter.text.fill(neutral, dtype, &shape);
    let attributes =
        format!("kind = #vector.kind<{name}>, reduction_dims = array<i64: {}>", list(axes));
    let ty = (dtype, shape.as_slice());
    Ok(emitter.text.value("vector.multi_reduction", &[x, &start], &attributes, ty))
}

fn logical(emitter: &mut Emitter, x: &Val, kind: Kind, axes: &[usize]) -> RuleResult<Val> {
    if x.dtype != DType::Bool {
        return Err(RuleError::unsupported(format!("bits of {} in a TPU kernel", x.aval()))
            .help("reduce booleans, or compute with sum, maximum and minimum"));
    }
    let number = emitter.bool_to_i32(x);
    let value = reduce(emitter, &number, kind, axes)?;
    Ok(emitter.nonzero(&value))
}

/// Writes the index of the first extremum.
fn index_of(
    emitter: &mut Emitter,
    x: &Val,
    (kind, axis): (&str, usize),
    dtype: DType,
) -> RuleResult<Val> {
    if !x.dtype.is_float() {
        return Err(RuleError::unsupported(format!("a TPU finds it for f32, not {}", x.aval()))
            .help("convert to f32 with `astype`, which is exact up to 2^24"));
    }
    let wide = emitter.float(x, DType::F32);
    // At least one axis remains.
    let wide = match wide.rank() {
        1 => emitter.reshape(&wide, &[1, x.shape[0]]),
        _ => wide,
    };
    let axis = if x.rank() == 1 { 1 } else { axis };
    let mut shape = wide.shape.clone();
    shape.remove(axis);
    let attributes = format!("axis = {axis} : i32, kind = #tpu.reduction_kind<{kind}>");
    let index = emitter.text.value("tpu.reduce_index", &[&wide], &attributes, (DType::I32, &shape));
    let index = if x.rank() == 1 { emitter.reshape(&index, &[]) } else { index };
    Ok(emitter.convert(&index, dtype))
}
