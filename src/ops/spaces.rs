//! Sequences of evenly spaced numbers, exponents and ratios.

use super::axis_slice::{expect_axis, slice_axis};
use crate::core::{Array, DType, Loc, Scalar};
use crate::primitives::rules::move_axis;
use crate::primitives::{
    ArrayLike, Like, abs, add, broadcast_in_dim, broadcasted_iota as iota, concatenate,
    convert_element_type, div, exp, fill_of, floor, full_like, log, mul, pow, promote_inexact,
    reshape, sign, sub,
};

/// Options of [`linspace_with`] and [`linspace_and_step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinspaceOptions {
    /// Includes `stop` as the last number. The default is true.
    pub endpoint: bool,
    /// The new axis of the result. The default is 0.
    pub axis: isize,
    /// The dtype of the result. The default is the float dtype that the ends promote to. Numbers
    /// are rounded down to integers.
    pub dtype: Option<DType>,
}

impl Default for LinspaceOptions {
    fn default() -> Self {
        LinspaceOptions { endpoint: true, axis: 0, dtype: None }
    }
}

/// Returns `num` evenly spaced numbers from `start` to `stop`, both included, along a new first
/// axis:
/// `[num, …]` for operands of shape `[…]`. Integers become floats. A single number is `start`.
///
/// Throws `Op` for operands that do not broadcast.
#[track_caller]
pub fn linspace(start: impl ArrayLike, stop: impl ArrayLike, num: usize) -> Array {
    linspace_with(start, stop, num, LinspaceOptions::default())
}

/// Returns evenly spaced numbers, as [`linspace`]. With `endpoint: false` `stop` is not included:
/// it would be the next number.
///
/// Throws `Op` for operands that do not broadcast, and for an axis out of range.
///
/// ```
/// use oxidax::prelude::*;
/// let options = LinspaceOptions { dtype: Some(DType::I32), ..Default::default() };
/// assert_eq!(linspace_with(0, 5, 3, options).to_vec::<i32>()?, [0, 2, 5]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn linspace_with(
    start: impl ArrayLike,
    stop: impl ArrayLike,
    num: usize,
    options: LinspaceOptions,
) -> Array {
    let [start, stop] = strong_ends(start.like(), stop.like());
    placed("linspace", &evenly_spaced(&start, &stop, num, options.endpoint), options)
}

/// Returns evenly spaced numbers, as [`linspace_with`], and their distance in the shape of the
/// ends: NaN if there is none.
#[doc(alias = "retstep")]
#[track_caller]
pub fn linspace_and_step(
    start: impl ArrayLike,
    stop: impl ArrayLike,
    num: usize,
    options: LinspaceOptions,
) -> (Array, Array) {
    let [start, stop] = strong_ends(start.like(), stop.like());
    let numbers = placed("linspace", &evenly_spaced(&start, &stop, num, options.endpoint), options);
    let n_steps = if options.endpoint { num.saturating_sub(1) } else { num };
    let distance = sub(&stop, &start);
    let step = match n_steps {
        0 => full_like(&distance, f64::NAN),
        n => div(&distance, Scalar::Float(n as f64)),
    };
    (numbers, step)
}

#[track_caller]
fn evenly_spaced(start: &Array, stop: &Array, num: usize, endpoint: bool) -> Array {
    if !endpoint {
        return spread(start, stop, num, num);
    }
    if num < 2 {
        let inner: Vec<usize> = (1..=start.rank()).collect();
        return broadcast_in_dim(start, start.shape().insert(0, num), &inner);
    }
    // The last number is `stop` itself, without rounding.
    let open = spread(start, stop, num - 1, num - 1);
    concatenate([&open, &reshape(stop, stop.shape().insert(0, 1))], 0)
}

/// Moves the first axis and converts the elements as the options state.
#[track_caller]
fn placed(name: &str, numbers: &Array, options: LinspaceOptions) -> Array {
    Loc::caller().scope(|| {
        let axis = expect_axis(name, options.axis, numbers.rank(), numbers);
        let numbers = move_axis(numbers, 0, axis);
        match options.dtype {
            Some(dtype) if dtype.is_integer() && numbers.dtype().is_float() => {
                convert_element_type(&floor(&numbers), dtype)
            }
            Some(dtype) => convert_element_type(&numbers, dtype),
            None => numbers,
        }
    })
}

/// Converts both ends to one float dtype that is not weak.
#[track_caller]
fn strong_ends(start: Like<'_>, stop: Like<'_>) -> [Array; 2] {
    let [start, stop] = promote_inexact("linspace", [start, stop]);
    [convert_element_type(&start, start.dtype()), convert_element_type(&stop, stop.dtype())]
}

