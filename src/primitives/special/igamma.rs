//! Incomplete gamma functions.

use super::gamma::lgamma;
use super::incomplete::{Quantity, lower_incomplete};
use crate::core::{
    Array, Aval, DType, Exemplar, JvpResult, LowerCtx, Primitive, RuleError, RuleResult, Sample,
    Tangent, bind1,
};
use crate::primitives::arithmetic::{mul, neg, sub};
use crate::primitives::constant::full_like;
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule,
};
use crate::primitives::exponential::{exp, log};
use crate::primitives::promote::{ArrayLike, promote_inexact};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Returns the density of the gamma distribution, `x^(a-1)·exp(-x) / Γ(a)`: the derivative with
/// respect to `x`.
fn density(a: &Array, x: &Array) -> Array {
    let power = mul(sub(a, full_like(a, 1)), log(x));
    exp(sub(sub(power, x), lgamma(a)))
}

/// Elementwise regularized lower incomplete gamma function `P(a, x)`.
///
/// | | |
/// |-|-|
/// | operands   | `a, x: float[…]`, of one shape and dtype |
/// | result     | the same shape and dtype; from 0 at `x = 0` to 1 at `x = ∞`; NaN for negative `a` or `x` |
/// | lowering   | a power series where `x < 1` or `x ≤ a`, a continued fraction elsewhere, each in a [`stablehlo.while`](https://openxla.org/stablehlo/spec#while) |
/// | derivative | `x^(a-1)·exp(-x) / Γ(a)` in `x`, [`IgammaGradA`] in `a` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Igamma;

impl Igamma {
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        lower_incomplete(ctx, Quantity::Lower, operands, results[0].dtype)
    }
}

impl Elementwise for Igamma {
    const NAME: &'static str = "igamma";
    const TYPE: TypeRule<Igamma> = TypeRule::binary(Dtypes::Float);
    const DERIVATIVE: Derivative<Igamma> = Derivative::Binary(
        |_, a, x, _, da| mul(da, igamma_grad_a(a, x)),
        |_, a, x, _, dx| mul(dx, density(a, x)),
    );
    const LOWERING: Lowering<Igamma> = Lowering::Custom(Igamma::lower);
    const COST: CostRule<Igamma> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        samples(Igamma)
    }
}

/// Returns the regularized lower incomplete gamma function `P(a, x)`, with promotion and
/// broadcasting: the probability that a gamma variable of shape `a` is below `x`. Integers become
/// floats. See [`Igamma`] for its rules.
///
/// Reference: DLMF, section 8.2; series 8.7.1, continued fraction 8.9.2; the choice between them is
/// that of Moshier's Cephes library, `igam`.
///
/// ```
/// use oxidax::prelude::*;
/// let p = eval_shape(|x: Array| igamma(2.0, &x), Aval::new(DType::F32, [3]))?;
/// assert_eq!(p.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "gammainc")]
#[track_caller]
pub fn igamma(a: impl ArrayLike, x: impl ArrayLike) -> Array {
    let [a, x] = promote_inexact("igamma", [a.like(), x.like()]);
    bind1(Igamma, [&a, &x])
}

/// Elementwise regularized upper incomplete gamma function `Q(a, x) = 1 - P(a, x)`.
///
/// | | |
/// |-|-|
/// | operands   | `a, x: float[…]`, of one shape and dtype |
/// | result     | the same shape and dtype; accurate where it is small; NaN for negative `a` or `x` |
/// | lowering   | as that of [`Igamma`] |
/// | derivative | `-x^(a-1)·exp(-x) / Γ(a)` in `x`, minus [`IgammaGradA`] in `a` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Igammac;

impl Igammac {
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        lower_incomplete(ctx, Quantity::Upper, operands, results[0].dtype)
    }
}

impl Elementwise for Igammac {
    const NAME: &'static str = "igammac";
    const TYPE: TypeRule<Igammac> = TypeRule::binary(Dtypes::Float);
    const DERIVATIVE: Derivative<Igammac> = Derivative::Binary(
        |_, a, x, _, da| mul(da, neg(igamma_grad_a(a, x))),
        |_, a, x, _, dx| mul(dx, neg(density(a, x))),
    );
    const LOWERING: Lowering<Igammac> = Lowering::Custom(Igammac::lower);
    const COST: CostRule<Igammac> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        samples(Igammac)
    }
}

/// Returns the regularized upper incomplete gamma function `Q(a, x) = 1 - P(a, x)`, accurate where
/// it is small, with promotion and broadcasting. See [`Igammac`] for its rules and [`igamma`] for
/// the references.
#[doc(alias = "gammaincc")]
#[track_caller]
pub fn igammac(a: impl ArrayLike, x: impl ArrayLike) -> Array {
    let [a, x] = promote_inexact("igammac", [a.like(), x.like()]);
    bind1(Igammac, [&a, &x])
}

