//! Inverse trigonometric functions. Results are angles in radians.

use crate::core::{
    Array, Aval, DType, Exemplar, JvpResult, LowerCtx, RuleResult, Sample, Tangent, bind1,
};
use crate::primitives::arithmetic::{abs, add, div, minimum, mul, neg, rsqrt, sub};
use crate::primitives::composite::lower_by;
use crate::primitives::constant::full_like;
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule,
};
use crate::primitives::promote::{ArrayLike, inexact, promote_inexact};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// The ends of the domain and values outside, where derivatives are infinite or NaN.
const ENDS: [f64; 5] = [-1.0, 1.0, -0.0, 2.0, f64::NAN];

/// Returns `(1 - x) (1 + x)`: `1 - x²` without the digits that squaring loses where `x` approaches
/// ±1.
fn one_minus_square(x: &Array) -> Array {
    mul(sub(1.0, x), add(x, 1.0))
}

/// Elementwise inverse sine.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`chlo.asin`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | `asin(x)′ = 1 / √(1 - x²)`, infinite at ±1 |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Asin;

impl Elementwise for Asin {
    const NAME: &'static str = "asin";
    const TYPE: TypeRule<Asin> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Asin> =
        Derivative::Unary(|_, x, _, dx| mul(dx, rsqrt(one_minus_square(x))));
    const LOWERING: Lowering<Asin> = Lowering::Op("chlo.asin");
    const COST: CostRule<Asin> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Asin, [Sample::uniform(DType::F32, [2, 3], -0.9, 0.9)]),
            Exemplar::new(Asin, [Sample::uniform(DType::C64, [2], -0.7, 0.7)]),
            Exemplar::new(Asin, [Sample::listed(DType::F32, [5], &ENDS)]).without_derivative(),
        ]
    }
}

/// Returns the inverse sine of each element of `x`, from -π/2 to π/2 radians, NaN outside -1 to 1.
/// Integers become floats. See [`Asin`] for its rules.
#[doc(alias = "arcsin")]
#[track_caller]
pub fn asin(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Asin, [&inexact(x)])
}

/// Elementwise inverse cosine.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`chlo.acos`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | `acos(x)′ = -1 / √(1 - x²)`, infinite at ±1 |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Acos;

impl Elementwise for Acos {
    const NAME: &'static str = "acos";
    const TYPE: TypeRule<Acos> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Acos> =
        Derivative::Unary(|_, x, _, dx| mul(dx, neg(rsqrt(one_minus_square(x)))));
    const LOWERING: Lowering<Acos> = Lowering::Op("chlo.acos");
    const COST: CostRule<Acos> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Acos, [Sample::uniform(DType::F32, [2, 3], -0.9, 0.9)]),
            Exemplar::new(Acos, [Sample::uniform(DType::C64, [2], -0.7, 0.7)]),
            Exemplar::new(Acos, [Sample::listed(DType::F32, [5], &ENDS)]).without_derivative(),
        ]
    }
}

/// Returns the inverse cosine of each element of `x`, from 0 to π radians, NaN outside -1 to 1.
/// Integers become floats. See [`Acos`] for its rules.
#[doc(alias = "arccos")]
#[track_caller]
pub fn acos(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Acos, [&inexact(x)])
}

/// Elementwise inverse tangent.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`stablehlo.atan2`](https://openxla.org/stablehlo/spec#atan2) with 1; complex: [`chlo.atan`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | `atan(x)′ = 1 / (1 + x²)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Atan;

impl Atan {
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        if results[0].dtype.is_complex() {
            return Ok(vec![ctx.op("chlo.atan", operands)]);
        }
        lower_by(ctx, operands, |x| vec![atan2(&x[0], full_like(&x[0], 1))])
    }
}

impl Elementwise for Atan {
    const NAME: &'static str = "atan";
    const TYPE: TypeRule<Atan> = TypeRule::unary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Atan> =
        Derivative::Unary(|_, x, _, dx| div(dx, add(mul(x, x), 1.0)));
    const LOWERING: Lowering<Atan> = Lowering::Custom(Atan::lower);
    const COST: CostRule<Atan> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(Atan, [Sample::uniform(DType::F32, [2, 3], -3.0, 3.0)]),
            Exemplar::new(Atan, [Sample::uniform(DType::C64, [2], -0.7, 0.7)]),
            Exemplar::new(
                Atan,
                [Sample::listed(DType::F32, [3], &[f64::INFINITY, f64::NEG_INFINITY, -0.0])],
            )
            // Infinity has no finite differences.
            .without_derivative(),
        ]
    }
}

/// Returns the inverse tangent of each element of `x`, from -π/2 to π/2 radians. Integers become
/// floats. See [`Atan`] for its rules.
/// [`Atan`] for its rules.
#[doc(alias = "arctan")]
#[track_caller]
pub fn atan(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(Atan, [&inexact(x)])
}