/// Returns `start + i/parts · (stop - start)` for `i` in `0..num`.
#[track_caller]
fn spread(start: &Array, stop: &Array, num: usize, parts: usize) -> Array {
    let shape = start.shape().insert(0, num);
    let inner: Vec<usize> = (1..=start.rank()).collect();
    let part = start.dtype().real();
    let steps = convert_element_type(&iota(DType::I32, [num], 0), part);
    let share = div(&steps, Scalar::Float(parts as f64));
    let share = convert_element_type(&broadcast_in_dim(&share, shape.clone(), &[0]), start.dtype());
    let rest = sub(fill_of(Scalar::Int(1), share.aval()), &share);
    // Both ends are weighted, so that a small one keeps its precision beside a much larger one.
    let low = mul(broadcast_in_dim(start, shape.clone(), &inner), rest);
    let high = mul(broadcast_in_dim(stop, shape, &inner), share);
    add(low, high)
}

/// Options of [`logspace_with`].
#[derive(Clone, Copy, Debug)]
pub struct LogspaceOptions<'a> {
    /// The base of the powers. The default is 10.
    pub base: Like<'a>,
    /// Includes `base^stop` as the last number. The default is true.
    pub endpoint: bool,
    /// The new axis of the result. The default is 0.
    pub axis: isize,
    /// The dtype of the result. The default is the float dtype that the operands promote to.
    pub dtype: Option<DType>,
}

impl Default for LogspaceOptions<'_> {
    fn default() -> Self {
        let base = Like::Scalar(Scalar::Float(10.0));
        LogspaceOptions { base, endpoint: true, axis: 0, dtype: None }
    }
}

/// Returns `num` numbers from `10^start` to `10^stop`, both included, with evenly spaced
/// logarithms:
/// `[num, …]` for operands of shape `[…]`.
///
/// ```
/// use oxidax::prelude::*;
/// assert_eq!(eval_shape(|| logspace(0.0, 3.0, 4), ())?.aval().to_string(), "f32[4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logspace(start: impl ArrayLike, stop: impl ArrayLike, num: usize) -> Array {
    logspace_with(start, stop, num, LogspaceOptions::default())
}

/// Returns powers with evenly spaced exponents, as [`logspace`], of another base, without the last,
/// along another axis or of another dtype.
#[track_caller]
pub fn logspace_with(
    start: impl ArrayLike,
    stop: impl ArrayLike,
    num: usize,
    options: LogspaceOptions<'_>,
) -> Array {
    let LogspaceOptions { base, endpoint, axis, dtype } = options;
    let exponents = LinspaceOptions { endpoint, axis, dtype: None };
    let powers = pow(base, linspace_with(start, stop, num, exponents));
    match dtype {
        Some(dtype) => convert_element_type(&powers, dtype),
        None => powers,
    }
}

/// Returns `num` numbers from `start` to `stop`, both included, each the same multiple of the
/// previous one: `[num, …]` for operands of shape `[…]`. NaN if real operands differ in sign or are
/// 0.
#[track_caller]
pub fn geomspace(start: impl ArrayLike, stop: impl ArrayLike, num: usize) -> Array {
    geomspace_with(start, stop, num, GeomspaceOptions::default())
}

/// Options of [`geomspace_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeomspaceOptions {
    /// Includes `stop` as the last number. The default is true.
    pub endpoint: bool,
    /// The new axis of the result. The default is 0.
    pub axis: isize,
    /// The dtype of the result. The default is the float dtype that the ends promote to.
    pub dtype: Option<DType>,
}

impl Default for GeomspaceOptions {
    fn default() -> Self {
        GeomspaceOptions { endpoint: true, axis: 0, dtype: None }
    }
}

/// Returns a geometric sequence, as [`geomspace`], without the last number, along another axis or
/// of another dtype.
#[track_caller]
pub fn geomspace_with(
    start: impl ArrayLike,
    stop: impl ArrayLike,
    num: usize,
    options: GeomspaceOptions,
) -> Array {
    let [start, stop] = promote_inexact("geomspace", [start.like(), stop.like()]);
    // Negative operands are spaced by their magnitudes.
    let sign = if start.dtype().is_complex() {
        div(&start, convert_element_type(&abs(&start), start.dtype()))
    } else {
        sign(&start)
    };
    let (low, high) = (div(&start, &sign), div(&stop, &sign));
    let GeomspaceOptions { endpoint, axis, dtype } = options;
    let exponents = LinspaceOptions { endpoint, ..LinspaceOptions::default() };
    let inner = exp(linspace_with(log(&low), log(&high), num, exponents));
    let middle = mul(&sign, inner);
    let one = start.shape().insert(0, 1);
    // The ends are the operands themselves, without rounding.
    let numbers = match (num, endpoint) {
        (0, _) | (1, true) => middle,
        (_, false) => concatenate([&reshape(&start, one), &slice_axis(&middle, 0, 1, num)], 0),
        (_, true) => {
            let between = slice_axis(&middle, 0, 1, num - 1);
            concatenate([&reshape(&start, one.clone()), &between, &reshape(&stop, one)], 0)
        }
    };
    let axis = expect_axis("geomspace", axis, numbers.rank(), &numbers);
    let numbers = move_axis(&numbers, 0, axis);
    match dtype {
        Some(dtype) => convert_element_type(&numbers, dtype),
        None => numbers,
    }
}
