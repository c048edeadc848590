//! Operations that create and arrange vectors.

use super::emitter::{Emitter, Item, Op};
use super::text::{Val, list};
use crate::core::{DType, RuleError, RuleResult, Scalar};
use crate::primitives::{
    BroadcastInDim, ComparisonDirection, Concatenate, DynamicSlice, DynamicUpdateSlice, Fill, Iota,
    Pad, Reshape, Slice, SplitSizes, Transpose,
};

/// Writes an operation on the structure of vectors.
pub(super) fn emit(emitter: &mut Emitter, op: &Op<'_>) -> RuleResult<Option<Vec<Item>>> {
    let value = if let Some(fill) = op.get::<Fill>() {
        emitter.text.fill(fill.value, fill.dtype, &fill.shape)
    } else if let Some(iota) = op.get::<Iota>() {
        emitter.iota(&iota.shape, iota.dimension, iota.dtype)
    } else if let Some(broadcast) = op.get::<BroadcastInDim>() {
        let x = op.value(0)?;
        let mut shape = vec![1; broadcast.shape.len()];
        for (&axis, &size) in broadcast.broadcast_dimensions.iter().zip(&x.shape) {
            shape[axis] = size;
        }
        match x.rank() {
            0 => emitter.broadcast(x, &broadcast.shape),
            _ => {
                let x = emitter.reshape(x, &shape);
                emitter.broadcast(&x, &broadcast.shape)
            }
        }
    } else if let Some(reshape) = op.get::<Reshape>() {
        emitter.reshape(op.value(0)?, &reshape.shape)
    } else if let Some(transpose) = op.get::<Transpose>() {
        emitter.transpose(op.value(0)?, &transpose.permutation)
    } else if let Some(concatenate) = op.get::<Concatenate>() {
        let parts: Vec<Val> = op.values()?.into_iter().cloned().collect();
        emitter.concatenate(&parts, concatenate.dimension)
    } else if let Some(slice) = op.get::<Slice>() {
        static_slice(emitter, op.value(0)?, slice)?
    } else if let Some(split) = op.get::<SplitSizes>() {
        let x = op.value(0)?;
        let mut start = 0;
        let mut parts = Vec::new();
        for &size in &split.sizes {
            let (mut offsets, mut sizes) = (vec![0; x.rank()], x.shape.clone());
            (offsets[split.axis], sizes[split.axis]) = (start, size);
            parts.push(Item::Value(emitter.slice(x, &offsets, &sizes)));
            start += size;
        }
        return Ok(Some(parts));
    } else if let Some(pad) = op.get::<Pad>() {
        padded(emitter, op.value(0)?, op.value(1)?, pad)?
    } else if op.is::<DynamicSlice>() || op.is::<DynamicUpdateSlice>() {
        return Err(RuleError::unsupported(
            "vectors in a TPU's registers have no indices that the kernel computes",
        )
        .help("store the value in scratch memory, and read or write it with `ds(start, size)`"));
    } else {
        return Ok(None);
    };
    Ok(Some(vec![Item::Value(value)]))
}

fn static_slice(emitter: &mut Emitter, x: &Val, slice: &Slice) -> RuleResult<Val> {
    if let Some(axis) = slice.strides.iter().position(|&stride| stride != 1) {
        return Err(RuleError::unsupported(format!(
            "a stride of {} along axis {axis} of {}",
            slice.strides[axis],
            x.aval()
        ))
        .help("read with a stride from a reference: `ds_strided(start, size, stride)`"));
    }
    let ends = slice.limit_indices.iter().zip(&slice.start_indices);
    let sizes: Vec<usize> = ends.map(|(end, start)| end - start).collect();
    Ok(emitter.slice(x, &slice.start_indices, &sizes))
}

fn padded(emitter: &mut Emitter, x: &Val, value: &Val, pad: &Pad) -> RuleResult<Val> {
    let mut x = x.clone();
    for (axis, padding) in pad.padding_config.iter().enumerate() {
        if padding.interior != 0 && x.shape[axis] > 1 {
            return Err(RuleError::unsupported(format!("elements between those of axis {axis}"))
                .help("write the elements to scratch memory with `ds_strided`"));
        }
        let crop = |end: isize| usize::try_from(-end).unwrap_or(0);
        let (low, high) = (crop(padding.low), crop(padding.high));
        if low + high > 0 {
            let (mut offsets, mut sizes) = (vec![0; x.rank()], x.shape.clone());
            offsets[axis] = low;
            sizes[axis] -= low + high;
            x = emitter.slice(&x, &offsets, &sizes);
        }
        let mut parts = vec![x.clone()];
        for (end, at) in [(padding.low, 0), (padding.high, 1)] {
            if let Some(size) = usize::try_from(end).ok().filter(|&size| size > 0) {
                let mut shape = x.shape.clone();
                shape[axis] = size;
                let added = emitter.broadcast(value, &shape);
                let position = if at == 0 { 0 } else { parts.len() };
                parts.insert(position, added);
            }
        }
        if parts.len() > 1 {
            x = emitter.concatenate(&parts, axis);
        }
    }
    Ok(x)
}

