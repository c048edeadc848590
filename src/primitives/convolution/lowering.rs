//! Lowering of convolutions to StableHLO.

use super::general::ConvGeneralDilated;
use super::geometry::{Geometry, Spatial};
use super::numbers::ConvDimensionNumbers;
use crate::core::{Array, Aval, DType, LowerCtx, RuleResult, Scalar, Shape, bind1};
use crate::primitives::arithmetic::{add, sub};
use crate::primitives::complex::{complex, imag, real};
use crate::primitives::composite::{lower_as_function, lower_by};
use crate::primitives::convert::convert_element_type;
use crate::primitives::dot::multiplied;
use crate::primitives::rules::element_dtype;
use crate::stablehlo::{TensorType, Value, i64_array};

/// The number of elements from which a kernel is transposed apart. Below, the call of the function
/// that transposes is not negligible.
const MIN_KERNEL: usize = 1 << 18;

impl ConvGeneralDilated {
    pub(super) fn written(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        result: &Aval,
    ) -> RuleResult<Vec<Value>> {
        let geometry = self.geometry(&shape_of(&operands[0]), &shape_of(&operands[1]))?;
        if self.is_product(ctx, operands, &geometry) {
            return lower_by(ctx, operands, |x| vec![self.as_product(&geometry, &x[0], &x[1])]);
        }
        let [lhs, rhs] = [0, 1].map(|side| element_dtype(&operands[side]));
        if result.dtype.is_complex() && ctx.platform() != "tpu" {
            // Complex convolutions are faster than a plain loop on TPUs only.
            return lower_as_function(ctx, "complex_conv", operands, |operands| {
                let [lhs, rhs] =
                    [0, 1].map(|side| convert_element_type(&operands[side], result.dtype));
                vec![self.by_three_products(&lhs, &rhs)]
            });
        }
        let (operand, product) = multiplied(ctx.target(), true, lhs, rhs, result.dtype);
        let operand = operand.or_else(|| taken_as(ctx.platform(), lhs, product));
        let convert = |ctx: &mut LowerCtx<'_>, x: &Value, dtype: DType| {
            let ty = x.ty().with_element(dtype.stablehlo());
            if *x.ty() == ty {
                x.clone()
            } else {
                ctx.op_as("convert", std::slice::from_ref(x), "", &ty)
            }
        };
        let mut factors = operands.to_vec();
        let mut product = product;
        if let Some(dtype) = operand {
            factors = factors.iter().map(|factor| convert(ctx, factor, dtype)).collect();
            product = dtype;
        }
        let ty = result.stablehlo().with_element(product.stablehlo());
        let space = cropped(ctx, &mut factors[0], &geometry);
        let mut numbers = geometry.numbers;
        if self.gains_from_transposed_kernel(ctx, &factors[1], &numbers) {
            let mut order: Vec<usize> = (0..numbers.rhs_spec.len()).collect();
            order[numbers.rhs_spec[0]..].swap(0, 1);
            factors[1] = ctx.transposed_apart(&factors[1], &order)?;
            numbers.rhs_spec.swap(0, 1);
        }
        let attributes = self.attributes(&numbers, &space);
        let y = ctx.op_as("convolution", &factors, &attributes, &ty);
        Ok(vec![convert(ctx, &y, result.dtype)])
    }

    /// Returns true for a large kernel on a CPU whose output features come directly in front of its
    /// input features, as in the gradient of the operand of a convolution. XLA exchanges the two,
    /// and fuses that with the reversal of the kernel, which takes as long as the convolution of
    /// a small image.
    fn gains_from_transposed_kernel(
        &self,
        ctx: &LowerCtx<'_>,
        kernel: &Value,
        numbers: &ConvDimensionNumbers,
    ) -> bool {
        let rank = numbers.rhs_spec.len();
        ctx.platform() == "cpu"
            && ctx.target().rewrites()
            && !ctx.is_partitioned()
            && numbers.rhs_spec[..2] == [rank - 2, rank - 1]
            && shape_of(kernel).size() >= MIN_KERNEL
    }

    fn attributes(&self, numbers: &ConvDimensionNumbers, space: &[Spatial]) -> String {
        let mut attributes = String::new();
        if !space.is_empty() {
            let pairs: Vec<String> =
                space.iter().map(|axis| format!("[{}, {}]", axis.low, axis.high)).collect();
            let ty = TensorType::new("i64", &[space.len(), 2]);
            attributes = format!(
                "window_strides = {}, padding = dense<[{}]> : {ty}, lhs_dilation = {}, \
                rhs_dilation = {}, ",
                i64_array(space.iter().map(|axis| axis.stride)),
                pairs.join(", "),
                i64_array(space.iter().map(|axis| axis.lhs_dilation)),
                i64_array(space.iter().map(|axis| axis.rhs_dilation)),
            );
        }
        attributes += &format!(
            "dimension_numbers = {}, feature_group_count = {} : i64, batch_group_count = {} : i64, \
            precision_config = [#stablehlo<precision {}>, #stablehlo<precision {}>]",
            numbers.stablehlo(),
            self.feature_group_count,
            self.batch_group_count,
            self.precision[0].stablehlo(),
            self.precision[1].stablehlo(),
        );
        attributes
    }

    /// Writes a complex convolution as three real ones.
    ///
    /// Reference: Knuth, "The Art of Computer Programming", volume 2, section 4.6.4, exercise 41.
    fn by_three_products(&self, lhs: &Array, rhs: &Array) -> Array {
        let real_type = self.preferred_element_type.map(DType::real);
        let parts = ConvGeneralDilated { preferred_element_type: real_type, ..self.clone() };
        let conv = |x: &Array, y: &Array| bind1(parts.clone(), [x, y]);
        let (a, b, c, d) = (real(lhs), imag(lhs), real(rhs), imag(rhs));
        let first = conv(&add(&a, &b), &c);
        let second = conv(&a, &sub(&d, &c));
        let third = conv(&b, &add(&c, &d));
        complex(sub(&first, third), add(&first, second))
    }
}

