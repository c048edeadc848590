//! Angles, `hypot` and `sinc`.

use super::super::axis_slice::{expect_axis, slice_axis};
use crate::core::{Array, RuleError, trace};
use crate::primitives::{
    ArrayLike, abs, add, concatenate, convert_element_type, cumsum, div, eq, full_like, ge, gt,
    inexact, integer_pow, lt, mul, promote_inexact, sin, sqrt, sub, where_, zeros_like,
};
use std::f64::consts::PI;

/// Converts degrees to radians: `x * π / 180`; integers become floats.
#[doc(alias = "radians")]
#[track_caller]
pub fn deg2rad(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    mul(inexact(x), PI / 180.0)
}

/// Converts radians to degrees: `x * 180 / π`; integers become floats.
#[doc(alias = "degrees")]
#[track_caller]
pub fn rad2deg(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    mul(inexact(x), 180.0 / PI)
}

/// Returns `sqrt(x² + y²)` without overflow of the squares, with promotion and broadcasting;
/// integers become floats. Infinite if either operand is. Throws `Op` (dtype) for complex operands.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| hypot(&x, 3.0), Aval::new(DType::BF16, [4]))?;
/// assert_eq!(y.aval().to_string(), "bf16[4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn hypot(x: impl ArrayLike, y: impl ArrayLike) -> Array {
    let [x, y] = promote_inexact("hypot", [x.like(), y.like()]);
    if x.dtype().is_complex() {
        let error = RuleError::dtype(format!("needs real operands, got {}", x.dtype()));
        trace::throw_operands("hypot", error, &[&x, &y]);
    }
    let (x, y) = (abs(&x), abs(&y));
    let first = ge(&x, &y);
    let (large, small) = (where_(&first, &x, &y), where_(&first, &y, &x));
    let infinity = full_like(&x, f64::INFINITY);
    // Zero and infinity have no ratio.
    let has_ratio = gt(&large, zeros_like(&large)) & lt(&large, &infinity);
    let ratio = div(&small, where_(&has_ratio, &large, full_like(&large, 1)));
    let ratio = where_(&has_ratio, ratio, zeros_like(&small));
    let length = mul(&large, sqrt(add(mul(&ratio, &ratio), 1)));
    let infinite = eq(&x, &infinity) | eq(&y, &infinity);
    // NaN makes the comparison false; the sum propagates it.
    let length = where_(&(super::super::isnan(&x) | super::super::isnan(&y)), add(&x, &y), length);
    where_(&infinite, infinity, length)
}

/// Returns `sin(πx) / (πx)`, which is 1 at 0; integers become floats.
///
/// Near 0 a polynomial replaces the quotient, so that derivatives up to the fifth are exact there.
#[track_caller]
pub fn sinc(x: impl ArrayLike) -> Array {
    #[track_caller]
    fn of(x: &Array) -> Array {
        let angle = mul(inexact(x), PI);
        // The first omitted term, `x⁶ / 5040`, is far below half a unit in the last place here.
        let near = lt(abs(&angle), angle.dtype().epsilon().powf(1.0 / 6.0));
        let safe = where_(&near, full_like(&angle, 1), &angle);
        let quotient = div(sin(&safe), &safe);
        let inner = where_(&near, &angle, zeros_like(&angle));
        let squared = integer_pow(&inner, 2);
        let series = add(mul(&squared, add(mul(&squared, 1.0 / 120.0), -1.0 / 6.0)), 1.0);
        where_(&near, convert_element_type(&series, angle.dtype()), quotient)
    }
    of(&x.to_array())
}

/// Options of [`unwrap_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnwrapOptions {
    /// The period of the angles. The default is 2π.
    pub period: f64,
    /// The largest step that is kept; half the period if `None` or smaller.
    pub discont: Option<f64>,
}

impl Default for UnwrapOptions {
    fn default() -> Self {
        UnwrapOptions { period: 2.0 * PI, discont: None }
    }
}

/// Removes jumps from angles in radians along `axis`: where neighbours differ by more than π, the
/// following elements are shifted by multiples of 2π. Integers become floats. Throws `Op` (shape)
/// for an axis out of range.
#[track_caller]
pub fn unwrap(x: &Array, axis: isize) -> Array {
    unwrap_with(x, axis, UnwrapOptions::default())
}

/// Removes jumps along `axis`, as [`unwrap`], with another period or another largest step.
#[track_caller]
pub fn unwrap_with(x: &Array, axis: isize, options: UnwrapOptions) -> Array {
    let UnwrapOptions { period, discont } = options;
    let x = inexact(x);
    let resolved = expect_axis("unwrap", axis, x.rank(), &x);
    let n = x.shape()[resolved];
    if n < 2 {
        return x;
    }
    let half = period / 2.0;
    let largest = discont.map_or(half, |discont| discont.max(half));
    let step = super::super::diff(&x, axis);
    let inside = sub(super::super::remainder(add(&step, half), period), half);
    // A step of exactly half a period keeps its direction.
    let edge = eq(&inside, -half) & gt(&step, 0.0);
    let inside = where_(&edge, half, inside);
    let jump = where_(lt(abs(&step), largest), zeros_like(&step), sub(inside, &step));
    let moved = add(slice_axis(&x, resolved, 1, n), cumsum(&jump, axis));
    concatenate([&slice_axis(&x, resolved, 0, 1), &moved], axis)
}

/// Options of [`angle_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AngleOptions {
    /// Returns degrees instead of radians. The default is false.
    pub deg: bool,
}

/// Returns the angle of each element in the complex plane, as [`angle`](crate::primitives::angle),
/// in radians or degrees.
#[track_caller]
pub fn angle_with(x: impl ArrayLike, options: AngleOptions) -> Array {
    let radians = crate::primitives::angle(x);
    if options.deg { rad2deg(radians) } else { radians }
}
