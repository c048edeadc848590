//! Ranks, most frequent values, and the error of a mean.

use super::super::axes::{Axes, Reduction};
use super::super::axis_slice::slice_axis;
use super::super::{isnan, take_along_axis};
use crate::core::{Array, DType, RuleError, trace};
use crate::primitives::rules::{move_axis, resolve_axis};
use crate::primitives::{
    add, argsort, broadcasted_iota as iota, concatenate, convert_element_type, cummax, cummin,
    cumsum, div, full, full_like, inexact, mul, ne, sort_key_val, sub, where_,
};

/// Which rank equal elements get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RankMethod {
    /// The mean of the ranks that they take together.
    #[default]
    Average,
    /// The lowest of them.
    Min,
    /// The highest of them.
    Max,
    /// As `Min`, the next value getting the next number.
    Dense,
    /// Each its own, in order.
    Ordinal,
}

/// Rows sorted along the last axis.
struct Runs {
    /// The sorted elements.
    values: Array,
    /// Where each came from.
    order: Array,
    /// Whether it differs from the one before.
    new: Array,
    /// The positions of the first and of the last that are equal to it.
    first: Array,
    last: Array,
}

#[track_caller]
fn runs(rows: &Array) -> Runs {
    let axis = rows.rank() - 1;
    let n = rows.shape()[axis];
    let position = iota(DType::I32, rows.shape(), axis);
    let (values, order) = sort_key_val(rows, &position, axis as isize);
    let (earlier, later) = (slice_axis(&values, axis, 0, n - 1), slice_axis(&values, axis, 1, n));
    let differs = ne(&earlier, &later) & !(isnan(&earlier) & isnan(&later));
    let edge = full(rows.shape().remove(axis).insert(axis, 1), true);
    let new = concatenate(&[&edge, &differs], axis as isize);
    let ends = concatenate(&[&differs, &edge], axis as isize);
    let first = cummax(&where_(&new, &position, 0), axis as isize, false);
    let last = cummin(&where_(&ends, &position, n as i32), axis as isize, true);
    Runs { values, order, new, first, last }
}

#[track_caller]
fn along(name: &str, x: &Array, axis: isize) -> usize {
    let resolved = resolve_axis(axis, x.rank()).and_then(|at| match x.shape()[at] {
        0 => Err(RuleError::shape(format!("axis {at} is empty"))),
        _ => Ok(at),
    });
    match resolved {
        Ok(at) => at,
        Err(error) => trace::throw_operands(name, error, &[x]),
    }
}

#[track_caller]
fn float(x: &Array) -> Array {
    convert_element_type(x, DType::F32)
}

/// The rank of each element along `axis`, smallest first, from 1 on, as `f32`; everything is NaN where
/// there is a NaN. For ranks among all elements flatten first.
///
/// Throws `Op` (shape) for an empty axis and one out of range.
///
/// ```
/// use oxidax::prelude::*;
/// let ranks = |x: Array| stats::rankdata(&x, stats::RankMethod::Average, -1);
/// assert_eq!(eval_shape(ranks, Aval::new(DType::F32, [2, 5]))?.aval().to_string(), "f32[2,5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn rankdata(x: &Array, method: RankMethod, axis: isize) -> Array {
    let at = along("rankdata", x, axis);
    let last = x.rank() - 1;
    let rows = move_axis(x, at, last);
    let Runs { order, new, first, last: end, .. } = runs(&rows);
    let rank = match method {
        RankMethod::Min => float(&add(&first, 1)),
        RankMethod::Max => float(&add(&end, 1)),
        RankMethod::Average => add(mul(add(float(&first), float(&end)), 0.5), 1.0),
        RankMethod::Dense => {
            float(&cumsum(&convert_element_type(&new, DType::I32), last as isize, false))
        }
        RankMethod::Ordinal => add(float(&iota(DType::I32, rows.shape(), last)), 1.0),
    };
    let back = take_along_axis(&rank, &argsort(&order, last as isize), last as isize);
    let spoilt = isnan(&rows).any_axes(super::super::axes(-1).keepdims());
    move_axis(&where_(&spoilt, full_like(&back, f64::NAN), back), last, at)
}

/// The most frequent value along `axis`, the smallest of several, and how often it occurs, `i32`. NaNs
/// count as one value.
///
/// Throws `Op` (shape) for an empty axis and one out of range.
#[track_caller]
pub fn mode(x: &Array, axis: isize) -> (Array, Array) {
    let at = along("mode", x, axis);
    let rows = move_axis(x, at, x.rank() - 1);
    let Runs { values, first, last, .. } = runs(&rows);
    let counts = add(sub(&last, &first), 1);
    let best = counts.argmax_axis(-1).expand_dims(-1);
    let value = take_along_axis(&values, &best, -1).squeeze_axes([-1]);
    (value, counts.max_axes(-1))
}

/// The standard error of the mean along `axes`: the standard deviation with `n - ddof` over `√n`. Integers
/// become floats; SciPy's `ddof` is 1.
#[track_caller]
pub fn sem(x: &Array, axes: impl Into<Axes>, ddof: f64) -> Array {
    let (x, axes) = (inexact(x), axes.into());
    let n: usize = axes.resolve("sem", &x).iter().map(|&axis| x.shape()[axis]).product();
    div(x.std_axes(Reduction::from(axes).ddof(ddof)), (n as f64).sqrt())
}
