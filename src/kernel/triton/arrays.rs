//! Operations that move or create elements.

use super::emitter::Emitter;
use super::ir::{Tensor, element, type_of};
use crate::core::{Aval, DType, RuleError, RuleResult, Scalar};
use crate::primitives::{
    BroadcastInDim, Concatenate, DynamicSlice, DynamicUpdateSlice, Fill, Iota, Name,
    OptimizationBarrier, Pad, Reshape, Rev, Select, Slice, SplitSizes, StopGradient, Transpose,
    Undifferentiable,
};
use std::any::Any;

impl Emitter<'_> {
    /// Writes an operation of this family, or returns `None` if it is of another one.
    pub(super) fn arrays(
        &mut self,
        primitive: &dyn Any,
        x: &[Tensor],
        results: &[Aval],
    ) -> RuleResult<Option<Vec<Tensor>>> {
        let result = &results[0];
        let shape = result.shape.to_vec();
        let is_identity = primitive.is::<OptimizationBarrier>()
            || primitive.is::<StopGradient>()
            || primitive.is::<Name>()
            || primitive.is::<Undifferentiable>();
        if is_identity {
            return Ok(Some(x.to_vec()));
        }
        if let Some(split) = primitive.downcast_ref::<SplitSizes>() {
            let mut first = 0;
            let mut parts = Vec::new();
            for &size in &split.sizes {
                let start = self.ir.int(first, DType::I32, &[]);
                parts.push(self.along_axis(&x[0], split.axis, &start, size, 1));
                first += size as i128;
            }
            return Ok(Some(parts));
        }
        let value = if let Some(fill) = primitive.downcast_ref::<Fill>() {
            self.ir.fill(fill.value, fill.dtype, &shape)
        } else if let Some(iota) = primitive.downcast_ref::<Iota>() {
            let index = self.ir.iota(iota.dimension, &shape);
            self.convert(&index, iota.dtype)
        } else if let Some(of) = primitive.downcast_ref::<BroadcastInDim>() {
            self.broadcast_in_dim(&x[0], &of.broadcast_dimensions, &shape)
        } else if primitive.is::<Reshape>() {
            self.reshape(&x[0], &shape)?
        } else if let Some(of) = primitive.downcast_ref::<Transpose>() {
            self.ir.transpose(&x[0], &of.permutation)
        } else if primitive.is::<Select>() {
            self.ir.select(&x[0], &x[1], &x[2])
        } else if let Some(of) = primitive.downcast_ref::<Slice>() {
            let mut value = x[0].clone();
            let parts = of.start_indices.iter().zip(&of.strides).zip(shape.iter());
            for (axis, ((&start, &stride), &size)) in parts.enumerate() {
                if (start, stride, size) != (0, 1, value.shape[axis]) {
                    let start = self.ir.int(start as i128, DType::I32, &[]);
                    value = self.along_axis(&value, axis, &start, size, stride);
                }
            }
            value
        } else if primitive.is::<DynamicSlice>() {
            let mut value = x[0].clone();
            for axis in 0..value.rank() {
                if shape[axis] != value.shape[axis] {
                    let start = self.convert(&x[1 + axis], DType::I32);
                    let start = self.limited(&start, value.shape[axis] - shape[axis]);
                    value = self.along_axis(&value, axis, &start, shape[axis], 1);
                }
            }
            value
        } else if primitive.is::<DynamicUpdateSlice>() {
            self.update_slice(&x[0], &x[1], &x[2..])
        } else if let Some(of) = primitive.downcast_ref::<Concatenate>() {
            self.concatenate(x, of.dimension, &shape)
        } else if let Some(of) = primitive.downcast_ref::<Rev>() {
            let mut value = x[0].clone();
            for &axis in &of.dimensions {
                let index = self.ir.iota(axis, &shape);
                let last = self.ir.int(shape[axis] as i128 - 1, DType::I32, &shape);
                let from = self.ir.binary("arith.subi", &last, &index);
                value = self.gather_within(&value, axis, &from, shape[axis]);
            }
            value
        } else if let Some(of) = primitive.downcast_ref::<Pad>() {
            if of.padding_config.iter().any(|axis| axis.interior > 0) {
                return Ok(None);
            }
            let lows: Vec<isize> = of.padding_config.iter().map(|axis| axis.low).collect();
            self.pad(&x[0], &x[1], &lows, &shape)
        } else {
            return Ok(None);
        };
        Ok(Some(vec![Tensor { output: None, ..value }]))
    }

    /// Broadcasts a value whose axis `i` becomes axis `axes[i]`.
    pub(super) fn broadcast_in_dim(
        &mut self,
        x: &Tensor,
        axes: &[usize],
        shape: &[usize],
    ) -> Tensor {
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.sort_by_key(|&axis| axes[axis]);
        let mut x = self.ir.transpose(x, &order);
        for axis in 0..shape.len() {
            if !axes.contains(&axis) {
                x = self.ir.expand(&x, axis);
            }
        }
        self.ir.broadcast(&x, shape)
    }

    /// Changes the shape. Axes whose size is not a power of two have padding, so that only the
    /// first of the axes that are merged or split may be one.
    pub(super) fn reshape(&mut self, x: &Tensor, shape: &[usize]) -> RuleResult<Tensor> {
        let has_order = |axes: &[usize]| axes.iter().skip(1).all(|size| size.is_power_of_two());
        let significant =
            |sizes: &[usize]| sizes.iter().copied().filter(|&size| size != 1).collect::<Vec<_>>();
        let (from, to) = (significant(&x.shape), significant(shape));
        let (mut i, mut j) = (0, 0);
        while i < from.len() || j < to.len() {
            let (first_i, first_j) = (i, j);
            let (mut a, mut b) = (1, 1);
            while a != b || i == first_i {
                if a <= b && i < from.len() {
                    a *= from[i];
                    i += 1;
                } else if j < to.len() {
                    b *= to[j];
                    j += 1;
                } else {
                    break;
                }
            }
            if !has_order(&from[first_i..i]) || !has_order(&to[first_j..j]) {
                return Err(RuleError::shape(format!(
                    "a reshape of {:?} to {shape:?}, which merges or splits axes whose sizes are \
                     not powers of two",
                    x.shape
                ))
                .help(
                    "a GPU's values have powers of two as sizes: choose such blocks, or index the \
                     references instead",
                ));
            }
        }
        Ok(self.ir.reshape_padded(x, shape))
    }

    /// Returns elements along an axis: `size` of them, `stride` apart, from `first` on.
    pub(super) fn along_axis(
        &mut self,
        x: &Tensor,
        axis: usize,
        first: &Tensor,
        size: usize,
        stride: usize,
    ) -> Tensor {
        if size == 1 {
            let index = self.ir.iota(axis, &x.shape);
            let first = self.ir.splat(first, &x.shape);
            let is_first = self.ir.compare("cmpi eq", &index, &first);
            let zero = self.ir.int(0, x.dtype, &x.shape);
            let only = self.ir.select(&is_first, x, &zero);
            let sum = self.sum_of_one(&only, axis);
            return self.ir.expand(&sum, axis);
        }
        let mut shape = x.shape.clone();
        shape[axis] = size;
        let mut index = self.ir.iota(axis, &shape);
        if stride > 1 {
            let stride = self.ir.int(stride as i128, DType::I32, &shape);
            index = self.ir.binary("arith.muli", &index, &stride);
        }
        let first = self.ir.splat(first, &shape);
        let from = self.ir.binary("arith.addi", &index, &first);
        self.gather_within(x, axis, &from, x.shape[axis])
    }

    /// Adds the elements along an axis, of which one is not 0.
    fn sum_of_one(&mut self, x: &Tensor, axis: usize) -> Tensor {
        if !x.dtype.is_bool() {
            return self.ir.reduce_with(x, axis, "arith.addf", "arith.addi");
        }
        let wide = self.ir.cast("arith.extui", x, DType::I32);
        let any = self.ir.reduce_with(&wide, axis, "", "arith.ori");
        let zero = self.ir.int(0, DType::I32, &any.shape);
        self.ir.compare("cmpi ne", &any, &zero)
    }

    /// Returns the elements at indices along an axis, which are limited to `size`.
    pub(super) fn gather_within(
        &mut self,
        x: &Tensor,
        axis: usize,
        index: &Tensor,
        size: usize,
    ) -> Tensor {
        if x.shape[axis] == 1 {
            return self.ir.broadcast(x, &index.shape);
        }
        let zero = self.ir.int(0, DType::I32, &index.shape);
        let last = self.ir.int(size as i128 - 1, DType::I32, &index.shape);
        let index = self.ir.binary("arith.maxsi", index, &zero);
        let index = self.ir.binary("arith.minsi", &index, &last);
        let source = match x.dtype.is_bool() {
            true => self.ir.cast("arith.extui", x, DType::I8),
            false => x.clone(),
        };
        let to = type_of(source.dtype, &index.shape);
        let text = format!(
            "tt.gather {}[{}] {{axis = {axis} : i32}} : ({}, {}) -> {to}",
            source.name,
            index.name,
            source.ty(),
            index.ty()
        );
        let gathered = self.ir.op(&text, source.dtype, &index.shape);
        if !x.dtype.is_bool() {
            return gathered;
        }
        let zero = self.ir.int(0, DType::I8, &index.shape);
        self.ir.compare("cmpi ne", &gathered, &zero)
    }

    fn concatenate(&mut self, x: &[Tensor], axis: usize, shape: &[usize]) -> Tensor {
        let index = self.ir.iota(axis, shape);
        let mut joined: Option<Tensor> = None;
        let mut first = 0;
        for part in x {
            let start = self.ir.int(first, DType::I32, shape);
            let from = self.ir.binary("arith.subi", &index, &start);
            let here = self.gather_within(part, axis, &from, part.shape[axis]);
            joined = Some(match joined {
                None => here,
                Some(before) => {
                    let is_before = self.ir.compare("cmpi slt", &index, &start);
                    self.ir.select(&is_before, &before, &here)
                }
            });
            first += part.shape[axis] as i128;
        }
        joined.expect("there is an operand")
    }

    fn pad(&mut self, x: &Tensor, value: &Tensor, lows: &[isize], shape: &[usize]) -> Tensor {
        let mut padded = x.clone();
        let mut mask: Option<Tensor> = None;
        for (axis, &low) in lows.iter().enumerate() {
            let size = x.shape[axis];
            if low == 0 && size == shape[axis] {
                continue;
            }
            let mut to = padded.shape.clone();
            to[axis] = shape[axis];
            let low = low as i128;
            let (index, start) = (self.ir.iota(axis, &to), self.ir.int(low, DType::I32, &to));
            let from = self.ir.binary("arith.subi", &index, &start);
            padded = self.gather_within(&padded, axis, &from, size);
            let index = self.ir.iota(axis, shape);
            let bounds = [("cmpi sge", low), ("cmpi slt", low + size as i128)];
            for (comparison, bound) in bounds {
                let bound = self.ir.int(bound, DType::I32, shape);
                let inside = self.ir.compare(comparison, &index, &bound);
                mask = Some(match mask {
                    Some(mask) => self.ir.binary("arith.andi", &mask, &inside),
                    None => inside,
                });
            }
        }
        let other = self.ir.splat(value, shape);
        match mask {
            Some(mask) => self.ir.select(&mask, &padded, &other),
            None => padded,
        }
    }

    fn update_slice(&mut self, x: &Tensor, update: &Tensor, starts: &[Tensor]) -> Tensor {
        let mut value = update.clone();
        let mut mask: Option<Tensor> = None;
        for axis in 0..x.rank() {
            let (size, count) = (x.shape[axis], update.shape[axis]);
            if size == count {
                continue;
            }
            let start = self.convert(&starts[axis], DType::I32);
            let start = self.limited(&start, size - count);
            let mut to = value.shape.clone();
            to[axis] = size;
            let (index, first) = (self.ir.iota(axis, &to), self.ir.splat(&start, &to));
            let from = self.ir.binary("arith.subi", &index, &first);
            value = self.gather_within(&value, axis, &from, count);
            let (index, first) = (self.ir.iota(axis, &x.shape), self.ir.splat(&start, &x.shape));
            let offset = self.ir.binary("arith.subi", &index, &first);
            for (comparison, bound) in [("cmpi sge", 0), ("cmpi slt", count as i128)] {
                let bound = self.ir.int(bound, DType::I32, &x.shape);
                let inside = self.ir.compare(comparison, &offset, &bound);
                mask = Some(match mask {
                    Some(mask) => self.ir.binary("arith.andi", &mask, &inside),
                    None => inside,
                });
            }
        }
        match mask {
            Some(mask) => self.ir.select(&mask, &value, x),
            None => value,
        }
    }

    /// Converts to another dtype.
    pub(super) fn convert(&mut self, x: &Tensor, dtype: DType) -> Tensor {
        let from = x.dtype;
        if from == dtype {
            return x.clone();
        }
        let is_small = |dtype: DType| dtype.is_float() && dtype.bits() < 32;
        if dtype.is_bool() {
            let zero = self.ir.fill(Scalar::Int(0), from, &x.shape);
            let comparison = if from.is_float() { "cmpf une" } else { "cmpi ne" };
            return self.ir.compare(comparison, x, &zero);
        }
        match (from.is_float(), dtype.is_float()) {
            (false, false) if element(from) == element(dtype) => Tensor { dtype, ..x.clone() },
            (false, false) if from.bits() > dtype.bits() && !from.is_bool() => {
                self.ir.cast("arith.trunci", x, dtype)
            }
            (false, false) if from.is_signed() && !from.is_bool() => {
                self.ir.cast("arith.extsi", x, dtype)
            }
            (false, false) => self.ir.cast("arith.extui", x, dtype),
            (false, true) if is_small(dtype) => {
                let wide = self.convert(x, DType::F32);
                self.convert(&wide, dtype)
            }
            (false, true) if from.is_signed() && !from.is_bool() => {
                self.ir.cast("arith.sitofp", x, dtype)
            }
            (false, true) => self.ir.cast("arith.uitofp", x, dtype),
            (true, false) if is_small(from) => {
                let wide = self.convert(x, DType::F32);
                self.convert(&wide, dtype)
            }
            (true, false) if dtype.is_unsigned() => self.ir.cast("arith.fptoui", x, dtype),
            (true, false) => self.ir.cast("arith.fptosi", x, dtype),
            (true, true) if is_small(from) && is_small(dtype) => {
                let wide = self.convert(x, DType::F32);
                self.convert(&wide, dtype)
            }
            (true, true) if from.bits() > dtype.bits() => self.ir.cast("arith.truncf", x, dtype),
            (true, true) => self.ir.cast("arith.extf", x, dtype),
        }
    }
}
