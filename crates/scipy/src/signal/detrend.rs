//! Removal of trends.

use crate::operands::{axis_of, common_inexact, counting, part, throw_value};
use oxidax::core::Loc;
use oxidax::prelude::*;

/// Trend that [`detrend_with`] removes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DetrendType {
    /// The line of least squares, in each piece between break points.
    #[default]
    Linear,
    /// The mean.
    Constant,
}

/// Options of [`detrend_with`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetrendOptions {
    /// The axis of time. The default is -1.
    pub axis: isize,
    /// The trend. JAX's name is `type`.
    #[doc(alias = "type")]
    pub trend: DetrendType,
    /// Indices at which the pieces of a linear trend begin. JAX's name is `bp`.
    #[doc(alias = "bp")]
    pub break_points: Vec<usize>,
}

impl Default for DetrendOptions {
    fn default() -> Self {
        DetrendOptions { axis: -1, trend: DetrendType::Linear, break_points: Vec::new() }
    }
}

/// Subtracts the line of least squares from `x` along the last axis. Integers become floats.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::signal;
/// let y = signal::detrend(&array![1.0, 3.0, 5.0, 7.0]);
/// assert!(allclose(&y, 0.0).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn detrend(x: &Array) -> Array {
    detrend_with(x, &DetrendOptions::default())
}

/// Returns [`detrend`] with options.
///
/// Throws `Op` (shape) for an axis out of range, and `Op` (value) for a break point beyond the
/// axis.
#[track_caller]
pub fn detrend_with(x: &Array, options: &DetrendOptions) -> Array {
    let axis = axis_of("detrend", options.axis, x);
    let n = x.shape()[axis];
    let [x] = common_inexact([x]);
    if options.trend == DetrendType::Constant {
        return &x - x.mean_axes(oxidax::ops::axes(axis as isize).keepdims());
    }
    if let Some(point) = options.break_points.iter().find(|&&point| point > n) {
        let message = format!("break point {point} is beyond axis {axis}, which has size {n}");
        throw_value("detrend", message, &[&x]);
    }
    let mut bounds: Vec<usize> = options.break_points.iter().copied().chain([0, n]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    Loc::caller().scope(|| {
        let pieces =
            bounds.windows(2).map(|ends| without_line(&part(&x, ends[0]..ends[1], axis), axis));
        let pieces: Vec<Array> = pieces.collect();
        match &pieces[..] {
            [] => x.clone(),
            [piece] => piece.clone(),
            pieces => concatenate(pieces, axis as isize),
        }
    })
}

/// Subtracts the line of least squares. Time is centred, so that slope and mean are independent.
fn without_line(x: &Array, axis: usize) -> Array {
    let n = x.shape()[axis];
    let over = || oxidax::ops::axes(axis as isize).keepdims();
    let level = x - x.mean_axes(over());
    if n < 2 {
        return level;
    }
    let mut shape = vec![1; x.rank()];
    shape[axis] = n;
    let time = (counting(n, x.dtype()) - (n as f64 - 1.0) / 2.0).reshape(shape);
    let squares = n as f64 * (n as f64 * n as f64 - 1.0) / 12.0;
    let slope = (&level * &time).sum_axes(over()) * (1.0 / squares);
    level - slope * time
}
