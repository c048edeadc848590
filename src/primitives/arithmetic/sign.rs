//! Absolute value, sign, finiteness and neighbouring floats.

use super::basic::{div, mul, neg};
use crate::core::{
    Array, Aval, DType, Exemplar, JvpResult, LowerCtx, RuleResult, Sample, Tangent, bind1,
};
use crate::ensure_dtype;
use crate::primitives::comparison::{eq, ge};
use crate::primitives::complex::{complex, conj, real};
use crate::primitives::constant::ones_like;
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule,
};
use crate::primitives::promote::{ArrayLike, promote_inexact};
use crate::primitives::rules::{arity, same_float_type, same_numeric_type};
use crate::primitives::select::select;
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Elementwise absolute value.
///
/// | | |
/// |-|-|
/// | operand    | `x: {signed int, float, complex}[…]` |
/// | result     | the shape of `x`, its dtype or, complex, that of its parts; the lowest integer is its own |
/// | lowering   | [`stablehlo.abs`](https://openxla.org/stablehlo/spec#abs) |
/// | derivative | `sign(x)`, 1 at 0; complex: `re(dx · x̄ / abs(x))`, 0 at 0 |
///
/// At 0, where the derivative does not exist, the derivative from the right is used, as in JAX.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Abs;

impl Abs {
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let x = same_numeric_type(arity::<1>(operands)?)?;
        ensure_dtype!(
            !x.dtype.is_unsigned(),
            "needs a signed integer, float or complex operand, got {}",
            x.dtype
        );
        Ok(vec![Aval { dtype: x.dtype.real(), ..x }])
    }
}

impl Elementwise for Abs {
    const NAME: &'static str = "abs";
    const TYPE: TypeRule<Abs> = TypeRule::Custom(Abs::abstract_eval);
    const DERIVATIVE: Derivative<Abs> = Derivative::Unary(|_, x, y, dx| {
        if x.dtype().is_complex() {
            let length = select(&eq(y, 0.0), &ones_like(y), y);
            real(mul(dx, div(conj(x), complex(&length, 0.0))))
        } else {
            select(&ge(x, 0.0), dx, &neg(dx))
        }
    });
    const LOWERING: Lowering<Abs> = Lowering::Op("abs");
    const COST: CostRule<Abs> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            // Away from 0, where the function is not differentiable.
            Exemplar::new(Abs, [Sample::uniform(DType::F32, [2, 3], 0.5, 3.0)]),
            Exemplar::new(Abs, [Sample::uniform(DType::F64, [2], -3.0, -0.5)]),
            Exemplar::new(Abs, [Sample::listed(DType::I8, [3], &[-128.0, 0.0, 127.0])]),
            Exemplar::new(Abs, [Sample::uniform(DType::C64, [2], 0.5, 1.0)]),
            // At 0, where the function is not differentiable.
            Exemplar::new(Abs, [Sample::listed(DType::F32, [2], &[-0.0, 0.0])])
                .without_derivative(),
        ]
    }
}

/// Returns the absolute value of each element of `x`, which is real for complex `x`. Unsigned
/// integers and booleans are returned unchanged. See [`Abs`] for its rules.
#[doc(alias = "absolute")]
#[track_caller]
pub fn abs(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    if x.dtype().is_unsigned() || x.dtype().is_bool() { x.clone() } else { bind1(Abs, [x]) }
}

/// Elementwise sign: -1, 0 or 1.
///
/// | | |
/// |-|-|
/// | operand    | `x: {int, float, complex}[…]` |
/// | result     | same shape and dtype as `x`; zeros keep their sign, NaN stays; complex: `x / abs(x)` |
/// | lowering   | [`stablehlo.sign`](https://openxla.org/stablehlo/spec#sign); unsigned integers: the minimum of `x` and 1 |
/// | derivative | zero, over the complex numbers too |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sign;

impl Sign {
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let x = &operands[0];
        if results[0].dtype.is_unsigned() {
            let one = ctx.constant("1", &x.ty().clone());
            return Ok(vec![ctx.op("minimum", &[x.clone(), one])]);
        }
        Ok(vec![ctx.op("sign", operands)])
    }
}

impl Elementwise for Sign {
    const NAME: &'static str = "sign";
    const TYPE: TypeRule<Sign> = TypeRule::unary(Dtypes::Numeric);
    const DERIVATIVE: Derivative<Sign> = Derivative::Zero;
    const LOWERING: Lowering<Sign> = Lowering::Custom(Sign::lower);
    const COST: CostRule<Sign> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Sign, [Sample::uniform(DType::F32, [2, 3], 0.5, 3.0)]),
            Exemplar::new(
                Sign,
                [Sample::listed(DType::F32, [3], &[-0.0, f64::NAN, f64::NEG_INFINITY])],
            )
            // A discontinuity, NaN and infinity.
            .without_derivative(),
            Exemplar::new(Sign, [Sample::listed(DType::U8, [3], &[0.0, 1.0, 255.0])]),
            Exemplar::new(Sign, [Sample::listed(DType::I32, [], &[-7.0])]),
            Exemplar::new(Sign, [Sample::uniform(DType::C64, [2], 0.5, 1.0)])
                // The sign of a complex number does change; as in JAX the rule is zero.
                .without_derivative(),
        ]
    }
}

