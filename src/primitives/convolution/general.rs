//! The convolution primitive.

use super::geometry::Spatial;
use super::numbers::ConvDimensionNumbers;
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, Contraction, Cost, DType, JvpResult, LowerCtx,
    Operand, Precision, Primitive, Registered, RuleError, RuleResult, ShardingRule, Spmd, Tangent,
    bind1,
};
use crate::primitives::dot::product_dtype;
use crate::primitives::rules::{arity, one_cotangent};
use crate::primitives::window::Padding;
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Slides a kernel over the spatial axes of an operand and sums products over kernel and input
/// features.
///
/// The kernel is not flipped: mathematically this is a cross-correlation.
///
/// | | |
/// |-|-|
/// | operands   | `lhs`: batch, features and space, `rhs`: output features, input features and space, in the layout of `dimension_numbers`; dtypes as [`DotGeneral`](crate::primitives::DotGeneral) takes them |
/// | result     | batch, output features and space; of dtype `preferred_element_type` if given, else of the operands' |
/// | lowering   | [`stablehlo.convolution`](https://openxla.org/stablehlo/spec#convolution); on CPU and GPU three real ones for complex operands |
/// | derivative | `conv(dlhs, rhs) + conv(lhs, drhs)`; transposes to convolutions of the cotangent with the turned kernel, and of the operand with the cotangent |
///
/// The sizes along a spatial axis are those of [`Window`](crate::primitives::Window), with
/// `lhs_dilation` as base dilation and `rhs_dilation` as window dilation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConvGeneralDilated {
    /// Strides of the kernel along each spatial axis; empty for ones.
    pub window_strides: Vec<usize>,
    /// Padding of `lhs` after dilation.
    pub padding: Padding,
    /// Dilation of `lhs` along each spatial axis; empty for ones.
    pub lhs_dilation: Vec<usize>,
    /// Dilation of `rhs` along each spatial axis; empty for ones.
    pub rhs_dilation: Vec<usize>,
    /// The layout of the operands and the result.
    pub dimension_numbers: ConvDimensionNumbers,
    /// The number of groups into which the features of `lhs` and the output features are divided.
    /// Output features depend on the input features of their group only.
    pub feature_group_count: usize,
    /// The number of groups into which the batch of `lhs` and the output features are divided.
    /// Output features depend on their group of the batch only.
    pub batch_group_count: usize,
    /// The precision of `lhs` and of `rhs`.
    pub precision: [Precision; 2],
    /// The dtype of sums and result; `None` for the dtype of the operands.
    pub preferred_element_type: Option<DType>,
}

impl Default for ConvGeneralDilated {
    /// Strides and dilations of 1, no padding, `NC…` and `OI…`, one group.
    fn default() -> ConvGeneralDilated {
        ConvGeneralDilated {
            window_strides: Vec::new(),
            padding: Padding::Valid,
            lhs_dilation: Vec::new(),
            rhs_dilation: Vec::new(),
            dimension_numbers: ConvDimensionNumbers::default(),
            feature_group_count: 1,
            batch_group_count: 1,
            precision: [Precision::Default; 2],
            preferred_element_type: None,
        }
    }
}

impl ConvGeneralDilated {
    fn describe(&self, rank: usize) -> String {
        match self.dimension_numbers.resolved(rank) {
            Ok(numbers) => format!("axes: {}", numbers.stablehlo()),
            Err(_) => format!("axes: {:?}", self.dimension_numbers),
        }
    }
}

