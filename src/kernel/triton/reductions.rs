//! Reductions and cumulative operations along axes.

use super::emitter::Emitter;
use super::ir::{Tensor, element};
use crate::core::{DType, RuleResult, Scalar};
use crate::kernel::arith::Combiner;
use crate::primitives::{ArgMax, ArgMin, Cummax, Cummin, Cumprod, Cumsum};
use std::any::Any;

/// Returns the dtype in which elements are combined.
fn wide(dtype: DType) -> DType {
    match dtype {
        DType::Bool => DType::I32,
        DType::BF16 | DType::F16 => DType::F32,
        _ => dtype,
    }
}

impl Emitter<'_> {
    /// Writes an operation of this family, or returns `None` if it is of another one.
    pub(super) fn reductions(
        &mut self,
        primitive: &dyn Any,
        x: &[Tensor],
    ) -> RuleResult<Option<Tensor>> {
        if let Some((axes, combiner)) = Combiner::of_reduction(primitive) {
            return Ok(Some(self.reduce(&x[0], axes, combiner)));
        }
        let scanned = if let Some(of) = primitive.downcast_ref::<Cumsum>() {
            Some((of.axis, of.reverse, Combiner::Sum))
        } else if let Some(of) = primitive.downcast_ref::<Cumprod>() {
            Some((of.axis, of.reverse, Combiner::Product))
        } else if let Some(of) = primitive.downcast_ref::<Cummax>() {
            Some((of.axis, of.reverse, Combiner::Max))
        } else {
            let min = primitive.downcast_ref::<Cummin>();
            min.map(|of| (of.axis, of.reverse, Combiner::Min))
        };
        if let Some((axis, is_reverse, combiner)) = scanned {
            return Ok(Some(self.cumulate(&x[0], axis, is_reverse, combiner)));
        }
        if let Some(of) = primitive.downcast_ref::<ArgMax>() {
            return Ok(Some(self.arg(&x[0], of.axis, Combiner::Max, of.index_dtype)));
        }
        if let Some(of) = primitive.downcast_ref::<ArgMin>() {
            return Ok(Some(self.arg(&x[0], of.axis, Combiner::Min, of.index_dtype)));
        }
        Ok(None)
    }

    /// Combines the elements along axes.
    fn reduce(&mut self, x: &Tensor, axes: &[usize], combiner: Combiner) -> Tensor {
        let dtype = x.dtype;
        let wide = wide(dtype);
        let mut value = self.convert(x, wide);
        let neutral = match dtype.is_bool() {
            true => Scalar::Int(i128::from(matches!(combiner, Combiner::And))),
            false => combiner.neutral(wide),
        };
        value = self.ir.with_padding(&value, axes, neutral);
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        for &axis in axes.iter().rev() {
            let operation = combiner.operation(wide);
            value = self.ir.reduce_with(&value, axis, operation, operation);
        }
        self.convert(&value, dtype)
    }

    /// Returns the sum along an axis.
    pub(super) fn sum(&mut self, x: &Tensor, axis: usize) -> Tensor {
        self.reduce(x, &[axis], Combiner::Sum)
    }

    fn cumulate(&mut self, x: &Tensor, axis: usize, is_reverse: bool, by: Combiner) -> Tensor {
        let dtype = x.dtype;
        let wide = wide(dtype);
        let value = self.convert(x, wide);
        let value = self.ir.with_padding(&value, &[axis], by.neutral(wide));
        let (name, a, b, c) = (self.ir.name(), self.ir.name(), self.ir.name(), self.ir.name());
        let (scalar, location, ty) = (element(wide), self.ir.location(), value.ty());
        self.ir.line(&format!(
            "{name} = \"tt.scan\"({}) <{{axis = {axis} : i32, reverse = {is_reverse}}}> ({{",
            value.name
        ));
        self.ir.line(&format!("^bb0({a}: {scalar}, {b}: {scalar}):"));
        self.ir.line(&format!("{c} = {} {a}, {b} : {scalar}", by.operation(wide)));
        self.ir.line(&format!("tt.scan.return {c} : {scalar}"));
        self.ir.line(&format!("}}) : ({ty}) -> {ty}{location}"));
        let total = self.ir.value(name, wide, &x.shape);
        self.convert(&total, dtype)
    }

    /// Returns the index of the first element that is the greatest or least, or NaN.
    fn arg(&mut self, x: &Tensor, axis: usize, by: Combiner, index_dtype: DType) -> Tensor {
        let x = self.convert(x, wide(x.dtype));
        let x = self.ir.with_padding(&x, &[axis], by.neutral(x.dtype));
        let best = self.reduce(&x, &[axis], by);
        let best = self.ir.expand(&best, axis);
        let best = self.ir.broadcast(&best, &x.shape);
        let mut is_best = match x.dtype.is_float() {
            true => self.ir.compare("cmpf oeq", &x, &best),
            false => self.ir.compare("cmpi eq", &x, &best),
        };
        if x.dtype.is_float() {
            let is_nan = self.ir.compare("cmpf uno", &x, &x);
            is_best = self.ir.binary("arith.ori", &is_best, &is_nan);
        }
        let index = self.ir.iota(axis, &x.shape);
        let none = self.ir.int(x.shape[axis] as i128 - 1, DType::I32, &x.shape);
        let index = self.ir.select(&is_best, &index, &none);
        let first = self.reduce(&index, &[axis], Combiner::Min);
        self.convert(&first, index_dtype)
    }
}