/// Elementwise angle of the point with ordinate `y` and abscissa `x`.
///
/// | | |
/// |-|-|
/// | operands   | `y, x: {float, complex}[…]`, of one shape and dtype |
/// | result     | the same shape and dtype: radians from -π to π, in the quadrant of the point |
/// | lowering   | [`stablehlo.atan2`](https://openxla.org/stablehlo/spec#atan2) |
/// | derivative | `(x·dy - y·dx) / (x² + y²)`, NaN at the origin |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Atan2;

impl Atan2 {
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (y, x) = (&primals[0], &primals[1]);
        let z = atan2(y, x);
        let squares = add(mul(x, x), mul(y, y));
        let left = tangents[0].map(z.aval(), |dy| mul(dy, div(x, &squares)));
        let right = tangents[1].map(z.aval(), |dx| mul(dx, neg(div(y, &squares))));
        Ok((vec![z], vec![left.add(&right)]))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        if ctx.platform() != "cpu" || results[0].dtype.is_complex() {
            return Ok(vec![ctx.op("atan2", operands)]);
        }
        // XLA's CPU compiler (C API 0.115) replaces the angle of (y, 1) by its own arc tangent,
        // which is wrong in arrays of 64 elements and more. So each abscissa is multiplied by a 1
        // that is computed at run time.
        let abscissa = lower_by(ctx, operands, |operands| {
            let one = minimum(add(abs(&operands[0]), 2), 1);
            vec![mul(&operands[1], one)]
        })?;
        Ok(vec![ctx.op("atan2", &[operands[0].clone(), abscissa[0].clone()])])
    }
}

impl Elementwise for Atan2 {
    const NAME: &'static str = "atan2";
    const TYPE: TypeRule<Atan2> = TypeRule::binary(Dtypes::Inexact);
    const DERIVATIVE: Derivative<Atan2> = Derivative::Custom(Atan2::jvp);
    const LOWERING: Lowering<Atan2> = Lowering::Custom(Atan2::lower);
    const COST: CostRule<Atan2> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        vec![
            Exemplar::new(
                Atan2,
                [
                    Sample::uniform(DType::F32, [2, 3], -2.0, 2.0),
                    Sample::uniform(DType::F32, [2, 3], 0.5, 2.0),
                ],
            ),
            Exemplar::new(
                Atan2,
                [
                    Sample::listed(DType::F32, [4], &[0.0, -0.0, 0.0, -0.0]),
                    Sample::listed(DType::F32, [4], &[0.0, 0.0, -0.0, -0.0]),
                ],
            )
            // The angle is discontinuous at the origin.
            .without_derivative(),
        ]
    }
}

/// Returns the angle in radians of the point with ordinate `y` and abscissa `x`, from -π to π, with
/// promotion and broadcasting. Integers become floats. See [`Atan2`] for its rules.
#[doc(alias = "arctan2")]
#[track_caller]
pub fn atan2(y: impl ArrayLike, x: impl ArrayLike) -> Array {
    let [y, x] = promote_inexact("atan2", [y.like(), x.like()]);
    bind1(Atan2, [&y, &x])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    #[test]
    fn inverse_functions_lower_to_chlo() {
        expect![[r#"
            func.func public @main(%0: tensor<3xf32>) -> (tensor<3xf32>) {
            %1 = "chlo.asin"(%0) : (tensor<3xf32>) -> tensor<3xf32>
            "func.return"(%1) : (tensor<3xf32>) -> ()
            }
        "#]]
        .assert_eq(&module_of(Asin, [Aval::new(DType::F32, [3])]));
    }

    #[test]
    fn a_point_has_two_coordinates_of_one_type() {
        let (f32, f64) = (Aval::new(DType::F32, [3]), Aval::new(DType::F64, [3]));
        expect![[r#"
            error[dtype]: atan2: operands must have one dtype, got f32 and f64
              lhs: f32[3]
              rhs: f64[3]"#]]
        .assert_eq(&error_of(Atan2, [f32.clone(), f64]));
        expect![[r#"
            error[value]: atan2: takes 2 operands, got 1
              operand: f32[3]"#]]
        .assert_eq(&error_of(Atan2, [f32]));
    }

    mod on_cpu {
        use super::*;

        /// The plugin's arc tangent is wrong from 64 elements on.
        #[test]
        fn arc_tangents_of_a_long_array() {
            let x: Vec<f64> = (-500..500).map(|i| f64::from(i) * 0.037).collect();
            let array = Array::from_slice(&x, [1000]).unwrap();
            let by_angle = crate::jit::jit(|y: Array| atan2(&y, 1.0)).call(&array).unwrap();
            for (y, bound) in [
                (atan(&array), 1e-15),
                (by_angle, 1e-15),
                (atan2(array.astype(DType::F32), 1.0).astype(DType::F64), 3e-7),
            ] {
                let result = x.iter().zip(y.to_vec::<f64>().unwrap());
                let worst = result.map(|(x, y)| (x.atan() - y).abs()).fold(0.0, f64::max);
                assert!(worst < bound, "off by {worst}");
            }
        }
    }
}
