//! Hyperbolic functions and their inverses.

use super::complex::{Wave, lower_wave};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    RuleResult, Sample, Tangent, bind1,
};
use crate::primitives::arithmetic::{add, div, mul, rsqrt, sub};
use crate::primitives::promote::inexact;
use crate::primitives::rules::{arity, batch_elementwise, same_inexact_type};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Elementwise hyperbolic sine.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`chlo.sinh`](https://openxla.org/stablehlo/generated/chlo); complex: real functions of the parts |
/// | derivative | `sinh(x)′ = cosh(x)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sinh;

impl Primitive for Sinh {
    fn name(&self) -> &'static str {
        "sinh"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_inexact_type(arity::<1>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = sinh(x);
        let dy = tangents[0].map(y.aval(), |dx| mul(dx, cosh(x)));
        Ok((vec![y], vec![dy]))
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
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        Ok(vec![match results[0].dtype.is_complex() {
            true => lower_wave(ctx, Wave::Sinh, &operands[0], &results[0]),
            false => ctx.op("chlo.sinh", operands),
        }])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::transcendental(operands, results)
    }
}

/// Hyperbolic sine of each element of `x`; integers become floats. See [`Sinh`] for its rules.
#[track_caller]
pub fn sinh(x: &Array) -> Array {
    bind1(Sinh, [&inexact(x)])
}

pub(in crate::primitives) fn exemplars_sinh() -> Vec<Exemplar> {
    vec![
        Exemplar::new(Sinh, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
        Exemplar::new(Sinh, [Sample::uniform(DType::C64, [2], -1.0, 1.0)]),
        Exemplar::new(Sinh, [Sample::uniform(DType::BF16, [2, 0], -1.0, 1.0)]),
    ]
}

/// Elementwise hyperbolic cosine.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`chlo.cosh`](https://openxla.org/stablehlo/generated/chlo); complex: real functions of the parts |
/// | derivative | `cosh(x)′ = sinh(x)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cosh;

impl Primitive for Cosh {
    fn name(&self) -> &'static str {
        "cosh"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_inexact_type(arity::<1>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = cosh(x);
        let dy = tangents[0].map(y.aval(), |dx| mul(dx, sinh(x)));
        Ok((vec![y], vec![dy]))
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
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        Ok(vec![match results[0].dtype.is_complex() {
            true => lower_wave(ctx, Wave::Cosh, &operands[0], &results[0]),
            false => ctx.op("chlo.cosh", operands),
        }])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::transcendental(operands, results)
    }
}

/// Hyperbolic cosine of each element of `x`; integers become floats. See [`Cosh`] for its rules.
#[track_caller]
pub fn cosh(x: &Array) -> Array {
    bind1(Cosh, [&inexact(x)])
}

pub(in crate::primitives) fn exemplars_cosh() -> Vec<Exemplar> {
    vec![
        Exemplar::new(Cosh, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
        Exemplar::new(Cosh, [Sample::uniform(DType::C64, [2], -1.0, 1.0)]),
        Exemplar::new(Cosh, [Sample::uniform(DType::F64, [], -1.0, 1.0)]),
    ]
}

/// Elementwise inverse hyperbolic sine.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`chlo.asinh`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | `asinh(x)′ = 1 / √(x² + 1)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Asinh;

impl Primitive for Asinh {
    fn name(&self) -> &'static str {
        "asinh"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_inexact_type(arity::<1>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = asinh(x);
        let dy = tangents[0].map(y.aval(), |dx| mul(dx, rsqrt(&add(mul(x, x), 1.0))));
        Ok((vec![y], vec![dy]))
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
        Ok(vec![ctx.op("chlo.asinh", operands)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::transcendental(operands, results)
    }
}

/// Inverse hyperbolic sine of each element of `x`; integers become floats. See [`Asinh`].
#[doc(alias = "arcsinh")]
#[track_caller]
pub fn asinh(x: &Array) -> Array {
    bind1(Asinh, [&inexact(x)])
}

pub(in crate::primitives) fn exemplars_asinh() -> Vec<Exemplar> {
    vec![
        Exemplar::new(Asinh, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
        Exemplar::new(Asinh, [Sample::uniform(DType::C64, [2], -0.7, 0.7)]),
        Exemplar::new(Asinh, [Sample::uniform(DType::F64, [1], -99.0, 99.0)]),
    ]
}

/// The slope of [`acosh`]. The product under one root is exact near 1, where `x² - 1` cancels; over the
/// complex plane only two roots have the function's branch cut.
fn acosh_slope(x: &Array) -> Array {
    let (low, high) = (sub(x, 1.0), add(x, 1.0));
    match x.dtype().is_complex() {
        true => mul(rsqrt(&low), rsqrt(&high)),
        false => rsqrt(&mul(low, high)),
    }
}

/// Elementwise inverse hyperbolic cosine.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`chlo.acosh`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | `acosh(x)′ = 1 / (√(x - 1) √(x + 1))`, infinite at 1 |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Acosh;

impl Primitive for Acosh {
    fn name(&self) -> &'static str {
        "acosh"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_inexact_type(arity::<1>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = acosh(x);
        let dy = tangents[0].map(y.aval(), |dx| mul(dx, acosh_slope(x)));
        Ok((vec![y], vec![dy]))
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
        Ok(vec![ctx.op("chlo.acosh", operands)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::transcendental(operands, results)
    }
}

/// Inverse hyperbolic cosine of each element of `x`, NaN below 1; integers become floats. See
/// [`Acosh`] for its rules.
#[doc(alias = "arccosh")]
#[track_caller]
pub fn acosh(x: &Array) -> Array {
    bind1(Acosh, [&inexact(x)])
}

pub(in crate::primitives) fn exemplars_acosh() -> Vec<Exemplar> {
    vec![
        Exemplar::new(Acosh, [Sample::uniform(DType::F32, [2, 3], 1.1, 3.0)]),
        Exemplar::new(Acosh, [Sample::uniform(DType::C64, [2], -2.0, 2.0)]),
        Exemplar::new(Acosh, [Sample::listed(DType::F32, [3], &[1.0, 0.5, f64::NAN])])
            .without_derivative(),
    ]
}

/// Elementwise inverse hyperbolic tangent.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`chlo.atanh`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | `atanh(x)′ = 1 / ((1 - x) (1 + x))`, infinite at ±1 |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Atanh;

impl Primitive for Atanh {
    fn name(&self) -> &'static str {
        "atanh"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_inexact_type(arity::<1>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = atanh(x);
        let dy = tangents[0].map(y.aval(), |dx| div(dx, mul(sub(1.0, x), add(x, 1.0))));
        Ok((vec![y], vec![dy]))
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
        Ok(vec![ctx.op("chlo.atanh", operands)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::transcendental(operands, results)
    }
}

/// Inverse hyperbolic tangent of each element of `x`, infinite at ±1 and NaN beyond; integers become
/// floats. See [`Atanh`] for its rules.
#[doc(alias = "arctanh")]
#[track_caller]
pub fn atanh(x: &Array) -> Array {
    bind1(Atanh, [&inexact(x)])
}

pub(in crate::primitives) fn exemplars_atanh() -> Vec<Exemplar> {
    vec![
        Exemplar::new(Atanh, [Sample::uniform(DType::F32, [2, 3], -0.9, 0.9)]),
        Exemplar::new(Atanh, [Sample::uniform(DType::C64, [2], -0.7, 0.7)]),
        Exemplar::new(Atanh, [Sample::listed(DType::F32, [3], &[1.0, -1.0, 2.0])])
            .without_derivative(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    #[test]
    fn hyperbolic_functions_lower_to_chlo() {
        expect![[r#"
            func.func public @main(%0: tensor<complex<f32>>) -> (tensor<complex<f32>>) {
            %1 = "stablehlo.real"(%0) : (tensor<complex<f32>>) -> tensor<f32>
            %2 = "stablehlo.imag"(%0) : (tensor<complex<f32>>) -> tensor<f32>
            %3 = "stablehlo.sine"(%2) : (tensor<f32>) -> tensor<f32>
            %4 = "stablehlo.cosine"(%2) : (tensor<f32>) -> tensor<f32>
            %5 = "chlo.sinh"(%1) : (tensor<f32>) -> tensor<f32>
            %6 = "chlo.cosh"(%1) : (tensor<f32>) -> tensor<f32>
            %7 = "stablehlo.multiply"(%3, %6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
            %8 = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
            %9 = "stablehlo.compare"(%2, %8) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %10 = "stablehlo.select"(%9, %2, %7) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
            %11 = "stablehlo.multiply"(%4, %5) : (tensor<f32>, tensor<f32>) -> tensor<f32>
            %12 = "stablehlo.complex"(%11, %10) : (tensor<f32>, tensor<f32>) -> tensor<complex<f32>>
            "func.return"(%12) : (tensor<complex<f32>>) -> ()
            }
        "#]]
        .assert_eq(&module_of(Sinh, [Aval::new(DType::C64, [])]));
    }

    #[test]
    fn booleans_have_no_hyperbolic_sine() {
        expect![[r#"
            error[dtype]: sinh: needs a float or complex operand, got bool
              operand: bool[2,2]"#]]
        .assert_eq(&error_of(Sinh, [Aval::new(DType::Bool, [2, 2])]));
    }
}