impl Primitive for ConvGeneralDilated {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [lhs, rhs] = arity(operands)?;
        let noted = |error: RuleError| error.note(self.describe(lhs.rank()));
        let geometry = self.geometry(&lhs.shape, &rhs.shape).map_err(noted)?;
        let dtype = product_dtype(lhs.dtype, rhs.dtype, self.preferred_element_type)?;
        let weak = lhs.weak && rhs.weak && self.preferred_element_type.is_none();
        Ok(vec![Aval { weak, ..Aval::new(dtype, geometry.shape()) }])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (lhs, rhs) = (&primals[0], &primals[1]);
        let y = bind1(self.clone(), [lhs, rhs]);
        let left = tangents[0].map(y.aval(), |dlhs| bind1(self.clone(), [dlhs, rhs]));
        let right = tangents[1].map(y.aval(), |drhs| bind1(self.clone(), [lhs, drhs]));
        Ok((vec![y], vec![left.add(&right)]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        self.batched([&operands[0], &operands[1]], [axes[0], axes[1]], axis)
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        self.written(ctx, operands, &results[0])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let movement = Cost::whole(operands, results);
        // `abstract_eval` has already rejected invalid geometry.
        let Ok(geometry) = self.geometry(&operands[0].shape, &operands[1].shape) else {
            return movement;
        };
        let others = [geometry.batch, geometry.features, geometry.inputs];
        let others: u64 = others.iter().map(|&size| size as u64).product();
        let space: u64 = geometry.space.iter().map(Spatial::products).product();
        // A complex product and its sum take eight operations, a real one two.
        let ops_per_tap = if results[0].dtype.is_complex() { 8 } else { 2 };
        Cost { flops: ops_per_tap * others * space, ..movement }
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = one_cotangent(cts)?;
        match operands {
            [Operand::Linear(lhs), Operand::Known(rhs)] => {
                Ok(vec![Some(self.transposed_lhs(ct, lhs, rhs)?), None])
            }
            [Operand::Known(lhs), Operand::Linear(rhs)] => {
                Ok(vec![None, Some(self.transposed_rhs(ct, lhs, rhs)?)])
            }
            _ => Err(RuleError::not_linear("conv_general_dilated")),
        }
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
}

impl Spmd for ConvGeneralDilated {
    fn sharding_rule(&self, operands: &[Aval], results: &[Aval]) -> Option<ShardingRule> {
        // Windows cross the boundaries of a split spatial axis, so spatial axes are not listed.
        // Features of different groups are independent.
        let rank = results[0].rank();
        let Ok(numbers) = self.dimension_numbers.resolved(operands[0].rank()) else {
            return Some(ShardingRule::default());
        };
        let along = |dim: usize| match numbers.out_spec.iter().position(|&axis| axis == dim) {
            Some(0) if self.batch_group_count <= 1 => vec![(0, numbers.lhs_spec[0])],
            Some(1) => vec![(1, numbers.rhs_spec[0])],
            _ => vec![],
        };
        Some(ShardingRule::one((0..rank).map(along)).combining())
    }
}

impl Analysis for ConvGeneralDilated {
    fn contraction(&self, operands: &[Aval], _: &[Aval]) -> Option<Contraction> {
        let geometry = self.geometry(&operands[0].shape, &operands[1].shape).ok()?;
        let groups = self.feature_group_count.max(1) * self.batch_group_count.max(1);
        let [positions, taps] = [|axis: &Spatial| axis.out, |axis: &Spatial| axis.rhs];
        Some(Contraction {
            batch: groups,
            m: geometry.batch * geometry.space.iter().map(positions).product::<usize>(),
            n: geometry.features / groups,
            k: geometry.inputs * geometry.space.iter().map(taps).product::<usize>(),
            passes: Contraction::passes(&operands[0], self.precision),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    fn images() -> ConvGeneralDilated {
        ConvGeneralDilated {
            window_strides: vec![2, 2],
            padding: Padding::Same,
            dimension_numbers: ConvDimensionNumbers::of("NHWC", "HWIO", "NHWC"),
            ..Default::default()
        }
    }

    fn avals(kernel: [usize; 4]) -> [Aval; 2] {
        [Aval::new(DType::F32, [8, 5, 6, 3]), Aval::new(DType::F32, kernel)]
    }

    #[test]
    fn lowering() {
        expect![[r#"
            func.func public @main(%0: tensor<8x5x6x3xf32>, %1: tensor<3x3x3x4xf32>) -> (tensor<8x3x3x4xf32>) {
            %2 = "stablehlo.convolution"(%0, %1) <{window_strides = array<i64: 2, 2>, padding = dense<[[1, 1], [0, 1]]> : tensor<2x2xi64>, lhs_dilation = array<i64: 1, 1>, rhs_dilation = array<i64: 1, 1>, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<8x5x6x3xf32>, tensor<3x3x3x4xf32>) -> tensor<8x3x3x4xf32>
            "func.return"(%2) : (tensor<8x3x3x4xf32>) -> ()
            }
        "#]].assert_eq(&module_of(images(), avals([3, 3, 3, 4])));
    }

    #[test]
    fn rejects_invalid_operands() {
        expect![[r#"
            error[shape]: conv_general_dilated: lhs has 3 features, rhs takes 4 in each of 1 groups
              lhs: f32[8,5,6,3]
              rhs: f32[3,3,4,4]
              axes: #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>"#]]
        .assert_eq(&error_of(images(), avals([3, 3, 4, 4])));
        let groups = ConvGeneralDilated { feature_group_count: 3, ..images() };
        expect![[r#"
            error[shape]: conv_general_dilated: the 4 output features do not divide into 3 groups
              lhs: f32[8,5,6,3]
              rhs: f32[3,3,1,4]
              axes: #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>"#]]
        .assert_eq(&error_of(groups, avals([3, 3, 1, 4])));
        let strides = ConvGeneralDilated { window_strides: vec![2], ..images() };
        expect![[r#"
            error[shape]: conv_general_dilated: window_strides has 1 entries, there are 2 spatial axes
              lhs: f32[8,5,6,3]
              rhs: f32[3,3,3,4]
              axes: #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>"#]]
        .assert_eq(&error_of(strides, avals([3, 3, 3, 4])));
    }

    /// 2 operations per product of an element and a tap, without padding.
    #[test]
    fn costs() {
        let valid = ConvGeneralDilated { padding: Padding::Valid, ..images() };
        let result = valid.abstract_eval(&avals([3, 3, 3, 4])).unwrap();
        let cost = valid.cost(&avals([3, 3, 3, 4]), &result);
        assert_eq!(cost.flops, 2 * (8 * 2 * 2) * 4 * 3 * 9);
    }
}
