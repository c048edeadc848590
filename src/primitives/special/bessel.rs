//! Scaled modified Bessel functions of the first kind.

use super::lower_chlo;
use crate::core::{Array, Aval, DType, Exemplar, LowerCtx, Primitive, RuleResult, Sample, bind1};
use crate::primitives::ArrayLike;
use crate::primitives::arithmetic::{abs, add, div, mul, sign, sqrt, sub};
use crate::primitives::comparison::{gt, le};
use crate::primitives::composite::lower_as_function;
use crate::primitives::constant::full_like;
use crate::primitives::convert::convert_element_type;
use crate::primitives::elementwise::{
    CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule,
};
use crate::primitives::promote::inexact;
use crate::primitives::select::select;
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Chebyshev coefficients of `exp(-x)·I₀(x)` on `0..=8`, in `x/4 - 1`. The coefficients of this
/// file are computed from the definition by a discrete cosine transform with 50 digits.
const NEAR: [f64; 30] = [
    0.6767952744094761,
    -0.3046826723431984,
    0.17162090152220877,
    -0.09490109704804764,
    0.04930528423967071,
    -0.02373741480589947,
    0.010546460394594998,
    -0.004324309995050576,
    0.0016394756169413357,
    -0.0005763755745385824,
    0.00018850288509584165,
    -5.754195010082104e-5,
    1.6448448070728896e-5,
    -4.4167383584587505e-6,
    1.1173875391201037e-6,
    -2.670793853940612e-7,
    6.046995022541919e-8,
    -1.300025009986248e-8,
    2.6598237246823866e-9,
    -5.189795601635263e-10,
    9.675809035373237e-11,
    -1.726826291441556e-11,
    2.95505266312964e-12,
    -4.856446783111929e-13,
    7.676185498604936e-14,
    -1.1685332877993451e-14,
    1.715391285555133e-15,
    -2.431279846547955e-16,
    3.3307945188222384e-17,
    -4.4153416464793395e-18,
];

/// Chebyshev coefficients of `√x·exp(-x)·I₀(x)` from 8 on, in `16/x - 1`.
const FAR: [f64; 25] = [
    0.8044904110141088,
    0.0033691164782556943,
    6.889758346916825e-5,
    2.8913705208347567e-6,
    2.0489185894690638e-7,
    2.266668990498178e-8,
    3.3962320257083865e-9,
    4.94060238822497e-10,
    1.1889147107846439e-11,
    -3.1499165279632416e-11,
    -1.3215811840447713e-11,
    -1.7941785315068062e-12,
    7.180124451383666e-13,
    3.8527783827421426e-13,
    1.54008621752141e-14,
    -4.150569347287222e-14,
    -9.554846698828307e-15,
    3.8116806693526224e-15,
    1.7725601330565263e-15,
    -3.425485619677219e-16,
    -2.8276239805165836e-16,
    3.461222867697461e-17,
    4.46562142029676e-17,
    -4.830504485944182e-18,
    -7.233180487874754e-18,
];

/// Evaluates a Chebyshev series at `t` by Clenshaw's recurrence. Coefficients below the precision
/// of the dtype are skipped.
///
/// Reference: Clenshaw, "A note on the summation of Chebyshev series", 1955.
fn chebyshev(t: &Array, coefficients: &[f64]) -> Array {
    let smallest = t.dtype().epsilon() / 16.0;
    let last = coefficients.iter().rposition(|c| c.abs() > smallest).unwrap_or(0);
    let twice = mul(t, full_like(t, 2.0));
    let (mut next, mut after) = (full_like(t, 0.0), full_like(t, 0.0));
    for &c in coefficients[1..=last].iter().rev() {
        let this = add(sub(mul(&twice, &next), &after), full_like(t, c));
        (next, after) = (this, next);
    }
    add(sub(mul(t, &next), &after), full_like(t, coefficients[0] / 2.0))
}

/// Returns `exp(-|x|)·I₀(x)`.
fn scaled_i0(x: &Array) -> Array {
    let x = abs(x);
    let eight = full_like(&x, 8.0);
    let near = chebyshev(&sub(div(&x, full_like(&x, 4.0)), full_like(&x, 1.0)), &NEAR);
    let far = chebyshev(&sub(div(full_like(&x, 16.0), &x), full_like(&x, 1.0)), &FAR);
    select(&le(&x, eight), &near, &div(far, sqrt(&x)))
}

/// Elementwise `exp(-|x|)·I₀(x)`, the modified Bessel function of order 0, scaled.
///
/// | | |
/// |-|-|
/// | operand    | `x: float[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | two Chebyshev series, for `|x| ≤ 8` and beyond |
/// | derivative | `bessel_i1e(x) - sign(x)·bessel_i0e(x)` |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BesselI0e;

impl BesselI0e {
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let dtype = results[0].dtype;
        let wide = if dtype.bits() < 32 { DType::F32 } else { dtype };
        lower_as_function(ctx, "bessel_i0e", operands, |operands| {
            let y = scaled_i0(&convert_element_type(&operands[0], wide));
            vec![convert_element_type(&y, dtype)]
        })
    }
}

