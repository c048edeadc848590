//! Numerical calculus on sampled functions: interpolation, slopes and areas.

use super::axis_slice::slice_axis;
use super::descriptive::{Side, searchsorted_side};
use super::{Index, clip, remainder, take};
use crate::core::{Array, RuleError, trace};
use crate::primitives::rules::{move_axis, resolve_axis};
use crate::primitives::{
    ArrayLike, Like, abs, add, argsort, concatenate, div, gt, inexact, le, lt, mul, scalar, sub,
    where_,
};

#[track_caller]
fn samples(name: &str, xp: &Array, fp: &Array) {
    if xp.rank() != 1 || xp.shape() != fp.shape() || xp.size() == 0 {
        let message = format!(
            "takes vectors of as many positions as values, at least one, got {} and {}",
            xp.shape(),
            fp.shape()
        );
        trace::throw_operands(name, RuleError::shape(message), &[xp, fp]);
    }
}

/// The values at `x` of the function that is `fp` at the increasing positions `xp`, both `[n]`, and a
/// straight line in between; `fp[0]` below and `fp[n - 1]` above them. Integers become floats.
///
/// Differentiable by all three. Throws `Op` (shape) if `xp` and `fp` are no vectors of one size.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, table) = (Aval::new(DType::F32, [4, 2]), Aval::new(DType::F32, [10]));
/// let y = eval_shape(
///     |x: Array, xp: Array, fp: Array| interp(&x, &xp, &fp),
///     (x, table.clone(), table),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[4,2]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn interp(x: impl ArrayLike, xp: &Array, fp: &Array) -> Array {
    samples("interp", xp, fp);
    let ends = [fp.index([Index::At(0)]), fp.index([Index::At(-1)])];
    interp_outside(x, xp, fp, &ends[0], &ends[1])
}

/// As [`interp`], with the values `left` below and `right` above the positions.
#[track_caller]
pub fn interp_outside(
    x: impl ArrayLike,
    xp: &Array,
    fp: &Array,
    left: impl ArrayLike,
    right: impl ArrayLike,
) -> Array {
    samples("interp", xp, fp);
    let x = match x.like() {
        Like::Array(x) => x.clone(),
        Like::Scalar(value) => scalar(value),
    };
    let dtype = super::result_type([x.like(), xp.like(), fp.like()]);
    let dtype = if dtype.is_inexact() { dtype } else { crate::core::DType::F32 };
    let (x, xp, fp) = (x.astype(dtype), xp.astype(dtype), fp.astype(dtype));
    let n = xp.size();
    if n == 1 {
        let at = fp.index([Index::At(0)]).broadcast_to(x.shape());
        let below = where_(&lt(&x, &xp), left, at);
        return where_(&gt(&x, &xp), right, below);
    }
    let upper = clip(&searchsorted_side(&xp, &x, Side::Right), 1, n as i32 - 1);
    let lower = sub(&upper, 1);
    let (x0, y0) = (take(&xp, &lower, 0), take(&fp, &lower, 0));
    let (width, rise) = (sub(take(&xp, &upper, 0), &x0), sub(take(&fp, &upper, 0), &y0));
    // Of two positions at one place the lower value counts.
    let narrow = le(abs(&width), f64::MIN_POSITIVE.max(dtype.epsilon() * dtype.epsilon()));
    let share = div(sub(&x, &x0), where_(&narrow, 1.0, &width));
    let inside = where_(&narrow, &y0, add(&y0, mul(share, rise)));
    let below = where_(&lt(&x, xp.index([Index::At(0)])), left, inside);
    where_(&gt(&x, xp.index([Index::At(-1)])), right, below)
}

/// As [`interp`] of a periodic function: positions are taken modulo `period` and may have any order.
/// Throws `Op` (value) if the period is not positive.
#[track_caller]
pub fn interp_periodic(x: impl ArrayLike, xp: &Array, fp: &Array, period: f64) -> Array {
    samples("interp", xp, fp);
    if period.is_nan() || period <= 0.0 {
        let error = RuleError::value(format!("the period must be positive, got {period}"));
        trace::throw_operands("interp", error, &[xp, fp]);
    }
    let (x, xp) = (remainder(x, period), remainder(inexact(xp), period));
    let order = argsort(&xp, 0);
    let (xp, fp) = (take(&xp, &order, 0), take(fp, &order, 0));
    let n = xp.size();
    // One more on both sides, a period away.
    let (before, behind) =
        (sub(slice_axis(&xp, 0, n - 1, n), period), add(slice_axis(&xp, 0, 0, 1), period));
    let xp = concatenate(&[&before, &xp, &behind], 0);
    let fp = concatenate(&[&slice_axis(&fp, 0, n - 1, n), &fp, &slice_axis(&fp, 0, 0, 1)], 0);
    interp(&x, &xp, &fp)
}

#[track_caller]
fn sampled_axis(name: &str, x: &Array, axis: isize, least: usize) -> usize {
    let resolved = resolve_axis(axis, x.rank()).and_then(|at| match x.shape()[at] >= least {
        true => Ok(at),
        false => Err(RuleError::shape(format!(
            "needs at least {least} elements along axis {at}, got {}",
            x.shape()[at]
        ))),
    });
    match resolved {
        Ok(at) => at,
        Err(error) => trace::throw_operands(name, error, &[x]),
    }
}