fn shape_of(x: &Value) -> Shape {
    Shape::new(x.ty().dims())
}

/// Crops by negative padding, and returns the axes with the rest of the padding. The CPU's fast
/// convolutions read out of bounds for negative padding.
fn cropped(ctx: &mut LowerCtx<'_>, lhs: &mut Value, geometry: &Geometry) -> Vec<Spatial> {
    let is_negative = |axis: &Spatial| axis.low < 0 || axis.high < 0;
    if !geometry.space.iter().any(is_negative) {
        return geometry.space.clone();
    }
    let dims = lhs.ty().dims().to_vec();
    let (mut low, mut high) = (vec![0; dims.len()], vec![0; dims.len()]);
    let (mut interior, mut cut) = (vec![0; dims.len()], dims);
    let mut space = geometry.space.clone();
    for (axis, &dim) in space.iter_mut().zip(&geometry.numbers.lhs_spec[2..]) {
        if !is_negative(axis) {
            continue;
        }
        let bare = axis.spans()[0];
        (low[dim], high[dim]) = (axis.low.min(0), axis.high.min(0));
        let (mut in_front, mut behind) = (axis.low.max(0), axis.high.max(0));
        let missing = (bare + low[dim] + high[dim]).min(0);
        if missing < 0 {
            // An operand cropped to nothing reduces the remaining padding on either side.
            (low[dim], high[dim]) = (-bare, 0);
            (in_front, behind) = (in_front + behind + missing, 0);
        }
        interior[dim] = axis.lhs_dilation - 1;
        cut[dim] = (bare + low[dim] + high[dim]) as usize;
        let (lhs, low, high) = (cut[dim], in_front, behind);
        *axis = Spatial { lhs, lhs_dilation: 1, low, high, ..*axis };
    }
    let zero = Scalar::Int(0).stablehlo(element_dtype(lhs));
    let zero = ctx.constant(&zero, &lhs.ty().scalar());
    let attributes = format!(
        "edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}",
        i64_array(low),
        i64_array(high),
        i64_array(interior)
    );
    let ty = lhs.ty().with_dims(&cut);
    *lhs = ctx.op_as("pad", &[lhs.clone(), zero], &attributes, &ty);
    space
}

/// Returns the dtype to which operands must be converted on a platform, if it does not support
/// theirs.
fn taken_as(platform: &str, operand: DType, product: DType) -> Option<DType> {
    if platform != "cpu" {
        return None;
    }
    match operand {
        // The CPU's loops support whole bytes only, and round to the dtype of the operands after
        // each product.
        DType::Bool => None,
        _ if operand.is_integer() && (operand.bits() < 8 || operand != product) => Some(product),
        _ if operand.is_float() && (operand.bits() <= 8 || operand != product) => {
            Some(if product.bits() < 32 { DType::F32 } else { product })
        }
        _ => None,
    }
}