/// Returns the sign of each element of `x`: -1, 0 or 1. For a complex element it is `x / abs(x)`.
/// See [`Sign`] for its rules.
#[track_caller]
pub fn sign(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Sign, [x])
}

/// Elementwise test for being neither infinite nor NaN.
///
/// | | |
/// |-|-|
/// | operand    | `x: float[…]` |
/// | result     | `bool` of the shape of `x` |
/// | lowering   | [`stablehlo.is_finite`](https://openxla.org/stablehlo/spec#is_finite) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IsFinite;

impl IsFinite {
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let x = same_float_type(arity::<1>(operands)?)?;
        Ok(vec![x.with_dtype(DType::Bool)])
    }
}

impl Elementwise for IsFinite {
    const NAME: &'static str = "is_finite";
    const TYPE: TypeRule<IsFinite> = TypeRule::Custom(IsFinite::abstract_eval);
    const DERIVATIVE: Derivative<IsFinite> = Derivative::Zero;
    const LOWERING: Lowering<IsFinite> = Lowering::Op("is_finite");
    const COST: CostRule<IsFinite> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(
                IsFinite,
                [Sample::listed(
                    DType::F32,
                    [4],
                    &[1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY],
                )],
            )
            // Infinity and NaN have no derivative.
            .without_derivative(),
            Exemplar::new(IsFinite, [Sample::uniform(DType::BF16, [2, 0], 0.0, 1.0)]),
        ]
    }
}

/// Returns true where an element of the float array `x` is neither infinite nor NaN. See
/// [`IsFinite`] for its rules.
#[doc(alias = "isfinite")]
#[track_caller]
pub fn is_finite(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(IsFinite, [x])
}

/// The floating-point number next to `x` in the direction of `y`.
///
/// | | |
/// |-|-|
/// | operands   | `x, y: float[…]`, of one shape and dtype |
/// | result     | the same shape and dtype; `y` where the two are equal, NaN where either is |
/// | lowering   | [`chlo.next_after`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | that of `x`: the step does not change between powers of two |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Nextafter;

impl Nextafter {
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let z = bind1(Nextafter, [&primals[0], &primals[1]]);
        let dz = tangents[0].map(z.aval(), Array::clone);
        Ok((vec![z], vec![dz]))
    }
}

impl Elementwise for Nextafter {
    const NAME: &'static str = "nextafter";
    const TYPE: TypeRule<Nextafter> = TypeRule::binary(Dtypes::Float);
    const DERIVATIVE: Derivative<Nextafter> = Derivative::Custom(Nextafter::jvp);
    const LOWERING: Lowering<Nextafter> = Lowering::Op("chlo.next_after");
    const COST: CostRule<Nextafter> = CostRule::Arithmetic;
    fn exemplars() -> Vec<Exemplar> {
        let pair = |dtype: DType, x: &[f64], y: &[f64]| {
            let operands = [x, y].map(|elements| Sample::listed(dtype, [elements.len()], elements));
            Exemplar::new(Nextafter, operands)
        };
        vec![
            pair(DType::F64, &[1.25, -0.75], &[2.0, -3.0]),
            pair(DType::F16, &[], &[]),
            // Equal operands, zeros and NaN have no derivative.
            pair(DType::F32, &[1.0, 0.0, -0.0, 2.5, f64::NAN], &[2.0, -1.0, 0.0, 2.5, 1.0])
                .without_derivative(),
        ]
    }
}

/// Returns the float next to each element of `x` in the direction of `y`, with promotion and
/// broadcasting. Integers become floats. See [`Nextafter`] for its rules.
#[doc(alias = "next_after")]
#[track_caller]
pub fn nextafter(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_inexact("nextafter", [x.like(), y.like()]);
    bind1(Nextafter, [&x, &y])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    #[test]
    fn a_complex_magnitude_is_real() {
        expect![[r#"
            func.func public @main(%0: tensor<2xcomplex<f32>>) -> (tensor<2xf32>) {
            %1 = "stablehlo.abs"(%0) : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
            "func.return"(%1) : (tensor<2xf32>) -> ()
            }
        "#]]
        .assert_eq(&module_of(Abs, [Aval::new(DType::C64, [2])]));
    }

    #[test]
    fn an_unsigned_sign_is_a_minimum() {
        expect![[r#"
            func.func public @main(%0: tensor<2xui8>) -> (tensor<2xui8>) {
            %1 = "stablehlo.constant"() <{value = dense<1> : tensor<2xui8>}> : () -> tensor<2xui8>
            %2 = "stablehlo.minimum"(%0, %1) : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xui8>
            "func.return"(%2) : (tensor<2xui8>) -> ()
            }
        "#]]
        .assert_eq(&module_of(Sign, [Aval::new(DType::U8, [2])]));
    }

    #[test]
    fn abs_rejects_unsigned_integers() {
        expect![[r#"
            error[dtype]: abs: needs a signed integer, float or complex operand, got u8
              operand: u8[2]"#]]
        .assert_eq(&error_of(Abs, [Aval::new(DType::U8, [2])]));
    }
}