impl Elementwise for BesselI0e {
    const NAME: &'static str = "bessel_i0e";
    const TYPE: TypeRule<BesselI0e> = TypeRule::unary(Dtypes::Float);
    const DERIVATIVE: Derivative<BesselI0e> =
        Derivative::Unary(|_, x, y, dx| mul(dx, sub(bessel_i1e(x), mul(sign(x), y))));
    const LOWERING: Lowering<BesselI0e> = Lowering::Custom(BesselI0e::lower);
    const COST: CostRule<BesselI0e> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        samples(BesselI0e)
    }
}

/// Returns `exp(-|x|)·I₀(x)` for each element of `x`, with the modified Bessel function `I₀` of the
/// first kind of order 0. Integers become floats. See [`BesselI0e`] for its rules.
///
/// Reference: DLMF, section 10.25; the two ranges are those of Moshier's Cephes library, `i0e`.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| bessel_i0e(&x), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "i0e")]
#[track_caller]
pub fn bessel_i0e(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(BesselI0e, [&inexact(x)])
}

/// Elementwise `exp(-|x|)·I₁(x)`, the modified Bessel function of order 1, scaled.
///
/// | | |
/// |-|-|
/// | operand    | `x: float[…]` |
/// | result     | same shape and dtype as `x` |
/// | lowering   | [`chlo.bessel_i1e`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | `bessel_i0e(x) - bessel_i1e(x)·(sign(x) + 1/x)`, which is 1/2 at 0 |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BesselI1e;

impl BesselI1e {
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        lower_chlo(ctx, "chlo.bessel_i1e", operands, &results[0])
    }
}

impl Elementwise for BesselI1e {
    const NAME: &'static str = "bessel_i1e";
    const TYPE: TypeRule<BesselI1e> = TypeRule::unary(Dtypes::Float);
    const DERIVATIVE: Derivative<BesselI1e> =
        Derivative::Unary(|_, x, y, dx| mul(dx, slope_of_i1e(x, y)));
    const LOWERING: Lowering<BesselI1e> = Lowering::Custom(BesselI1e::lower);
    const COST: CostRule<BesselI1e> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        samples(BesselI1e)
    }
}

/// Returns `exp(-|x|)·I₁(x)` for each element of `x`, with the modified Bessel function `I₁` of the
/// first kind of order 1. Integers become floats. See [`BesselI1e`] for its rules.
///
/// Reference: DLMF, sections 10.25 and 10.29 for the derivative.
#[doc(alias = "i1e")]
#[track_caller]
pub fn bessel_i1e(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    bind1(BesselI1e, [&inexact(x)])
}

/// Returns the derivative of [`bessel_i1e`], without the quotient near 0.
fn slope_of_i1e(x: &Array, y: &Array) -> Array {
    let tiny = full_like(x, x.dtype().epsilon());
    let usual = gt(abs(x), &tiny);
    let x = select(&usual, x, &tiny);
    let reciprocal = div(full_like(&x, 1.0), &x);
    let slope = sub(bessel_i0e(&x), mul(y, add(sign(&x), reciprocal)));
    select(&usual, &slope, &full_like(&x, 0.5))
}

fn samples(primitive: impl Primitive + Clone) -> Vec<Exemplar> {
    let exemplar = |x: Sample| Exemplar::new(primitive.clone(), [x]);
    let edges = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 8.0, -1e30, 1e-30];
    vec![
        exemplar(Sample::uniform(DType::F32, [2, 3], 0.5, 7.0)),
        exemplar(Sample::uniform(DType::F64, [3], -30.0, -9.0)),
        exemplar(Sample::uniform(DType::BF16, [], -4.0, 4.0)),
        exemplar(Sample::uniform(DType::F16, [0, 2], -4.0, 4.0)),
        exemplar(Sample::uniform(DType::F8E5M2, [2, 1], 1.0, 4.0)),
        // The second derivative is discontinuous at 0, and infinities have no finite differences.
        exemplar(Sample::listed(DType::F32, [8], &edges)).without_derivative(),
        exemplar(Sample::listed(DType::F64, [8], &edges)).without_derivative(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::error_of;
    use expect_test::expect;

    #[test]
    fn rejects_invalid_operands() {
        expect![[r#"
            error[dtype]: bessel_i0e: needs a float operand, got i32
              operand: i32[3]"#]]
        .assert_eq(&error_of(BesselI0e, [Aval::new(DType::I32, [3])]));
    }

    mod on_cpu {
        use super::*;

        /// Compares with the power series, DLMF 10.25.2, and across the boundary of the two ranges.
        #[test]
        fn series_match_the_definition() {
            let points = [0.0f64, 0.3, 2.0, 7.9, 8.0, 8.1, 20.0, 40.0];
            let found = bessel_i0e(Array::from_slice(&points, [8]).unwrap());
            for (x, y) in points.iter().zip(found.to_vec::<f64>().unwrap()) {
                let (mut term, mut sum) = (1.0, 1.0);
                for k in 1..200 {
                    term *= (x / 2.0 / f64::from(k)).powi(2);
                    sum += term;
                }
                let expected = (-x).exp() * sum;
                assert!((y - expected).abs() <= 2e-15 * expected, "{x}: {y} against {expected}");
            }
        }
    }
}