/// Slopes along `axis` of a function sampled at distance 1: central differences within, one-sided ones
/// at the ends; the shape stays. Integers become floats. [`gradient_at`] takes positions.
///
/// Throws `Op` (shape) for fewer than two elements along the axis.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| gradient(&x, -1), Aval::new(DType::F32, [2, 5]))?;
/// assert_eq!(y.aval().to_string(), "f32[2,5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn gradient(x: &Array, axis: isize) -> Array {
    gradient_at(x, 1.0, axis)
}

/// As [`gradient`], with the distance between samples, a number, or their positions, a vector along
/// the axis. Throws `Op` (shape) if the positions are not as many as the samples.
#[track_caller]
pub fn gradient_at(x: &Array, spacing: impl ArrayLike, axis: isize) -> Array {
    let at = sampled_axis("gradient", x, axis, 2);
    let last = x.rank() - 1;
    let x = move_axis(&inexact(x), at, last);
    let n = x.shape()[last];
    let [x, positions] = match spacing.like() {
        Like::Array(positions) if positions.rank() == 1 => {
            if positions.size() != n {
                let message = format!("{} positions for {n} samples", positions.size());
                trace::throw_operands("gradient", RuleError::shape(message), &[&x, positions]);
            }
            let dtype = super::result_type([x.like(), positions.like()]);
            [x.astype(dtype), positions.astype(dtype)]
        }
        distance => {
            let rise = central(&x, last, n);
            let distance = match distance {
                Like::Array(distance) => distance.clone(),
                Like::Scalar(distance) => scalar(distance),
            };
            let inner = div(&rise.0, mul(&distance, 2.0));
            let pieces = [div(&rise.1, &distance), inner, div(&rise.2, &distance)];
            return move_axis(&concatenate(&pieces, last as isize), last, at);
        }
    };
    let steps = super::diff(&positions, 0);
    let (before, behind) = (slice_axis(&steps, 0, 0, n - 2), slice_axis(&steps, 0, 1, n - 1));
    let (left, middle, right) = (
        slice_axis(&x, last, 0, n - 2),
        slice_axis(&x, last, 1, n - 1),
        slice_axis(&x, last, 2, n),
    );
    let total = add(&before, &behind);
    // The parabola through three neighbours.
    let inner = sub(
        add(
            mul(div(&before, mul(&behind, &total)), &right),
            mul(div(sub(&behind, &before), mul(&before, &behind)), &middle),
        ),
        mul(div(&behind, mul(&before, &total)), &left),
    );
    let rise = central(&x, last, n);
    let first = div(&rise.1, slice_axis(&steps, 0, 0, 1));
    let end = div(&rise.2, slice_axis(&steps, 0, n - 2, n - 1));
    move_axis(&concatenate(&[&first, &inner, &end], last as isize), last, at)
}

/// Differences over two steps within, and over one step at both ends.
#[track_caller]
fn central(x: &Array, axis: usize, n: usize) -> (Array, Array, Array) {
    (
        sub(slice_axis(x, axis, 2, n), slice_axis(x, axis, 0, n - 2)),
        sub(slice_axis(x, axis, 1, 2), slice_axis(x, axis, 0, 1)),
        sub(slice_axis(x, axis, n - 1, n), slice_axis(x, axis, n - 2, n - 1)),
    )
}

/// The area under a function sampled at distance `dx` along `axis`, which disappears: the sum of
/// trapezoids. Integers become floats. Throws `Op` (shape) for an axis out of range.
#[track_caller]
pub fn trapezoid(y: &Array, dx: impl ArrayLike, axis: isize) -> Array {
    let at = sampled_axis("trapezoid", y, axis, 1);
    let y = inexact(y);
    mul(mul(pairs(&y, at), 0.5).sum_axes(at as isize), dx)
}

/// As [`trapezoid`] with the positions of the samples: of the shape of `y`, or a vector along the axis.
/// Throws `Op` (shape) for others.
#[track_caller]
pub fn trapezoid_at(y: &Array, x: &Array, axis: isize) -> Array {
    let at = sampled_axis("trapezoid", y, axis, 1);
    let n = y.shape()[at];
    if x.shape() != y.shape() && *x.shape().dims() != [n] {
        let message = format!("positions {} for samples {}", x.shape(), y.shape());
        trace::throw_operands("trapezoid", RuleError::shape(message), &[y, x]);
    }
    let last = y.rank() - 1;
    let y = move_axis(&inexact(y), at, last);
    let x = if x.rank() == 1 { x.clone() } else { move_axis(x, at, last) };
    let steps = super::diff(&inexact(&x), -1);
    mul(mul(pairs(&y, last), steps).sum_axes(-1), 0.5)
}

/// Sums of neighbours.
#[track_caller]
fn pairs(y: &Array, axis: usize) -> Array {
    let n = y.shape()[axis];
    add(slice_axis(y, axis, n.min(1), n), slice_axis(y, axis, 0, n.saturating_sub(1)))
}
