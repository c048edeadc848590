//! Calculus on sampled functions: interpolation, gradients and integrals.

use super::axes::Axes;
use super::axis_slice::{expect_axis, slice_axis};
use super::descriptive::{SearchsortedOptions, Side, searchsorted_with};
use super::{Index, clip, remainder, take};
use crate::core::{Array, Loc, RuleError, Scalar, trace};
use crate::primitives::rules::move_axis;
use crate::primitives::{
    ArrayLike, Like, abs, add, argsort, concatenate, div, gt, inexact, le, lt, mul, scalar, sub,
    where_,
};

#[track_caller]
fn expect_samples(name: &str, xp: &Array, fp: &Array) {
    Loc::caller().scope(|| {
        if xp.rank() != 1 || xp.shape() != fp.shape() || xp.size() == 0 {
            let message = format!(
                "takes two vectors of one size, at least 1, got {} and {}",
                xp.shape(),
                fp.shape()
            );
            trace::throw_operands(name, RuleError::shape(message), &[xp, fp]);
        }
    })
}

/// Options of [`interp_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct InterpOptions<'a> {
    /// The value below the sample points; `fp[0]` if `None`.
    pub left: Option<Like<'a>>,
    /// The value above the sample points; `fp[n - 1]` if `None`.
    pub right: Option<Like<'a>>,
    /// The period of the function. The sample points may then have any order, and `left` and
    /// `right` are ignored.
    pub period: Option<f64>,
}

/// Interpolates linearly: returns the values at `x` of the function with values `fp` at the
/// increasing points `xp`, both `[n]`. Below the points the value is `fp[0]`, above them `fp[n -
/// 1]`. Integers become floats.
///
/// Differentiable with respect to all operands. Throws `Op` (shape) unless `xp` and `fp` are
/// vectors of one size.
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
    interp_with(x, xp, fp, InterpOptions::default())
}

/// Interpolates linearly, as [`interp`], with values outside of the points, or periodically.
///
/// Throws `Op` (value) for a period that is not positive.
///
/// ```
/// use oxidax::prelude::*;
/// let table = Aval::new(DType::F32, [10]);
/// let f = |x: Array, xp: Array, fp: Array| {
///     let options = InterpOptions { left: Some(0.0.like()), ..Default::default() };
///     interp_with(&x, &xp, &fp, options)
/// };
/// let y = eval_shape(f, (Aval::new(DType::F32, [4]), table.clone(), table))?;
/// assert_eq!(y.aval().to_string(), "f32[4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn interp_with(x: impl ArrayLike, xp: &Array, fp: &Array, options: InterpOptions<'_>) -> Array {
    expect_samples("interp", xp, fp);
    if let Some(period) = options.period {
        return interp_periodic(x.like(), xp, fp, period);
    }
    let ends = [fp.index([Index::At(0)]), fp.index([Index::At(-1)])];
    let left = options.left.unwrap_or_else(|| ends[0].like());
    let right = options.right.unwrap_or_else(|| ends[1].like());
    let x = match x.like() {
        Like::Array(x) => x.clone(),
        Like::Scalar(value) => scalar(value),
    };
    let dtype = super::result_type([x.like(), xp.like(), fp.like()]);
    let dtype = if dtype.is_inexact() { dtype } else { crate::core::DType::F32 };
    let (x, xp, fp) = (x.astype(dtype), xp.astype(dtype), fp.astype(dtype));
    let n = xp.size();
    if n == 1 {
        let value = fp.index([Index::At(0)]).broadcast_to(x.shape());
        let below = where_(lt(&x, &xp), left, value);
        return where_(gt(&x, &xp), right, below);
    }
    let upper = clip(
        &searchsorted_with(&xp, &x, SearchsortedOptions { side: Side::Right, sorter: None }),
        1,
        n as i32 - 1,
    );
    let lower = sub(&upper, 1);
    let (x0, y0) = (take(&xp, &lower, 0), take(&fp, &lower, 0));
    let (width, rise) = (sub(take(&xp, &upper, 0), &x0), sub(take(&fp, &upper, 0), &y0));
    // At equal points the value of the first one is used.
    let narrow = le(abs(&width), f64::MIN_POSITIVE.max(dtype.epsilon() * dtype.epsilon()));
    let share = div(sub(&x, &x0), where_(&narrow, 1.0, &width));
    let inside = where_(&narrow, &y0, add(&y0, mul(share, rise)));
    let below = where_(lt(&x, xp.index([Index::At(0)])), left, inside);
    where_(gt(&x, xp.index([Index::At(-1)])), right, below)
}

