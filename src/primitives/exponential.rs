//! Exponentials, logarithms and sigmoids.

use super::arithmetic::{add, div, mul, sub};
use super::promote::inexact;
use super::saturated::lower_saturated;
use crate::core::{Array, Aval, DType, Exemplar, LowerCtx, RuleResult, Sample, Scalar, bind1};
use crate::primitives::ArrayLike;
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule,
};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Edge values, at which finite differences are not defined.
const EDGES: [f64; 6] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e30];

/// Elementwise exponential, `e` to the power `x`.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.exponential`](https://openxla.org/stablehlo/spec#exponential) |
/// | derivative | `exp(x)′ = exp(x)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Exp;

impl Elementwise for Exp {
    const NAME: &'static str = "exp";
    const TYPE: TypeRule<Exp> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Exp> = Derivative::Unary(|_, _, y, dx| mul(dx, y));
    const LOWERING: Lowering<Exp> = Lowering::Op("exponential");
    const COST: CostRule<Exp> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Exp, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
            Exemplar::new(Exp, [Sample::uniform(DType::C64, [2], -1.0, 1.0)]),
            Exemplar::new(Exp, [Sample::uniform(DType::BF16, [], -1.0, 1.0)]),
            Exemplar::new(Exp, [Sample::listed(DType::F32, [6], &EDGES)]).without_derivative(),
        ]
    }
}

/// Returns `e` to the power of each element of `x`. Integers become floats. See [`Exp`] for its
/// rules.
#[track_caller]
pub fn exp(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Exp, [&inexact(x)])
}

/// Elementwise power of two.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.power`](https://openxla.org/stablehlo/spec#power) of 2, exact at integers; complex: `exp(ln 2 · x)` |
/// | derivative | `exp2(x)′ = ln 2 · exp2(x)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Exp2;

impl Exp2 {
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let ty = operands[0].ty().clone();
        let dtype = results[0].dtype;
        let (base, name) =
            if dtype.is_complex() { (std::f64::consts::LN_2, "multiply") } else { (2.0, "power") };
        let base = ctx.constant(&Scalar::Float(base).stablehlo(dtype), &ty);
        let y = ctx.op(name, &[base, operands[0].clone()]);
        Ok(vec![if dtype.is_complex() { ctx.op("exponential", &[y]) } else { y }])
    }
}

impl Elementwise for Exp2 {
    const NAME: &'static str = "exp2";
    const TYPE: TypeRule<Exp2> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Exp2> =
        Derivative::Unary(|_, _, y, dx| mul(dx, mul(y, std::f64::consts::LN_2)));
    const LOWERING: Lowering<Exp2> = Lowering::Custom(Exp2::lower);
    const COST: CostRule<Exp2> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Exp2, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
            Exemplar::new(Exp2, [Sample::uniform(DType::C64, [2], -1.0, 1.0)]),
            Exemplar::new(Exp2, [Sample::listed(DType::F32, [4], &[-149.0, -1.0, 10.0, 127.0])]),
        ]
    }
}

/// Returns 2 to the power of each element of `x`. Integers become floats. See [`Exp2`] for its
/// rules.
#[track_caller]
pub fn exp2(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Exp2, [&inexact(x)])
}

/// Elementwise `exp(x) - 1`, accurate near 0 where the difference would cancel.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.exponential_minus_one`](https://openxla.org/stablehlo/spec#exponential_minus_one) |
/// | derivative | `expm1(x)′ = expm1(x) + 1` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Expm1;

impl Elementwise for Expm1 {
    const NAME: &'static str = "expm1";
    const TYPE: TypeRule<Expm1> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Expm1> = Derivative::Unary(|_, _, y, dx| mul(dx, add(y, 1.0)));
    const LOWERING: Lowering<Expm1> = Lowering::Op("exponential_minus_one");
    const COST: CostRule<Expm1> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Expm1, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
            Exemplar::new(Expm1, [Sample::uniform(DType::C128, [2], -1.0, 1.0)]),
            Exemplar::new(Expm1, [Sample::listed(DType::F64, [2], &[1e-12, -1e-12])]),
            Exemplar::new(Expm1, [Sample::listed(DType::F32, [6], &EDGES)]).without_derivative(),
        ]
    }
}

