//! Counting bits.

use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    RuleResult, Sample, Tangent, bind1,
};
use crate::primitives::rules::{arity, batch_elementwise, same_integer_type, zero_jvp};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// How many bits of every element are 1.
///
/// | | |
/// |-|-|
/// | operand    | `x: int[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.popcnt`](https://openxla.org/stablehlo/spec#popcnt) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PopulationCount;

impl Primitive for PopulationCount {
    fn name(&self) -> &'static str {
        "population_count"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_integer_type(arity::<1>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], _: &[Tangent]) -> JvpResult {
        zero_jvp(self, primals)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        batch_elementwise(self, operands, axes, axis)
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        Ok(vec![ctx.op("popcnt", operands)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::elementwise(operands, results)
    }
}

/// How many bits of each element of the integer array `x` are 1. See [`PopulationCount`].
#[doc(alias = "bitwise_count")]
#[doc(alias = "popcnt")]
#[track_caller]
pub fn population_count(x: &Array) -> Array {
    bind1(PopulationCount, [x])
}

pub(in crate::primitives) fn exemplars_population_count() -> Vec<Exemplar> {
    vec![
        Exemplar::new(PopulationCount, [Sample::listed(DType::I32, [4], &[0.0, 1.0, -1.0, 255.0])]),
        Exemplar::new(PopulationCount, [Sample::listed(DType::U8, [1, 3], &[0.0, 128.0, 7.0])]),
        Exemplar::new(PopulationCount, [Sample::uniform(DType::U64, [], 0.0, 1e9)]),
        Exemplar::new(PopulationCount, [Sample::uniform(DType::I16, [0], 0.0, 9.0)]),
    ]
}

/// How many zeros stand before the highest 1 of every element.
///
/// | | |
/// |-|-|
/// | operand    | `x: int[…]` |
/// | result     | same shape and dtype as `x`; the width of the dtype for 0 |
/// | lowering   | [`stablehlo.count_leading_zeros`](https://openxla.org/stablehlo/spec#count_leading_zeros) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CountLeadingZeros;

impl Primitive for CountLeadingZeros {
    fn name(&self) -> &'static str {
        "count_leading_zeros"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_integer_type(arity::<1>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], _: &[Tangent]) -> JvpResult {
        zero_jvp(self, primals)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        batch_elementwise(self, operands, axes, axis)
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        Ok(vec![ctx.op("count_leading_zeros", operands)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::elementwise(operands, results)
    }
}

/// How many zeros stand before the highest 1 of each element of the integer array `x`; its width if
/// there is none. See [`CountLeadingZeros`] for its rules.
#[doc(alias = "clz")]
#[track_caller]
pub fn count_leading_zeros(x: &Array) -> Array {
    bind1(CountLeadingZeros, [x])
}

pub(in crate::primitives) fn exemplars_count_leading_zeros() -> Vec<Exemplar> {
    vec![
        Exemplar::new(
            CountLeadingZeros,
            [Sample::listed(DType::I32, [4], &[0.0, 1.0, -1.0, 255.0])],
        ),
        Exemplar::new(CountLeadingZeros, [Sample::listed(DType::U8, [1, 3], &[0.0, 128.0, 7.0])]),
        Exemplar::new(CountLeadingZeros, [Sample::uniform(DType::U64, [], 0.0, 1e9)]),
        Exemplar::new(CountLeadingZeros, [Sample::uniform(DType::I16, [0], 0.0, 9.0)]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    #[test]
    fn counting_is_one_operation() {
        expect![[r#"
            func.func public @main(%0: tensor<2xui8>) -> (tensor<2xui8>) {
            %1 = "stablehlo.popcnt"(%0) : (tensor<2xui8>) -> tensor<2xui8>
            "func.return"(%1) : (tensor<2xui8>) -> ()
            }
        "#]]
        .assert_eq(&module_of(PopulationCount, [Aval::new(DType::U8, [2])]));
    }

    #[test]
    fn only_integers_are_counted() {
        expect![[r#"
            error[dtype]: count_leading_zeros: needs an integer operand, got f32
              operand: f32[2]"#]]
        .assert_eq(&error_of(CountLeadingZeros, [Aval::new(DType::F32, [2])]));
    }
}