/// Elementwise derivative of [`igamma`] with respect to its first operand.
///
/// | | |
/// |-|-|
/// | operands   | `a, x: float[…]`, of one shape and dtype |
/// | result     | the same shape and dtype; NaN for `a ≤ 0` and negative `x` |
/// | lowering   | series and fraction of [`Igamma`], differentiated term by term |
/// | derivative | `x^(a-1)·exp(-x) / Γ(a) · (log(x) - digamma(a))` in `x`; none in `a` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IgammaGradA;

impl IgammaGradA {
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (a, x) = (&primals[0], &primals[1]);
        if !tangents[0].is_zero() {
            return Err(RuleError::unsupported("has no second derivative by its first operand"));
        }
        let y = bind1(IgammaGradA, [a, x]);
        let by_x = tangents[1].map(y.aval(), |dx| {
            let factor = sub(log(x), super::gamma::digamma(a));
            mul(dx, mul(density(a, x), factor))
        });
        Ok((vec![y], vec![by_x]))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        lower_incomplete(ctx, Quantity::ByShape, operands, results[0].dtype)
    }
}

impl Elementwise for IgammaGradA {
    const NAME: &'static str = "igamma_grad_a";
    const TYPE: TypeRule<IgammaGradA> = TypeRule::binary(Dtypes::Float);
    const DERIVATIVE: Derivative<IgammaGradA> = Derivative::Custom(IgammaGradA::jvp);
    const LOWERING: Lowering<IgammaGradA> = Lowering::Custom(IgammaGradA::lower);
    const COST: CostRule<IgammaGradA> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        samples(IgammaGradA)
    }
}

/// Returns the derivative of [`igamma`] with respect to `a`, with promotion and broadcasting. See
/// [`IgammaGradA`] for its rules.
#[track_caller]
pub fn igamma_grad_a(a: impl ArrayLike, x: impl ArrayLike) -> Array {
    let [a, x] = promote_inexact("igamma_grad_a", [a.like(), x.like()]);
    bind1(IgammaGradA, [&a, &x])
}

/// Elementwise derivative of a gamma variable `x` with respect to its shape `a`, at a fixed
/// quantile.
///
/// | | |
/// |-|-|
/// | operands   | `a, x: float[…]`, of one shape and dtype |
/// | result     | the same shape and dtype; NaN for `a ≤ 0` and negative `x` |
/// | lowering   | series and fraction of [`Igamma`], differentiated term by term |
/// | derivative | none |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RandomGammaGrad;

impl RandomGammaGrad {
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let _ = (primals, tangents);
        Err(RuleError::unsupported("has no derivative"))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        lower_incomplete(ctx, Quantity::Sample, operands, results[0].dtype)
    }
}

impl Elementwise for RandomGammaGrad {
    const NAME: &'static str = "random_gamma_grad";
    const TYPE: TypeRule<RandomGammaGrad> = TypeRule::binary(Dtypes::Float);
    const DERIVATIVE: Derivative<RandomGammaGrad> = Derivative::Custom(RandomGammaGrad::jvp);
    const LOWERING: Lowering<RandomGammaGrad> = Lowering::Custom(RandomGammaGrad::lower);
    const COST: CostRule<RandomGammaGrad> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        samples(RandomGammaGrad)
    }
}

/// Returns the derivative of a sample `x` of the gamma distribution with respect to its shape `a`,
/// at a fixed quantile: `-∂P/∂a / ∂P/∂x`, with promotion and broadcasting. See [`RandomGammaGrad`]
/// for its rules.
///
/// Reference: Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", 2018.
#[track_caller]
pub fn random_gamma_grad(a: impl ArrayLike, x: impl ArrayLike) -> Array {
    let [a, x] = promote_inexact("random_gamma_grad", [a.like(), x.like()]);
    bind1(RandomGammaGrad, [&a, &x])
}

