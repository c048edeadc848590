//! The error function, its complement and its inverse.

use crate::core::{Array, Aval, DType, Exemplar, LowerCtx, RuleResult, Sample, bind1};
use crate::primitives::ArrayLike;
use crate::primitives::arithmetic::{mul, neg};
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule,
};
use crate::primitives::exponential::exp;
use crate::primitives::promote::inexact;
use crate::primitives::saturated::lower_saturated;
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};
use std::f64::consts::{FRAC_2_SQRT_PI, PI};

/// Returns `2/√π · exp(-x²)`, the derivative of the error function.
fn erf_slope(x: &Array) -> Array {
    mul(exp(neg(mul(x, x))), FRAC_2_SQRT_PI)
}

/// Elementwise error function, `2/√π` times the integral of `exp(-t²)` from 0 to `x`.
///
/// | | |
/// |-|-|
/// | operand    | `x: float[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`chlo.erf`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | `erf(x)′ = 2/√π · exp(-x²)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Erf;

impl Elementwise for Erf {
    const NAME: &'static str = "erf";
    const TYPE: TypeRule<Erf> = TypeRule::unary(Dtypes::Float);
    const DERIVATIVE: Derivative<Erf> = Derivative::Unary(|_, x, _, dx| mul(dx, erf_slope(x)));
    const LOWERING: Lowering<Erf> =
        Lowering::Custom(|_, ctx, x, y| lower_saturated(ctx, "chlo.erf", 10.0, x, y));
    const COST: CostRule<Erf> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Erf, [Sample::uniform(DType::F32, [2, 3], -2.0, 2.0)]),
            Exemplar::new(Erf, [Sample::uniform(DType::BF16, [2], -1.0, 1.0)]),
            Exemplar::new(Erf, [Sample::uniform(DType::F64, [0], -1.0, 1.0)]),
        ]
    }
}

/// Returns the error function of each element of `x`. Integers become floats. See [`Erf`] for its
/// rules.
#[track_caller]
pub fn erf(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Erf, [&inexact(x)])
}

/// Elementwise complement `1 - erf(x)`, accurate where `erf(x)` is close to 1.
///
/// | | |
/// |-|-|
/// | operand    | `x: float[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`chlo.erfc`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | `erfc(x)′ = -2/√π · exp(-x²)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Erfc;

impl Erfc {
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        if results[0].dtype.bits() > 8 {
            return Ok(vec![ctx.op("chlo.erfc", operands)]);
        }
        // Unlike `erf`, `erfc` is not expanded for 8-bit floats.
        let wide = results[0].with_dtype(DType::F32).stablehlo();
        let x = ctx.op_as("convert", operands, "", &wide);
        let y = ctx.op("chlo.erfc", &[x]);
        Ok(vec![ctx.op_as("convert", &[y], "", &results[0].stablehlo())])
    }
}

impl Elementwise for Erfc {
    const NAME: &'static str = "erfc";
    const TYPE: TypeRule<Erfc> = TypeRule::unary(Dtypes::Float);
    const DERIVATIVE: Derivative<Erfc> =
        Derivative::Unary(|_, x, _, dx| mul(dx, neg(erf_slope(x))));
    const LOWERING: Lowering<Erfc> = Lowering::Custom(Erfc::lower);
    const COST: CostRule<Erfc> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Erfc, [Sample::uniform(DType::F32, [2, 3], -2.0, 2.0)]),
            Exemplar::new(Erfc, [Sample::listed(DType::F64, [3], &[-6.0, 0.0, 6.0])]),
            Exemplar::new(Erfc, [Sample::uniform(DType::F8E5M2, [], -1.0, 1.0)]),
        ]
    }
}

/// Returns `1 - erf(x)` for each element of `x`, accurate in the tail. Integers become floats. See
/// [`Erfc`] for its rules.
#[track_caller]
pub fn erfc(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Erfc, [&inexact(x)])
}

/// Elementwise inverse of the error function.
///
/// | | |
/// |-|-|
/// | operand    | `x: float[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`chlo.erf_inv`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | `erf_inv(x)′ = √π/2 · exp(erf_inv(x)²)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ErfInv;

impl Elementwise for ErfInv {
    const NAME: &'static str = "erf_inv";
    const TYPE: TypeRule<ErfInv> = TypeRule::unary(Dtypes::Float);
    const DERIVATIVE: Derivative<ErfInv> =
        Derivative::Unary(|_, _, y, dx| mul(dx, mul(exp(mul(y, y)), PI.sqrt() / 2.0)));
    const LOWERING: Lowering<ErfInv> = Lowering::Op("chlo.erf_inv");
    const COST: CostRule<ErfInv> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(ErfInv, [Sample::uniform(DType::F32, [2, 3], -0.9, 0.9)]),
            Exemplar::new(ErfInv, [Sample::uniform(DType::F64, [2, 1], -0.9, 0.9)]),
            Exemplar::new(ErfInv, [Sample::listed(DType::F32, [4], &[1.0, -1.0, -0.0, 2.0])])
                .without_derivative(),
        ]
    }
}

/// Returns the inverse error function of each element of `x`: ±∞ at ±1, NaN beyond. Integers become
/// floats. See [`ErfInv`] for its rules.
/// [`ErfInv`] for its rules.
#[track_caller]
pub fn erf_inv(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(ErfInv, [&inexact(x)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    #[test]
    fn the_error_function_lowers_to_chlo() {
        expect![[r#"
            func.func public @main(%0: tensor<3xf32>) -> (tensor<3xf32>) {
            %1 = "chlo.erf"(%0) : (tensor<3xf32>) -> tensor<3xf32>
            "func.return"(%1) : (tensor<3xf32>) -> ()
            }
        "#]]
        .assert_eq(&module_of(Erf, [Aval::new(DType::F32, [3])]));
    }

    #[test]
    fn the_error_function_refuses_complex_numbers() {
        expect![[r#"
            error[dtype]: erf: needs a float operand, got c64
              operand: c64[3]"#]]
        .assert_eq(&error_of(Erf, [Aval::new(DType::C64, [3])]));
    }
}