/// Interpolates a periodic function. Points are taken modulo `period`.
#[track_caller]
fn interp_periodic(x: Like<'_>, xp: &Array, fp: &Array, period: f64) -> Array {
    Loc::caller().scope(|| {
        if period.is_nan() || period <= 0.0 {
            let error = RuleError::value(format!("the period must be positive, got {period}"));
            trace::throw_operands("interp", error, &[xp, fp]);
        }
        let (x, xp) = (remainder(x, period), remainder(inexact(xp), period));
        let order = argsort(&xp, 0);
        let (xp, fp) = (take(&xp, &order, 0), take(fp, &order, 0));
        let n = xp.size();
        // One more point on both sides, a period away.
        let (before, after) =
            (sub(slice_axis(&xp, 0, n - 1, n), period), add(slice_axis(&xp, 0, 0, 1), period));
        let xp = concatenate([&before, &xp, &after], 0);
        let fp = concatenate([&slice_axis(&fp, 0, n - 1, n), &fp, &slice_axis(&fp, 0, 0, 1)], 0);
        interp(&x, &xp, &fp)
    })
}

#[track_caller]
fn sampled_axis(name: &str, x: &Array, axis: isize, least: usize) -> usize {
    let axis = expect_axis(name, axis, x.rank(), x);
    let size = x.shape()[axis];
    if size < least {
        let message = format!("needs at least {least} elements along axis {axis}, got {size}");
        trace::throw_operands(name, RuleError::shape(message), &[x]);
    }
    axis
}

/// Options of [`gradient_with`].
#[derive(Clone, Copy, Debug)]
pub struct GradientOptions<'a> {
    /// Distance between samples, a number, or their coordinates, a vector along the axis. The
    /// default is 1.
    pub spacing: Like<'a>,
}

impl Default for GradientOptions<'_> {
    fn default() -> Self {
        GradientOptions { spacing: Like::Scalar(Scalar::Float(1.0)) }
    }
}

/// Returns the derivative along `axis` of a function sampled at distance 1: central differences,
/// and one-sided differences at the ends. The shape stays. Integers become floats.
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
    gradient_with(x, axis, GradientOptions::default())
}

