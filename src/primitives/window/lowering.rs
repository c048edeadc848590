//! Lowering of window reductions to StableHLO.

use super::dims::WindowAxis;
use super::plan::Plan;
use crate::core::{Array, Aval, DType, LowerCtx, RuleResult, Scalar, Shape};
use crate::primitives::composite::lower_as_function;
use crate::primitives::constant::fill_of;
use crate::primitives::convert::convert_element_type;
use crate::stablehlo::{TensorType, Value, i64_array};

/// An associative operation and its padding value.
pub(super) struct Monoid {
    /// The name of the reduction.
    pub(super) name: &'static str,
    /// The StableHLO operation.
    pub(super) op: &'static str,
    /// The operation on arrays.
    pub(super) combine: fn(&Array, &Array) -> Array,
    /// The neutral element.
    pub(super) identity: fn(DType) -> Scalar,
    /// Results are rounded, so narrow floats are reduced in `f32`.
    pub(super) rounds: bool,
}

impl Monoid {
    /// Returns the dtype in which elements are combined.
    fn dtype(&self, x: DType) -> DType {
        match x {
            DType::I2 | DType::I4 => DType::I8,
            DType::U2 | DType::U4 => DType::U8,
            _ if self.rounds && x.is_float() && x.bits() < 32 => DType::F32,
            other => other,
        }
    }

    pub(super) fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        x: &Value,
        axes: &[WindowAxis],
        result: &Aval,
    ) -> RuleResult<Vec<Value>> {
        if ctx.platform() != "cpu" {
            return Ok(vec![self.lower_natively(ctx, x, axes, result)]);
        }
        lower_as_function(ctx, self.name, std::slice::from_ref(x), |operands| {
            let dtype = self.dtype(result.dtype);
            let x = convert_element_type(&operands[0], dtype);
            let identity = (self.identity)(result.dtype);
            let fill = fill_of(identity, &Aval::new(dtype, Shape::scalar()));
            let combine = |a: &[Array], b: &[Array]| vec![(self.combine)(&a[0], &b[0])];
            let y = Plan::new(axes).run(&[x], &[fill], &combine);
            vec![convert_element_type(&y[0], result.dtype)]
        })
    }

    /// Writes a `stablehlo.reduce_window`.
    fn lower_natively(
        &self,
        ctx: &mut LowerCtx<'_>,
        x: &Value,
        axes: &[WindowAxis],
        result: &Aval,
    ) -> Value {
        let scalar = x.ty().scalar();
        let identity = (self.identity)(result.dtype).stablehlo(result.dtype);
        let identity = ctx.constant(&identity, &scalar);
        let (outside, arguments) = ctx.open_region(&[scalar.clone(), scalar]);
        let combined = ctx.op(self.op, &arguments);
        let region = ctx.close_region(outside, &[combined]);
        let list = |entry: fn(&WindowAxis) -> usize| i64_array(axes.iter().map(entry));
        let attributes = format!(
            "window_dimensions = {}, window_strides = {}, base_dilations = {}, window_dilations = \
            {}{}",
            list(|axis| axis.window),
            list(|axis| axis.stride),
            list(|axis| axis.base_dilation),
            list(|axis| axis.window_dilation),
            padding_attribute(axes),
        );
        let ty = result.stablehlo();
        let operands = [x.clone(), identity];
        ctx.op_full("reduce_window", &operands, &attributes, vec![region], &[ty]).swap_remove(0)
    }
}

/// Returns the padding attribute; an array of rank 0 has none.
pub(super) fn padding_attribute(axes: &[WindowAxis]) -> String {
    if axes.is_empty() {
        return String::new();
    }
    let pairs: Vec<String> =
        axes.iter().map(|axis| format!("[{}, {}]", axis.low, axis.high)).collect();
    let ty = TensorType::new("i64", &[axes.len(), 2]);
    format!(", padding = dense<[{}]> : {ty}", pairs.join(", "))
}