/// Returns `exp(x) - 1` for each element of `x`, accurate near 0. Integers become floats. See
/// [`Expm1`] for its rules.
#[track_caller]
pub fn expm1(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Expm1, [&inexact(x)])
}

/// Elementwise natural logarithm.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.log`](https://openxla.org/stablehlo/spec#log) |
/// | derivative | `log(x)′ = 1/x` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Log;

impl Elementwise for Log {
    const NAME: &'static str = "log";
    const TYPE: TypeRule<Log> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Log> = Derivative::Unary(|_, x, _, dx| div(dx, x));
    const LOWERING: Lowering<Log> = Lowering::Op("log");
    const COST: CostRule<Log> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Log, [Sample::uniform(DType::F32, [2, 3], 0.1, 3.0)]),
            Exemplar::new(Log, [Sample::uniform(DType::C64, [2], 0.5, 1.0)]),
            Exemplar::new(Log, [Sample::uniform(DType::F16, [0, 2], 1.0, 2.0)]),
            Exemplar::new(Log, [Sample::listed(DType::F32, [6], &EDGES)]).without_derivative(),
        ]
    }
}

/// Returns the natural logarithm of each element of `x`: -∞ at 0, NaN below. Integers become
/// floats. See [`Log`] for its rules.
#[track_caller]
pub fn log(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Log, [&inexact(x)])
}

/// Elementwise `log(1 + x)`, accurate near 0 where the sum would round `x` away.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x`; -∞ at -1, NaN below |
/// | lowering   | [`stablehlo.log_plus_one`](https://openxla.org/stablehlo/spec#log_plus_one) |
/// | derivative | `log1p(x)′ = 1 / (1 + x)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Log1p;

impl Elementwise for Log1p {
    const NAME: &'static str = "log1p";
    const TYPE: TypeRule<Log1p> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Log1p> = Derivative::Unary(|_, x, _, dx| div(dx, add(x, 1.0)));
    const LOWERING: Lowering<Log1p> = Lowering::Op("log_plus_one");
    const COST: CostRule<Log1p> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Log1p, [Sample::uniform(DType::F32, [2, 3], -0.9, 3.0)]),
            Exemplar::new(Log1p, [Sample::uniform(DType::C64, [2], 0.0, 1.0)]),
            Exemplar::new(Log1p, [Sample::listed(DType::F64, [3], &[1e-12, -1e-12, 1e12])]),
            Exemplar::new(Log1p, [Sample::listed(DType::F32, [6], &EDGES)]).without_derivative(),
        ]
    }
}

/// Returns `log(1 + x)` for each element of `x`, accurate near 0. Integers become floats. See
/// [`Log1p`] for its rules.
#[track_caller]
pub fn log1p(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Log1p, [&inexact(x)])
}

/// Elementwise logistic sigmoid, `1 / (1 + exp(-x))`.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.logistic`](https://openxla.org/stablehlo/spec#logistic) |
/// | derivative | `logistic(x)′ = logistic(x) · (1 - logistic(x))` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Logistic;

impl Elementwise for Logistic {
    const NAME: &'static str = "logistic";
    const TYPE: TypeRule<Logistic> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Logistic> =
        Derivative::Unary(|_, _, y, dx| mul(dx, mul(y, sub(1.0, y))));
    const LOWERING: Lowering<Logistic> =
        Lowering::Custom(|_, ctx, x, y| lower_saturated(ctx, "logistic", 1e3, x, y));
    const COST: CostRule<Logistic> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Logistic, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
            Exemplar::new(Logistic, [Sample::uniform(DType::C64, [2], -1.0, 1.0)]),
            Exemplar::new(Logistic, [Sample::uniform(DType::F64, [1, 1], -9.0, 9.0)]),
            Exemplar::new(Logistic, [Sample::listed(DType::F32, [6], &EDGES)]).without_derivative(),
        ]
    }
}

