//! Sine, cosine and tangent.

use super::complex::{Wave, lower_wave};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    RuleResult, Sample, Tangent, bind1,
};
use crate::primitives::arithmetic::{add, mul, neg};
use crate::primitives::promote::inexact;
use crate::primitives::rules::{arity, batch_elementwise, same_inexact_type};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Elementwise sine of an angle in radians.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.sine`](https://openxla.org/stablehlo/spec#sine); complex: real functions of the parts |
/// | derivative | `sin(x)′ = cos(x)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sin;

impl Primitive for Sin {
    fn name(&self) -> &'static str {
        "sin"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_inexact_type(arity::<1>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        Ok((vec![sin(x)], vec![tangents[0].map(x.aval(), |dx| mul(dx, cos(x)))]))
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
            true => lower_wave(ctx, Wave::Sin, &operands[0], &results[0]),
            false => ctx.op("sine", operands),
        }])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::transcendental(operands, results)
    }
}

/// Sine of each element of `x`, in radians; integers become floats. See [`Sin`] for its rules.
#[track_caller]
pub fn sin(x: &Array) -> Array {
    bind1(Sin, [&inexact(x)])
}

pub(in crate::primitives) fn exemplars_sin() -> Vec<Exemplar> {
    vec![
        Exemplar::new(Sin, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
        Exemplar::new(Sin, [Sample::uniform(DType::C64, [2], -1.0, 1.0)]),
    ]
}

/// Elementwise cosine of an angle in radians.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.cosine`](https://openxla.org/stablehlo/spec#cosine); complex: real functions of the parts |
/// | derivative | `cos(x)′ = -sin(x)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cos;

impl Primitive for Cos {
    fn name(&self) -> &'static str {
        "cos"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_inexact_type(arity::<1>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        Ok((vec![cos(x)], vec![tangents[0].map(x.aval(), |dx| mul(dx, neg(&sin(x))))]))
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
            true => lower_wave(ctx, Wave::Cos, &operands[0], &results[0]),
            false => ctx.op("cosine", operands),
        }])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::transcendental(operands, results)
    }
}

/// Cosine of each element of `x`, in radians; integers become floats. See [`Cos`] for its rules.
#[track_caller]
pub fn cos(x: &Array) -> Array {
    bind1(Cos, [&inexact(x)])
}

pub(in crate::primitives) fn exemplars_cos() -> Vec<Exemplar> {
    vec![
        Exemplar::new(Cos, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
        Exemplar::new(Cos, [Sample::uniform(DType::C64, [2], -1.0, 1.0)]),
        Exemplar::new(Cos, [Sample::uniform(DType::F64, [0], -1.0, 1.0)]),
    ]
}

/// Elementwise tangent of an angle in radians.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.tan`](https://openxla.org/stablehlo/spec#tan) |
/// | derivative | `tan(x)′ = 1 + tan(x)²` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tan;

impl Primitive for Tan {
    fn name(&self) -> &'static str {
        "tan"
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        Ok(vec![same_inexact_type(arity::<1>(operands)?)?])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = tan(x);
        let dy = tangents[0].map(y.aval(), |dx| mul(dx, add(mul(&y, &y), 1.0)));
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
        Ok(vec![ctx.op("tan", operands)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::transcendental(operands, results)
    }
}

/// Tangent of each element of `x`, in radians; integers become floats. See [`Tan`] for its rules.
#[track_caller]
pub fn tan(x: &Array) -> Array {
    bind1(Tan, [&inexact(x)])
}

pub(in crate::primitives) fn exemplars_tan() -> Vec<Exemplar> {
    vec![
        Exemplar::new(Tan, [Sample::uniform(DType::F32, [2, 3], -1.2, 1.2)]),
        Exemplar::new(Tan, [Sample::uniform(DType::C64, [2], -1.0, 1.0)]),
        Exemplar::new(Tan, [Sample::uniform(DType::F16, [], -1.0, 1.0)]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    #[test]
    fn a_tangent_is_one_operation() {
        expect![[r#"
            func.func public @main(%0: tensor<3xf32>) -> (tensor<3xf32>) {
            %1 = "stablehlo.tan"(%0) : (tensor<3xf32>) -> tensor<3xf32>
            "func.return"(%1) : (tensor<3xf32>) -> ()
            }
        "#]]
        .assert_eq(&module_of(Tan, [Aval::new(DType::F32, [3])]));
    }

    #[test]
    fn integers_have_no_sine_until_they_are_converted() {
        expect![[r#"
            error[dtype]: sin: needs a float or complex operand, got i8
              operand: i8[]"#]]
        .assert_eq(&error_of(Sin, [Aval::new(DType::I8, [])]));
    }
}
