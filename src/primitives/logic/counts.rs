//! Bit counts.

use crate::core::{Array, DType, Exemplar, Sample, bind1};
use crate::primitives::ArrayLike;
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule,
};
use serde::{Deserialize, Serialize};

/// Number of bits that are 1 in each element.
///
/// | | |
/// |-|-|
/// | operand    | `x: int[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.popcnt`](https://openxla.org/stablehlo/spec#popcnt) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PopulationCount;

impl Elementwise for PopulationCount {
    const NAME: &'static str = "population_count";
    const TYPE: TypeRule<PopulationCount> = TypeRule::unary(Dtypes::Integer);
    const DERIVATIVE: Derivative<PopulationCount> = Derivative::Zero;
    const LOWERING: Lowering<PopulationCount> = Lowering::Op("popcnt");
    const COST: CostRule<PopulationCount> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(
                PopulationCount,
                [Sample::listed(DType::I32, [4], &[0.0, 1.0, -1.0, 255.0])],
            ),
            Exemplar::new(PopulationCount, [Sample::listed(DType::U8, [1, 3], &[0.0, 128.0, 7.0])]),
            Exemplar::new(PopulationCount, [Sample::uniform(DType::U64, [], 0.0, 1e9)]),
            Exemplar::new(PopulationCount, [Sample::uniform(DType::I16, [0], 0.0, 9.0)]),
        ]
    }
}

/// Returns the number of bits that are 1 in each element of the integer array `x`. See
/// [`PopulationCount`] for its rules.
#[doc(alias = "popcnt")]
#[track_caller]
pub fn population_count(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(PopulationCount, [x])
}

/// Number of leading zero bits of each element.
///
/// | | |
/// |-|-|
/// | operand    | `x: int[…]` |
/// | result     | same shape and dtype as `x`; the width of the dtype for 0 |
/// | lowering   | [`stablehlo.count_leading_zeros`](https://openxla.org/stablehlo/spec#count_leading_zeros) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CountLeadingZeros;

impl Elementwise for CountLeadingZeros {
    const NAME: &'static str = "count_leading_zeros";
    const TYPE: TypeRule<CountLeadingZeros> = TypeRule::unary(Dtypes::Integer);
    const DERIVATIVE: Derivative<CountLeadingZeros> = Derivative::Zero;
    const LOWERING: Lowering<CountLeadingZeros> = Lowering::Op("count_leading_zeros");
    const COST: CostRule<CountLeadingZeros> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(
                CountLeadingZeros,
                [Sample::listed(DType::I32, [4], &[0.0, 1.0, -1.0, 255.0])],
            ),
            Exemplar::new(
                CountLeadingZeros,
                [Sample::listed(DType::U8, [1, 3], &[0.0, 128.0, 7.0])],
            ),
            Exemplar::new(CountLeadingZeros, [Sample::uniform(DType::U64, [], 0.0, 1e9)]),
            Exemplar::new(CountLeadingZeros, [Sample::uniform(DType::I16, [0], 0.0, 9.0)]),
        ]
    }
}

/// Returns the number of leading zero bits of each element of the integer array `x`; the width of
/// the dtype for 0. See [`CountLeadingZeros`] for its rules.
#[doc(alias = "clz")]
#[track_caller]
pub fn count_leading_zeros(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(CountLeadingZeros, [x])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Aval;
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
