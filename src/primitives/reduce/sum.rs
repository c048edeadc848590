//! Sum along axes.

use super::axes::{lower_reduce, reduced, reduction_rule, remaining_axes, resolve_axes, shifted};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Operand,
    Primitive, Registered, RuleResult, Sample, Scalar, ShardingRule, Spmd, Tangent, bind1,
};
use crate::primitives::rules::{arity, batched, linear_jvp, move_axis, one_cotangent};
use crate::primitives::shape::broadcast_in_dim;
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Sum along axes.
///
/// | | |
/// |-|-|
/// | operand    | `x: {int, float, complex}[…]`, `bool` (logical or) |
/// | result     | dtype of `x`, without the axes `axes`; 0 over an empty axis; integers wrap |
/// | lowering   | [`stablehlo.reduce`](https://openxla.org/stablehlo/spec#reduce) with `add` |
/// | derivative | linear; transposes to a broadcast |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReduceSum {
    /// The axes to sum over, increasing.
    pub axes: Vec<usize>,
}

impl Primitive for ReduceSum {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        Ok(vec![reduced(x, &self.axes)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        linear_jvp(self, primals, tangents)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(batched(bind1(ReduceSum { axes: shifted(&self.axes) }, [&x]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let zero = Scalar::Int(0).stablehlo(results[0].dtype);
        let sum =
            lower_reduce(ctx, &operands[0], &self.axes, &zero, |ctx, pair| ctx.op("add", pair));
        Ok(vec![sum])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::reduction(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let shape = &operands[0].aval().shape;
        let kept = remaining_axes(shape.rank(), &self.axes);
        Ok(vec![Some(broadcast_in_dim(one_cotangent(cts)?, shape, &kept).into())])
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for ReduceSum {
    fn sharding_rule(&self, operands: &[Aval], _: &[Aval]) -> Option<ShardingRule> {
        Some(reduction_rule(operands[0].rank(), &self.axes))
    }
}

/// Returns the sum of `x` along `axes`, which are removed. Negative axes count from the back. See
/// [`ReduceSum`] for its rules.
#[track_caller]
pub fn reduce_sum(x: &Array, axes: &[isize]) -> Array {
    let axes = resolve_axes("reduce_sum", x, axes);
    if axes.is_empty() { x.clone() } else { bind1(ReduceSum { axes }, [x]) }
}

impl Registered for ReduceSum {
    const NAME: &'static str = "reduce_sum";
    fn exemplars() -> Vec<Exemplar> {
        let over =
            |axes: &[usize], sample| Exemplar::new(ReduceSum { axes: axes.to_vec() }, [sample]);
        vec![
            over(&[0], Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)),
            over(&[0, 2], Sample::uniform(DType::F64, [2, 3, 4], -1.0, 1.0)),
            over(&[1], Sample::uniform(DType::F32, [2, 0], -1.0, 1.0)),
            over(&[0], Sample::listed(DType::U8, [3], &[200.0, 100.0, 1.0])),
            over(&[], Sample::uniform(DType::C64, [], -1.0, 1.0)),
            over(&[1], Sample::uniform(DType::BF16, [2, 1], -1.0, 1.0)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::reduce::axes::testing::{error_line, lowered};
    use expect_test::expect;

    #[test]
    fn lowering() {
        expect![[r#"
            module @"m" {
              func.func public @main(%0: tensor<2x3xf32>) -> (tensor<2xf32>) {
              %1 = "stablehlo.constant"() <{value = dense<0x00000000> : tensor<f32>}> : () -> tensor<f32>
              %5 = "stablehlo.reduce"(%0, %1) <{dimensions = array<i64: 1>}> ({
                ^bb0(%2: tensor<f32>, %3: tensor<f32>):
                %4 = "stablehlo.add"(%2, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
                "stablehlo.return"(%4) : (tensor<f32>) -> ()
              }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
              "func.return"(%5) : (tensor<2xf32>) -> ()
              }
            }
        "#]].assert_eq(&lowered(DType::F32, &[2, 3], |x| reduce_sum(x, &[-1])));
    }

    #[test]
    fn a_repeated_axis_is_refused() {
        expect!["error[shape]: reduce_sum: axes [1, -1] name axis 1 twice"].assert_eq(&error_line(
            DType::F32,
            &[2, 3],
            |x| reduce_sum(x, &[1, -1]),
        ));
    }
}
