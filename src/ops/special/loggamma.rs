//! The logarithm of Γ on the complex plane.

use crate::core::{Array, Loc};
use crate::primitives::{
    abs, add, complex, div, eq, expm1, floor, full_like, gt, imag, inexact, le, lgamma, log, lt,
    mul, neg, real, round, sub, where_, zeros_like,
};
use std::f64::consts::{LN_2, PI};

/// The parameter and the coefficients of Lanczos's approximation.
///
/// Reference: Lanczos, "A precision approximation of the gamma function", 1964; these coefficients
/// are those of the GNU Scientific Library.
pub(crate) const LANCZOS: (f64, [f64; 9]) = (
    7.0,
    [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ],
);

/// Returns the logarithm for a real part of at least 1/2.
fn lanczos(z: &Array) -> Array {
    let (g, coefficients) = LANCZOS;
    let z = sub(z, 1.0);
    let mut sum = full_like(&z, coefficients[0]);
    for (k, &coefficient) in coefficients.iter().enumerate().skip(1) {
        sum = add(sum, div(coefficient, add(&z, k as f64)));
    }
    let t = add(&z, g + 0.5);
    let growth = sub(mul(add(&z, 0.5), log(&t)), &t);
    add(add(growth, 0.5 * (2.0 * PI).ln()), log(&sum))
}

/// Returns the logarithm of `sin(πz)` for `z = x + iy` with `y` of at least 0.
///
/// The branch is real between 0 and 1 and continuous above the real axis. The sine is written as
/// `exp(-πiz)·(1 - exp(2πiz))·i/2` to avoid overflow.
fn log_sine(x: &Array, y: &Array) -> Array {
    let small = sub(x, round(x));
    let rest = expm1(complex(mul(y, -2.0 * PI), mul(small, 2.0 * PI)));
    let linear = complex(sub(mul(y, PI), LN_2), sub(PI / 2.0, mul(x, PI)));
    add(linear, log(neg(&rest)))
}

/// Returns the logarithm of Γ, continued from the positive axis to the plane cut along the negative
/// axis.
///
/// On the cut the values are those from above, or from below for an imaginary part of `-0.0`. Poles
/// and real numbers that are not positive give NaN. Integers become floats.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|z: Array| special::loggamma(&z), Aval::new(DType::C64, [3]))?;
/// assert_eq!(y.aval().to_string(), "c64[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// DLMF 5.5.3 for the reflection. Hare, "Computing the principal branch of log-Gamma", 1997, for
/// its branches.
#[track_caller]
pub fn loggamma(z: &Array) -> Array {
    Loc::caller().scope(|| {
        let z = inexact(z);
        if !z.dtype().is_complex() {
            let positive = gt(&z, 0.0);
            let value = lgamma(where_(&positive, &z, full_like(&z, 1)));
            return where_(&positive, value, full_like(&z, f64::NAN));
        }
        let (x, y) = (real(&z), imag(&z));
        let pole = eq(&y, 0.0) & le(&x, 0.0) & eq(&x, floor(&x));
        let unknown = pole | super::super::isnan(&z);
        // Below the axis the function is the conjugate of the value above.
        let below = super::super::signbit(&y);
        let x = where_(&unknown, full_like(&x, 1), x);
        let y = where_(&unknown, full_like(&y, 0), abs(&y));
        let left = lt(&x, 0.5);
        let reflected = complex(sub(1.0, &x), neg(&y));
        let value = lanczos(&where_(&left, reflected, complex(&x, &y)));
        let half = full_like(&x, 0.5);
        let sine = log_sine(&where_(&left, &x, half), &where_(&left, &y, zeros_like(&y)));
        let value = where_(&left, sub(sub(PI.ln(), sine), &value), value);
        let (re, im) = (real(&value), imag(&value));
        let value = complex(re, where_(&below, neg(&im), im));
        where_(&unknown, complex(full_like(&x, f64::NAN), f64::NAN), value)
    })
}