/// Returns the derivative along `axis`, as [`gradient`], for samples at another distance or at
/// coordinates. Throws `Op` (shape) if the number of coordinates differs from the number of
/// samples.
#[track_caller]
pub fn gradient_with(x: &Array, axis: isize, options: GradientOptions<'_>) -> Array {
    let axis = sampled_axis("gradient", x, axis, 2);
    let last = x.rank() - 1;
    let x = move_axis(&inexact(x), axis, last);
    let n = x.shape()[last];
    let [x, positions] = match options.spacing {
        Like::Array(positions) if positions.rank() == 1 => {
            if positions.size() != n {
                let message = format!("{} coordinates for {n} samples", positions.size());
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
            return move_axis(&concatenate(&pieces, last as isize), last, axis);
        }
    };
    let steps = super::diff(&positions, 0);
    let (before, after) = (slice_axis(&steps, 0, 0, n - 2), slice_axis(&steps, 0, 1, n - 1));
    let (left, middle, right) = (
        slice_axis(&x, last, 0, n - 2),
        slice_axis(&x, last, 1, n - 1),
        slice_axis(&x, last, 2, n),
    );
    let total = add(&before, &after);
    // The derivative of the parabola through three neighbours.
    let inner = sub(
        add(
            mul(div(&before, mul(&after, &total)), &right),
            mul(div(sub(&after, &before), mul(&before, &after)), &middle),
        ),
        mul(div(&after, mul(&before, &total)), &left),
    );
    let rise = central(&x, last, n);
    let first = div(&rise.1, slice_axis(&steps, 0, 0, 1));
    let end = div(&rise.2, slice_axis(&steps, 0, n - 2, n - 1));
    move_axis(&concatenate([&first, &inner, &end], last as isize), last, axis)
}

/// Returns the derivatives along each of `axes`, or along all for `Axes::all()`, as [`gradient`].
///
/// Throws `Op` (shape) for fewer than two elements along an axis.
#[track_caller]
pub fn gradient_axes(x: &Array, axes: impl Into<Axes>) -> Vec<Array> {
    let axes = axes.into();
    let all: Vec<isize> = (0..x.rank() as isize).collect();
    let mut derivatives = Vec::new();
    for &axis in axes.list().unwrap_or(&all) {
        derivatives.push(gradient(x, axis));
    }
    derivatives
}

/// Returns differences over two steps, and over one step at both ends.
#[track_caller]
fn central(x: &Array, axis: usize, n: usize) -> (Array, Array, Array) {
    (
        sub(slice_axis(x, axis, 2, n), slice_axis(x, axis, 0, n - 2)),
        sub(slice_axis(x, axis, 1, 2), slice_axis(x, axis, 0, 1)),
        sub(slice_axis(x, axis, n - 1, n), slice_axis(x, axis, n - 2, n - 1)),
    )
}

/// Options of [`trapezoid_with`].
#[derive(Clone, Copy, Debug)]
pub struct TrapezoidOptions<'a> {
    /// Coordinates of the samples, with the shape of the samples or as a vector along the axis.
    /// They replace `dx`.
    pub x: Option<&'a Array>,
    /// Distance between samples. The default is 1.
    pub dx: Like<'a>,
}

impl Default for TrapezoidOptions<'_> {
    fn default() -> Self {
        TrapezoidOptions { x: None, dx: Like::Scalar(Scalar::Float(1.0)) }
    }
}

/// Integrates a function sampled at distance 1 along `axis`, which is dropped, by the trapezoidal
/// rule. Integers become floats. Throws `Op` (shape) for an axis out of range.
#[track_caller]
pub fn trapezoid(y: &Array, axis: isize) -> Array {
    trapezoid_with(y, axis, TrapezoidOptions::default())
}

/// Integrates along `axis`, as [`trapezoid`], samples at another distance or at coordinates. Throws
/// `Op` (shape) for coordinates of another shape.
#[track_caller]
pub fn trapezoid_with(y: &Array, axis: isize, options: TrapezoidOptions<'_>) -> Array {
    let axis = sampled_axis("trapezoid", y, axis, 1);
    let Some(x) = options.x else {
        let y = inexact(y);
        return mul(mul(pairs(&y, axis), 0.5).sum_axes(axis as isize), options.dx);
    };
    let n = y.shape()[axis];
    if x.shape() != y.shape() && *x.shape().dims() != [n] {
        let message = format!("coordinates {} for samples {}", x.shape(), y.shape());
        trace::throw_operands("trapezoid", RuleError::shape(message), &[y, x]);
    }
    let last = y.rank() - 1;
    let y = move_axis(&inexact(y), axis, last);
    let x = if x.rank() == 1 { x.clone() } else { move_axis(x, axis, last) };
    let steps = super::diff(&inexact(&x), -1);
    mul(mul(pairs(&y, last), steps).sum_axes(-1), 0.5)
}

/// Returns the sums of neighbours.
#[track_caller]
fn pairs(y: &Array, axis: usize) -> Array {
    let n = y.shape()[axis];
    add(slice_axis(y, axis, n.min(1), n), slice_axis(y, axis, 0, n.saturating_sub(1)))
}