impl Emitter {
    /// Applies an operation that booleans lack to their `i32` form.
    fn on_numbers(&mut self, x: &Val, apply: impl FnOnce(&mut Emitter, &Val) -> Val) -> Val {
        if x.dtype != DType::Bool {
            return apply(self, x);
        }
        let number = self.bool_to_i32(x);
        let value = apply(self, &number);
        self.nonzero(&value)
    }

    /// Returns true where a number is not 0.
    pub(super) fn nonzero(&mut self, x: &Val) -> Val {
        let zero = self.like(x, 0.0);
        self.compare(ComparisonDirection::Ne, x, &zero)
    }

    /// Returns the indices along an axis. Vectors of one axis have two while they are counted.
    pub(super) fn iota(&mut self, shape: &[usize], axis: usize, dtype: DType) -> Val {
        let (wide, axis) = match shape {
            [size] => (vec![1, *size], 1),
            _ => (shape.to_vec(), axis),
        };
        let attributes = format!("dimensions = array<i32: {axis}>");
        let indices = self.text.value("tpu.iota", &[], &attributes, (DType::I32, &wide));
        let indices = self.convert(&indices, dtype);
        self.reshape(&indices, shape)
    }

    /// Repeats a scalar, or a vector along axes of size 1.
    pub(super) fn broadcast(&mut self, x: &Val, shape: &[usize]) -> Val {
        if x.shape == shape {
            return x.clone();
        }
        if x.rank() > 0 && x.dtype == DType::Bool {
            return self.on_numbers(x, |emitter, x| emitter.broadcast(x, shape));
        }
        self.text.value("vector.broadcast", &[x], "", (x.dtype, shape))
    }

    /// Returns the element of a vector that has one.
    pub(super) fn extract(&mut self, x: &Val) -> Val {
        let zeros = list(vec![0; x.rank()]);
        let attributes = format!("static_position = array<i64: {zeros}>");
        self.text.value("vector.extract", &[x], &attributes, (x.dtype, &[]))
    }

    /// Changes the shape.
    pub(super) fn reshape(&mut self, x: &Val, shape: &[usize]) -> Val {
        match (x.rank(), shape.len()) {
            _ if x.shape == shape => x.clone(),
            (0, _) => self.broadcast(x, shape),
            (_, 0) => self.on_numbers(x, |emitter, x| emitter.extract(x)),
            _ => self.on_numbers(x, |emitter, x| {
                emitter.text.value("vector.shape_cast", &[x], "", (x.dtype, shape))
            }),
        }
    }

    pub(super) fn transpose(&mut self, x: &Val, permutation: &[usize]) -> Val {
        if permutation.iter().copied().eq(0..x.rank()) {
            return x.clone();
        }
        let shape: Vec<usize> = permutation.iter().map(|&axis| x.shape[axis]).collect();
        let attributes = format!("permutation = array<i64: {}>", list(permutation));
        self.on_numbers(x, |emitter, x| {
            emitter.text.value("tpu.transpose", &[x], &attributes, (x.dtype, &shape))
        })
    }

    pub(super) fn concatenate(&mut self, parts: &[Val], axis: usize) -> Val {
        if let [one] = parts {
            return one.clone();
        }
        if parts[0].dtype == DType::Bool {
            let numbers: Vec<Val> = parts.iter().map(|x| self.bool_to_i32(x)).collect();
            let value = self.concatenate(&numbers, axis);
            return self.nonzero(&value);
        }
        let mut shape = parts[0].shape.clone();
        shape[axis] = parts.iter().map(|part| part.shape[axis]).sum();
        let attributes = format!("dimension = {axis} : i32");
        let operands: Vec<&Val> = parts.iter().collect();
        self.text.value("tpu.concatenate", &operands, &attributes, (parts[0].dtype, &shape))
    }

    /// Takes a part of a vector.
    pub(super) fn slice(&mut self, x: &Val, offsets: &[usize], sizes: &[usize]) -> Val {
        if x.shape == sizes {
            return x.clone();
        }
        let attributes = format!(
            "offsets = [{}], sizes = [{}], strides = [{}]",
            list(offsets),
            list(sizes),
            list(vec![1; sizes.len()])
        );
        self.on_numbers(x, |emitter, x| {
            let ty = (x.dtype, sizes);
            emitter.text.value("vector.extract_strided_slice", &[x], &attributes, ty)
        })
    }

    /// Returns zeros.
    pub(super) fn zeros(&mut self, dtype: DType, shape: &[usize]) -> Val {
        let zero = if dtype.is_float() { Scalar::Float(0.0) } else { Scalar::Int(0) };
        self.text.fill(zero, dtype, shape)
    }
}
