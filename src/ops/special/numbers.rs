//! Bernoulli numbers, and the dilogarithm, whose series contains them.

use super::operands::{horner, in_wide, listed, real};
use crate::control_flow::custom_jvp;
use crate::core::{Array, DType, Loc};
use crate::primitives::{
    ArrayLike, div, eq, full_like, gt, log, log1p, lt, mul, neg, sub, where_, zeros_like,
};
use std::f64::consts::PI;

/// Returns `B₂ₖ/(2k)!` for `k` from 1 to `n`.
///
/// Reference: DLMF 25.6.2, with 25.6.16 for the zeta function: no term of its recurrence is
/// negative.
fn scaled_numbers(n: usize) -> Vec<f64> {
    // ζ(2k)/π²ᵏ, which does not depend on a rounded π.
    let mut zeta: Vec<f64> = vec![1.0 / 6.0];
    for k in 2..=n {
        let sum: f64 = (1..k).map(|i| zeta[i - 1] * zeta[k - i - 1]).sum();
        zeta.push(sum / (k as f64 + 0.5));
    }
    let sign = |k: usize| if k.is_multiple_of(2) { 1.0 } else { -1.0 };
    let number = |(k, zeta): (usize, &f64)| sign(k) * 2.0 * zeta / 4f64.powi(k as i32 + 1);
    zeta.iter().take(n).enumerate().map(number).collect()
}

/// Returns the Bernoulli numbers `B₀` to `Bₙ`, with `B₁ = -1/2`: `[n + 1]`.
///
/// `dtype` is `f32`, `f64`, `f16` or `bf16`. Numbers beyond its range are infinite.
///
/// ```
/// use oxidax::prelude::*;
/// let numbers = eval_shape(|| special::bernoulli(10, DType::F64), ())?;
/// assert_eq!(numbers.aval().to_string(), "f64[11]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// DLMF, section 24.2.
#[track_caller]
pub fn bernoulli(n: usize, dtype: DType) -> Array {
    let mut numbers = vec![0.0f64; n + 1];
    numbers[0] = 1.0;
    if n > 0 {
        numbers[1] = -0.5;
    }
    let mut factorial = 1.0;
    for (k, scaled) in scaled_numbers(n / 2).into_iter().enumerate() {
        let even = 2.0 * k as f64 + 2.0;
        factorial *= even * (even - 1.0);
        numbers[2 * k + 2] = scaled * factorial;
    }
    Loc::caller().scope(|| listed(&numbers, dtype))
}

/// Returns the dilogarithm of `1 - x` for `u = -log x`, with `|u|` of at most `log 2`.
fn of_logarithm(u: &Array) -> Array {
    let scaled = scaled_numbers(10);
    let mut coefficients: Vec<f64> =
        scaled.iter().enumerate().map(|(k, b)| b / (2 * k + 3) as f64).rev().collect();
    coefficients.push(1.0);
    let square = mul(u, u);
    sub(mul(horner(&square, &coefficients), u), mul(&square, 0.25))
}

fn dilogarithm(x: &Array) -> Array {
    let f = |x: &Array| {
        let (one, zero) = (full_like(x, 1), zeros_like(x));
        let (high, negative) = (gt(x, 2.0), lt(x, 0.0));
        // One reflection maps large numbers to their inverses, the other small numbers to those
        // near 1.
        let y = where_(&high, div(1.0, where_(&high, x, &one)), x);
        let (low, nothing) = (lt(&y, 0.5), eq(&y, 0.0));
        let logarithm = log(where_(&(&nothing | &negative), &one, &y));
        let complement = log1p(neg(where_(&low, &y, &zero)));
        let value = of_logarithm(&neg(where_(&low, &complement, &logarithm)));
        let reflected = sub(sub(PI * PI / 6.0, mul(&logarithm, &complement)), &value);
        let value = where_(&low, reflected, value);
        let square = log(where_(&high, x, &one));
        let value = where_(&high, sub(mul(mul(&square, &square), -0.5), &value), value);
        where_(&negative, full_like(x, f64::NAN), value)
    };
    let rule = |x: &Array, dx: &Array| {
        let near = eq(x, 1.0);
        let safe = where_(&near, full_like(x, 2), x);
        let slope = where_(&near, full_like(x, -1), div(log(&safe), sub(1.0, &safe)));
        (dilogarithm(x), mul(dx, slope))
    };
    custom_jvp(f, rule)(x)
}

/// Returns Spence's function, the dilogarithm of `1 - x`: the integral of `log(t)/(1 - t)` from 1
/// to `x`.
///
/// It is NaN for negative `x`. Integers become floats.
///
/// Throws `Op` (dtype) for complex operands.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| special::spence(&x), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// DLMF 25.12.3 and 25.12.6 for the reflections. 't Hooft and Veltman, "Scalar one-loop integrals",
/// 1979, appendix A, for the series.
#[track_caller]
pub fn spence(x: impl ArrayLike) -> Array {
    let operands = real("spence", [x.like()]);
    let [y] = in_wide(operands, |[x]| [dilogarithm(&x)]);
    y
}
