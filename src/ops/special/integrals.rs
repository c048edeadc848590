//! The sine and cosine integrals and Fresnel's integrals.

use super::exponential::EULER;
use super::faddeeva::fresnel_rest;
use super::operands::{horner, in_wide, real};
use super::series::{exponential_fraction, sum_terms};
use crate::control_flow::custom_jvp;
use crate::core::Array;
use crate::primitives::{
    ArrayLike, abs, add, complex, cos, div, eq, full_like, gt, imag, log, lt, mul, neg, rem, sign,
    sin, sub, where_, zeros_like,
};
use std::f64::consts::{FRAC_PI_2, PI};

/// Returns both integrals for `x` of at least 0.
fn of_size(x: &Array) -> (Array, Array) {
    let (far, infinite) = (gt(x, 2.0), super::super::isinf(x));
    let near = where_(&far, full_like(x, 1), x);
    let square = neg(mul(&near, &near));
    let si_near = sum_terms((near.clone(), near.clone()), |k, term| {
        let twice = mul(k, 2.0);
        let odd = add(&twice, 1.0);
        let term = div(mul(term, &square), mul(&twice, &odd));
        let summand = div(&term, odd);
        (term, summand)
    });
    let ci_near = sum_terms((full_like(x, 1), zeros_like(x)), |k, term| {
        let even = mul(k, 2.0);
        let term = div(mul(term, &square), mul(&even, sub(&even, 1.0)));
        let summand = div(&term, even);
        (term, summand)
    });
    let ci_near = add(add(log(&near), EULER), ci_near);
    // E₁(ix) contains the remainders of both integrals.
    let away = where_(&(&far & !&infinite), x, full_like(x, 4));
    let fraction = exponential_fraction(&full_like(x, 1), &complex(0.0, &away));
    let rest = mul(fraction, complex(cos(&away), neg(sin(&away))));
    let rest = where_(&infinite, zeros_like(&rest), rest);
    let si = where_(&far, add(imag(&rest), FRAC_PI_2), si_near);
    (si, where_(&far, neg(crate::primitives::real(&rest)), ci_near))
}

fn both(x: &Array) -> (Array, Array) {
    let f = |x: &Array| {
        let (si, ci) = of_size(&abs(x));
        let outside = eq(x, f64::NEG_INFINITY);
        (mul(sign(x), si), where_(&outside, full_like(x, f64::NAN), ci))
    };
    let rule = |x: &Array, dx: &Array| {
        let slopes = (super::super::sinc(mul(x, 1.0 / PI)), div(cos(x), x));
        (both(x), (mul(dx, slopes.0), mul(dx, slopes.1)))
    };
    custom_jvp(f, rule)(x)
}

/// Returns the sine integral, of `sin(t)/t` from 0 to `x`, and the cosine integral, `γ + log|x|`
/// plus that of `(cos(t) - 1)/t`.
///
/// Integers become floats. The cosine integral is its real part for negative `x`, `-∞` at 0 and NaN
/// at `-∞`.
///
/// Throws `Op` (dtype) for complex operands.
///
/// ```
/// use oxidax::prelude::*;
/// let (si, ci) = eval_shape(|x: Array| special::sici(&x), Aval::new(DType::F32, [3]))?;
/// assert_eq!([si.dtype(), ci.dtype()], [DType::F32; 2]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// DLMF 6.6.5 and 6.6.6 up to 2. Above, `E₁(ix)` by 6.5.6 and its continued fraction, 6.9.1.
#[track_caller]
pub fn sici(x: impl ArrayLike) -> (Array, Array) {
    let operands = real("sici", [x.like()]);
    let [si, ci] = in_wide(operands, |[x]| both(&x).into());
    (si, ci)
}

/// Returns the sine and cosine of `πx²/2`, accurate for large `|x|`: full periods are subtracted
/// before rounding.
fn of_half_square(x: &Array) -> (Array, Array) {
    // With s = |x| mod 2, x²/2 and s·(|x| - s/2) are congruent modulo 2.
    let size = abs(x);
    let s = rem(&size, 2.0);
    let turns = rem(mul(&s, sub(&size, mul(&s, 0.5))), 2.0);
    // The nearest quarter period is subtracted too, so that both functions are accurate near zeros.
    let quarter = crate::primitives::round(mul(&turns, 2.0));
    let angle = mul(sub(&turns, mul(&quarter, 0.5)), PI);
    let (sine, cosine) = (sin(&angle), cos(&angle));
    let swapped = eq(rem(&quarter, 2.0), 1.0);
    let (a, b) = (where_(&swapped, &cosine, &sine), where_(&swapped, &sine, &cosine));
    let minus_a = eq(&quarter, 2.0) | eq(&quarter, 3.0);
    let minus_b = eq(&quarter, 1.0) | eq(&quarter, 2.0);
    (where_(&minus_a, neg(&a), &a), where_(&minus_b, neg(&b), &b))
}

/// Returns `Σ (-1)ᵏ (π/2)^(2k+odd) t^k / ((2k+odd)!·(4k+2·odd+1))` for `t`, the fourth power of
/// `x`.
fn power_series(fourth: &Array, odd: usize) -> Array {
    let mut coefficients = Vec::new();
    let mut factor = FRAC_PI_2.powi(odd as i32);
    for k in 0..12 {
        coefficients.push(factor / (4 * k + 2 * odd + 1) as f64);
        let next = (2 * k + odd + 1) as f64;
        factor *= -FRAC_PI_2 * FRAC_PI_2 / (next * (next + 1.0));
    }
    coefficients.reverse();
    horner(fourth, &coefficients)
}

fn fresnel_of(x: &Array) -> (Array, Array) {
    let f = |x: &Array| {
        let size = abs(x);
        let (near, infinite) = (lt(&size, 1.0), super::super::isinf(x));
        let small = where_(&near, &size, zeros_like(x));
        let square = mul(&small, &small);
        let fourth = mul(&square, &square);
        let s_near = mul(mul(&small, &square), power_series(&fourth, 1));
        let c_near = mul(&small, power_series(&fourth, 0));
        let away = where_(&(&near | &infinite), full_like(x, 1), &size);
        let (sine, cosine) = of_half_square(&away);
        let rest = fresnel_rest(&away, &cosine, &sine);
        let rest = where_(&infinite, zeros_like(&rest), rest);
        let s = where_(&near, s_near, sub(0.5, imag(&rest)));
        let c = where_(&near, c_near, sub(0.5, crate::primitives::real(&rest)));
        (mul(sign(x), s), mul(sign(x), c))
    };
    let rule = |x: &Array, dx: &Array| {
        let (sine, cosine) = of_half_square(x);
        (fresnel_of(x), (mul(dx, sine), mul(dx, cosine)))
    };
    custom_jvp(f, rule)(x)
}

/// Returns Fresnel's integrals `S` and `C`, of the sine and the cosine of `πt²/2` from 0 to `x`.
/// Integers become floats.
///
/// Throws `Op` (dtype) for complex operands.
///
/// ```
/// use oxidax::prelude::*;
/// let (s, c) = eval_shape(|x: Array| special::fresnel(&x), Aval::new(DType::F32, [3]))?;
/// assert_eq!([s.dtype(), c.dtype()], [DType::F32; 2]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// DLMF 7.6.4 and 7.6.6 up to 1, 7.5.8 above.
#[track_caller]
pub fn fresnel(x: impl ArrayLike) -> (Array, Array) {
    let operands = real("fresnel", [x.like()]);
    let [s, c] = in_wide(operands, |[x]| fresnel_of(&x).into());
    (s, c)
}