/// Returns `1 / (1 + exp(-x))` for each element of `x`. Integers become floats. See [`Logistic`]
/// for its rules.
#[doc(alias = "sigmoid")]
#[doc(alias = "expit")]
#[track_caller]
pub fn logistic(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Logistic, [&inexact(x)])
}

/// Elementwise hyperbolic tangent.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.tanh`](https://openxla.org/stablehlo/spec#tanh) |
/// | derivative | `tanh(x)′ = (1 - tanh(x)) · (1 + tanh(x))` |
///
/// The derivative is a product because `1 - tanh(x)²` loses digits where the tangent nears 1: the
/// square is rounded before the subtraction, `1 - tanh(x)` is exact there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tanh;

impl Elementwise for Tanh {
    const NAME: &'static str = "tanh";
    const TYPE: TypeRule<Tanh> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Tanh> =
        Derivative::Unary(|_, _, y, dx| mul(dx, mul(sub(1.0, y), add(y, 1.0))));
    const LOWERING: Lowering<Tanh> =
        Lowering::Custom(|_, ctx, x, y| lower_saturated(ctx, "tanh", 20.0, x, y));
    const COST: CostRule<Tanh> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Tanh, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
            Exemplar::new(Tanh, [Sample::uniform(DType::C64, [2], -1.0, 1.0)]),
            Exemplar::new(Tanh, [Sample::uniform(DType::BF16, [2], -1.0, 1.0)]),
            Exemplar::new(Tanh, [Sample::listed(DType::F32, [6], &EDGES)]).without_derivative(),
        ]
    }
}

/// Returns the hyperbolic tangent of each element of `x`. Integers become floats. See [`Tanh`] for
/// its rules.
#[track_caller]
pub fn tanh(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Tanh, [&inexact(x)])
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::{error_of, module_of};
    use super::*;
    use expect_test::expect;

    #[test]
    fn an_exponential_lowers_to_one_operation() {
        expect![[r#"
            func.func public @main(%0: tensor<3xf32>) -> (tensor<3xf32>) {
            %1 = "stablehlo.exponential"(%0) : (tensor<3xf32>) -> tensor<3xf32>
            "func.return"(%1) : (tensor<3xf32>) -> ()
            }
        "#]]
        .assert_eq(&module_of(Exp, [Aval::new(DType::F32, [3])]));
    }

    #[test]
    fn a_power_of_two_is_a_power_unless_it_is_complex() {
        expect![[r#"
            func.func public @main(%0: tensor<3xbf16>) -> (tensor<3xbf16>) {
            %1 = "stablehlo.constant"() <{value = dense<0x4000> : tensor<3xbf16>}> : () -> tensor<3xbf16>
            %2 = "stablehlo.power"(%1, %0) : (tensor<3xbf16>, tensor<3xbf16>) -> tensor<3xbf16>
            "func.return"(%2) : (tensor<3xbf16>) -> ()
            }
        "#]].assert_eq(&module_of(Exp2, [Aval::new(DType::BF16, [3])]));
        expect![[r#"
            func.func public @main(%0: tensor<complex<f32>>) -> (tensor<complex<f32>>) {
            %1 = "stablehlo.constant"() <{value = dense<(0x3F317218, 0x00000000)> : tensor<complex<f32>>}> : () -> tensor<complex<f32>>
            %2 = "stablehlo.multiply"(%1, %0) : (tensor<complex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
            %3 = "stablehlo.exponential"(%2) : (tensor<complex<f32>>) -> tensor<complex<f32>>
            "func.return"(%3) : (tensor<complex<f32>>) -> ()
            }
        "#]].assert_eq(&module_of(Exp2, [Aval::new(DType::C64, [])]));
    }

    #[test]
    fn a_strict_exponential_refuses_integers() {
        expect![[r#"
            error[dtype]: exp: needs a float or complex operand, got i32
              operand: i32[3]"#]]
        .assert_eq(&error_of(Exp, [Aval::new(DType::I32, [3])]));
    }
}