/// Second derivatives with respect to the shape are not implemented. First derivatives are compared
/// with differences below, and with JAX.
fn samples(primitive: impl Primitive + Clone) -> Vec<Exemplar> {
    let exemplar = |dtype, shape: &[usize], shapes: (f64, f64), points: (f64, f64)| {
        let a = Sample::uniform(dtype, shape, shapes.0, shapes.1);
        let x = Sample::uniform(dtype, shape, points.0, points.1);
        Exemplar::new(primitive.clone(), [a, x]).without_derivative()
    };
    let inf = f64::INFINITY;
    let a = [0.0, 0.0, 1.0, 2.0, -1.0, inf, f64::NAN, 3.0, 2.0, 1e-30];
    let x = [0.0, 2.0, 0.0, inf, 1.0, 2.0, 1.0, -1.0, 1e30, 1e-30];
    let listed = |list: &[f64]| Sample::listed(DType::F32, [10], list);
    vec![
        // The series is used for some elements and the fraction for others.
        exemplar(DType::F32, &[2, 3], (0.5, 6.0), (0.2, 9.0)),
        exemplar(DType::F64, &[3], (0.5, 6.0), (0.2, 9.0)),
        exemplar(DType::BF16, &[], (1.0, 2.0), (1.0, 2.0)),
        exemplar(DType::F16, &[0, 2], (1.0, 2.0), (1.0, 2.0)),
        Exemplar::new(primitive.clone(), [listed(&a), listed(&x)]).without_derivative(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::error_of;
    use expect_test::expect;

    #[test]
    fn rejects_invalid_operands() {
        let avals = [Aval::new(DType::F32, [3]), Aval::new(DType::F32, [2])];
        expect![[r#"
            error[shape]: igamma: operands must have one shape, got [3] and [2]
              lhs: f32[3]
              rhs: f32[2]"#]]
        .assert_eq(&error_of(Igamma, avals));
    }

    mod on_cpu {
        use super::*;
        use crate::prelude::{add, div, grad, reduce_sum};

        fn f64s(elements: &[f64]) -> Array {
            Array::from_slice(elements, [elements.len()]).unwrap()
        }

        fn close(result: &Array, expected: &[f64], tolerance: f64) {
            for (result, expected) in result.to_vec::<f64>().unwrap().iter().zip(expected) {
                let same = result == expected || result.is_nan() && expected.is_nan();
                let near = (result - expected).abs() <= tolerance * expected.abs();
                assert!(same || near, "{result} against {expected}");
            }
        }

        /// For shape 1 the function is `1 - exp(-x)`, for shape 1/2 the error function of `√x`.
        #[test]
        fn known_shapes() {
            let x = [0.01, 0.5, 0.99, 1.0, 1.5, 4.0, 30.0];
            let expected: Vec<f64> = x.iter().map(|x: &f64| -(-x).exp_m1()).collect();
            close(&igamma(1.0, f64s(&x)), &expected, 1e-14);
            let upper: Vec<f64> = x.iter().map(|x: &f64| (-x).exp()).collect();
            close(&igammac(1.0, f64s(&x)), &upper, 1e-14);
            let erf = crate::prelude::erf(crate::prelude::sqrt(f64s(&x)));
            close(&igamma(0.5, f64s(&x)), &erf.to_vec::<f64>().unwrap(), 1e-14);
        }

        #[test]
        fn edges() {
            let inf = f64::INFINITY;
            let a = f64s(&[0.0, 0.0, 0.0, 1.0, 2.0, -1.0, inf, inf, f64::NAN, 3.0]);
            let x = f64s(&[0.0, 2.0, 0.5, 0.0, inf, 1.0, 2.0, inf, 1.0, -1.0]);
            let nan = f64::NAN;
            let lower = [nan, 1.0, 1.0, 0.0, 1.0, nan, 0.0, nan, nan, nan];
            close(&igamma(&a, &x), &lower, 0.0);
            let upper = lower.map(|p| 1.0 - p);
            close(&igammac(&a, &x), &upper, 0.0);
        }

        #[test]
        fn slopes_are_differences() {
            let a = f64s(&[0.5, 2.0, 5.0, 3.0, 0.7]);
            let x = f64s(&[0.3, 4.0, 2.0, 3.0, 9.0]);
            let step = 1e-5;
            let differences = |above: Array, below: Array| {
                div(crate::prelude::sub(above, below), 2.0 * step).to_vec::<f64>().unwrap()
            };
            let by_a = grad(|a: &Array| reduce_sum(&igamma(a, &x), &[0]))(&a);
            let expected = differences(igamma(add(&a, step), &x), igamma(add(&a, -step), &x));
            close(&by_a, &expected, 1e-6);
            let by_x = grad(|x: &Array| reduce_sum(&igammac(&a, x), &[0]))(&x);
            let expected = differences(igammac(&a, add(&x, step)), igammac(&a, add(&x, -step)));
            close(&by_x, &expected, 1e-6);
            let mixed = grad(|x: &Array| reduce_sum(&igamma_grad_a(&a, x), &[0]))(&x);
            let above = igamma_grad_a(&a, add(&x, step));
            let expected = differences(above, igamma_grad_a(&a, add(&x, -step)));
            close(&mixed, &expected, 1e-5);
            let moved = div(neg(igamma_grad_a(&a, &x)), density(&a, &x)).to_vec::<f64>().unwrap();
            close(&random_gamma_grad(&a, &x), &moved, 1e-12);
        }
    }
}
