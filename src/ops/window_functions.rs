//! Window functions of signal processing: weights that fall off towards both ends.

use crate::core::{Array, DType};
use crate::primitives::{abs, add, convert_element_type, cos, div, iota, mul, ones, sub};
use std::f64::consts::PI;

/// `0, 1, …, n - 1` and the last of them as `f32`; `None` where the weights are all 1.
#[track_caller]
fn positions(n: usize) -> Option<(Array, f64)> {
    if n < 2 {
        return None;
    }
    Some((convert_element_type(&iota(DType::I32, n), DType::F32), (n - 1) as f64))
}

/// `Σ aₖ cos(2πki / (n - 1))`.
#[track_caller]
fn cosines(n: usize, coefficients: &[f64]) -> Array {
    let Some((position, last)) = positions(n) else {
        return ones([n], DType::F32);
    };
    let mut sum = crate::primitives::full_like(&position, coefficients[0]);
    for (order, &coefficient) in coefficients.iter().enumerate().skip(1) {
        let angle = mul(&position, 2.0 * PI * order as f64 / last);
        sum = add(&sum, mul(cos(&angle), coefficient));
    }
    sum
}

/// Bartlett's window, a triangle from 0 to 1 and back: `f32[n]`.
#[track_caller]
pub fn bartlett(n: usize) -> Array {
    match positions(n) {
        None => ones([n], DType::F32),
        Some((position, last)) => sub(1.0, abs(&sub(div(mul(position, 2.0), last), 1.0))),
    }
}

/// Blackman's window, `0.42 - 0.5 cos(2πi / (n - 1)) + 0.08 cos(4πi / (n - 1))`: `f32[n]`.
#[track_caller]
pub fn blackman(n: usize) -> Array {
    cosines(n, &[0.42, -0.5, 0.08])
}

/// Hamming's window, `0.54 - 0.46 cos(2πi / (n - 1))`: `f32[n]`.
///
/// ```
/// use oxidax::prelude::*;
/// assert_eq!(eval_shape(|| hamming(64), ())?.aval().to_string(), "f32[64]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn hamming(n: usize) -> Array {
    cosines(n, &[0.54, -0.46])
}

/// Hann's window, `0.5 - 0.5 cos(2πi / (n - 1))`: `f32[n]`.
#[track_caller]
pub fn hanning(n: usize) -> Array {
    cosines(n, &[0.5, -0.5])
}

/// Kaiser's window `I₀(β √(1 - (2i / (n - 1) - 1)²)) / I₀(β)`: `f32[n]`. `beta`, not negative, says how
/// steeply it falls.
///
/// The Bessel function is summed from its power series, all terms of which are positive.
#[track_caller]
pub fn kaiser(n: usize, beta: f64) -> Array {
    let Some((position, last)) = positions(n) else {
        return ones([n], DType::F32);
    };
    let quarter = beta * beta / 4.0;
    // The terms decrease from about β/2 on, and then faster than a geometric series.
    let terms = beta.abs() as usize + 24;
    let ratio = sub(div(mul(position, 2.0), last), 1.0);
    let share = sub(1.0, mul(&ratio, &ratio));
    let mut sum = crate::primitives::full_like(&share, 1);
    let mut whole = 1.0;
    for term in (1..=terms).rev() {
        let factor = quarter / (term * term) as f64;
        sum = add(mul(mul(sum, &share), factor), 1.0);
        whole = whole * factor + 1.0;
    }
    div(sum, whole)
}
