//! Square and cube roots.

use super::basic::{div, mul};
use super::powers::integer_pow;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    RuleResult, Sample, Tangent, bind1,
};
use crate::primitives::promote::inexact;
use crate::primitives::rules::{arity, batch_elementwise, same_float_type, same_inexact_type};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Elementwise square root.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x`; the principal root, NaN for negative floats |
/// | lowering   | [`stablehlo.sqrt`](https://openxla.org/stablehlo/spec#sqrt) |
/// | derivative | `sqrt(x)′ = 1 / (2 sqrt(x))`, infinite at 0 |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sqrt;

impl Primitive for Sqrt {
    fn name(&self) -> &'static str {
        "sqrt"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_inexact_type(arity::<1>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = sqrt(x);
        let dy = tangents[0].map(y.aval(), |dx| mul(dx, div(0.5, &y)));
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
        Ok(vec![ctx.op("sqrt", operands)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::transcendental(operands, results)
    }
}

/// Square root of each element of `x`, NaN below 0; integers become floats. See [`Sqrt`].
#[track_caller]
pub fn sqrt(x: &Array) -> Array {
    bind1(Sqrt, [&inexact(x)])
}

pub(in crate::primitives) fn exemplars_sqrt() -> Vec<Exemplar> {
    vec![
        Exemplar::new(Sqrt, [Sample::uniform(DType::F32, [2, 3], 0.1, 3.0)]),
        Exemplar::new(Sqrt, [Sample::uniform(DType::C64, [2], 0.5, 1.0)]),
        Exemplar::new(Sqrt, [Sample::uniform(DType::F16, [], 0.5, 1.0)]),
        // The slope is infinite at 0, and there is none below.
        Exemplar::new(Sqrt, [Sample::listed(DType::F32, [3], &[-0.0, 0.0, -1.0])])
            .without_derivative(),
    ]
}

/// Elementwise reciprocal of the square root.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.rsqrt`](https://openxla.org/stablehlo/spec#rsqrt) |
/// | derivative | `rsqrt(x)′ = -rsqrt(x) / (2x)`, infinite at 0 |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rsqrt;

impl Primitive for Rsqrt {
    fn name(&self) -> &'static str {
        "rsqrt"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_inexact_type(arity::<1>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = rsqrt(x);
        let dy = tangents[0].map(y.aval(), |dx| mul(dx, mul(div(&y, x), -0.5)));
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
        Ok(vec![ctx.op("rsqrt", operands)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::transcendental(operands, results)
    }
}

/// `1 / sqrt(x)` of each element of `x`: ∞ at 0, NaN below; integers become floats. See [`Rsqrt`].
#[track_caller]
pub fn rsqrt(x: &Array) -> Array {
    bind1(Rsqrt, [&inexact(x)])
}

pub(in crate::primitives) fn exemplars_rsqrt() -> Vec<Exemplar> {
    vec![
        Exemplar::new(Rsqrt, [Sample::uniform(DType::F32, [2, 3], 0.1, 3.0)]),
        Exemplar::new(Rsqrt, [Sample::uniform(DType::C64, [2], 0.5, 1.0)]),
        Exemplar::new(Rsqrt, [Sample::uniform(DType::BF16, [3, 0], 0.5, 1.0)]),
        // The slope is infinite at 0, and there is none below.
        Exemplar::new(Rsqrt, [Sample::listed(DType::F32, [3], &[-0.0, 0.0, -1.0])])
            .without_derivative(),
    ]
}

/// Elementwise cube root, negative for negative numbers.
///
/// | | |
/// |-|-|
/// | operand    | `x: float[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.cbrt`](https://openxla.org/stablehlo/spec#cbrt) |
/// | derivative | `cbrt(x)′ = 1 / (3 cbrt(x)²)`, infinite at 0 |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cbrt;

impl Primitive for Cbrt {
    fn name(&self) -> &'static str {
        "cbrt"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_float_type(arity::<1>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = cbrt(x);
        let dy = tangents[0].map(y.aval(), |dx| mul(dx, mul(integer_pow(&y, -2), 1.0 / 3.0)));
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
        Ok(vec![ctx.op("cbrt", operands)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::transcendental(operands, results)
    }
}

/// Cube root of each element of `x`; integers become floats. See [`Cbrt`] for its rules.
#[track_caller]
pub fn cbrt(x: &Array) -> Array {
    bind1(Cbrt, [&inexact(x)])
}

pub(in crate::primitives) fn exemplars_cbrt() -> Vec<Exemplar> {
    vec![
        Exemplar::new(Cbrt, [Sample::uniform(DType::F32, [2, 3], 0.1, 3.0)]),
        Exemplar::new(Cbrt, [Sample::uniform(DType::F64, [2], -3.0, -0.5)]),
        // The slope is infinite at 0.
        Exemplar::new(Cbrt, [Sample::listed(DType::F32, [2], &[-0.0, -27.0])]).without_derivative(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    #[test]
    fn a_root_is_one_operation() {
        expect![[r#"
            func.func public @main(%0: tensor<3xf32>) -> (tensor<3xf32>) {
            %1 = "stablehlo.rsqrt"(%0) : (tensor<3xf32>) -> tensor<3xf32>
            "func.return"(%1) : (tensor<3xf32>) -> ()
            }
        "#]]
        .assert_eq(&module_of(Rsqrt, [Aval::new(DType::F32, [3])]));
    }

    #[test]
    fn cube_roots_are_real() {
        expect![[r#"
            error[dtype]: cbrt: needs a float operand, got c128
              operand: c128[3]"#]]
        .assert_eq(&error_of(Cbrt, [Aval::new(DType::C128, [3])]));
    }
}
