//! Padding with NumPy's modes.

use super::pad_values::with_values;
use super::{clip, remainder, take};
use crate::core::{Array, DType, Loc, RuleError, Scalar, trace};
use crate::primitives::{ArrayLike, PaddingDim, iota, lax_pad, minimum, sub};

/// Numbers of elements that [`pad`] adds before and after each axis.
///
/// Converts from one number for all sides, from one `(before, after)` pair for all axes, and from a
/// list with one pair for each axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PadWidth {
    /// One `(before, after)` pair for all axes.
    AllAxes(usize, usize),
    /// One `(before, after)` pair for each axis.
    PerAxis(Vec<(usize, usize)>),
}

impl From<usize> for PadWidth {
    fn from(width: usize) -> PadWidth {
        PadWidth::AllAxes(width, width)
    }
}

impl From<(usize, usize)> for PadWidth {
    fn from((before, after): (usize, usize)) -> PadWidth {
        PadWidth::AllAxes(before, after)
    }
}

impl<const N: usize> From<[(usize, usize); N]> for PadWidth {
    fn from(widths: [(usize, usize); N]) -> PadWidth {
        PadWidth::PerAxis(widths.to_vec())
    }
}

impl From<Vec<(usize, usize)>> for PadWidth {
    fn from(widths: Vec<(usize, usize)>) -> PadWidth {
        PadWidth::PerAxis(widths)
    }
}

/// Values that [`pad_with`] pads with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    /// One value, converted to the dtype of the operand.
    Constant(Scalar),
    /// Values that nothing reads. They are zeros, as in JAX.
    Empty,
    /// The element at the edge.
    Edge,
    /// A mirror image that does not repeat the element at the edge.
    Reflect,
    /// A mirror image that repeats the element at the edge.
    Symmetric,
    /// The elements from the opposite end.
    Wrap,
    /// A statistic of the first elements before the axis, and of the last after it.
    #[doc(alias = "maximum")]
    Statistic {
        /// The statistic.
        statistic: PadStatistic,
        /// The number of elements that it is computed from; all of the axis if `None`.
        stat_length: Option<usize>,
    },
    /// Numbers from a value at the outer end to the element at the edge.
    LinearRamp(Scalar),
    /// As [`PadMode::Reflect`], with values mirrored at the element at the edge too: `2 e - x`.
    ReflectOdd,
    /// As [`PadMode::Symmetric`], with values mirrored at the element at the edge too.
    SymmetricOdd,
}

/// Statistic of [`PadMode::Statistic`]. That of integers is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PadStatistic {
    /// The largest element.
    Maximum,
    /// The smallest element.
    Minimum,
    /// The mean.
    Mean,
    /// The median.
    Median,
}

/// Options of [`pad_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PadOptions {
    /// The values to pad with. The default is [`PadMode::Constant`] of 0.
    pub mode: PadMode,
}

impl Default for PadOptions {
    fn default() -> Self {
        PadOptions { mode: PadMode::Constant(Scalar::Int(0)) }
    }
}

/// Pads `x` with zeros. [`lax_pad`] also takes negative and interior padding.
///
/// Throws `Op` (shape) if the number of pairs differs from the rank of `x`.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Aval::new(DType::F32, [2, 3]);
/// let y = eval_shape(|x: Array| pad(&x, [(0, 0), (1, 2)]), x.clone())?;
/// assert_eq!(y.aval().to_string(), "f32[2,6]");
/// assert_eq!(eval_shape(|x: Array| pad(&x, 1), x)?.aval().to_string(), "f32[4,5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn pad(x: impl ArrayLike, pad_width: impl Into<PadWidth>) -> Array {
    pad_axes(&x.to_array(), pad_width.into(), PadOptions::default())
}

/// Pads `x` with the values that [`PadOptions::mode`] selects.
///
/// Throws `Op` (shape) if the number of pairs differs from the rank of `x`, and for an empty axis
/// unless the mode is [`PadMode::Constant`] or [`PadMode::Empty`]. Throws `Op` (dtype) for a
/// constant that is not an integer if `x` is an integer array.
///
/// ```
/// use oxidax::prelude::*;
/// let reflect = PadOptions { mode: PadMode::Reflect };
/// let y = eval_shape(move |x: Array| pad_with(&x, (2, 2), reflect), Aval::new(DType::F32, [5]))?;
/// assert_eq!(y.aval().to_string(), "f32[9]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn pad_with(x: impl ArrayLike, pad_width: impl Into<PadWidth>, options: PadOptions) -> Array {
    pad_axes(&x.to_array(), pad_width.into(), options)
}

#[track_caller]
fn pad_axes(x: &Array, pad_width: PadWidth, options: PadOptions) -> Array {
    let widths = match pad_width {
        PadWidth::AllAxes(before, after) => vec![(before, after); x.rank()],
        PadWidth::PerAxis(widths) => widths,
    };
    if widths.len() != x.rank() {
        let message = format!("{} pairs of widths for an array of rank {}", widths.len(), x.rank());
        trace::throw_operands("pad", RuleError::shape(message), &[x]);
    }
    let constant = match options.mode {
        PadMode::Constant(value) => Some(value),
        PadMode::Empty => Some(Scalar::Int(0)),
        _ => None,
    };
    if let Some(value) = constant {
        let dims: Vec<PaddingDim> = widths
            .iter()
            .map(|&(low, high)| PaddingDim { low: low as isize, high: high as isize, interior: 0 })
            .collect();
        return lax_pad(x, value, &dims);
    }
    let mut padded = x.clone();
    for (axis, &width) in widths.iter().enumerate() {
        if width == (0, 0) {
            continue;
        }
        if x.shape()[axis] == 0 {
            let message = format!("axis {axis} is empty, so there are no elements to pad with");
            trace::throw_operands("pad", RuleError::shape(message), &[x]);
        }
        if let PadMode::Statistic { stat_length: Some(0), .. } = options.mode {
            let error = RuleError::value("a statistic of no elements has no value");
            trace::throw_operands("pad", error, &[x]);
        }
        if let Some(computed) = with_values(&padded, axis, width, options.mode) {
            padded = computed;
            continue;
        }
        let size = x.shape()[axis];
        let indices = Loc::caller().scope(|| padded_indices(size, width, options.mode));
        padded = take(&padded, &indices, axis as isize);
    }
    padded
}

/// Returns, for each position of a padded axis of `size` elements, the index of its element.
fn padded_indices(size: usize, (before, after): (usize, usize), mode: PadMode) -> Array {
    let n = size as i32;
    let position = sub(iota(DType::I32, before + size + after), before as i32);
    // A mirrored axis repeats with the period of the axis and its mirror image.
    let mirrored = |period: i32, last: i32| {
        let phase = remainder(&position, period);
        minimum(&phase, sub(last, &phase))
    };
    match mode {
        PadMode::Edge => clip(&position, 0, n - 1),
        PadMode::Wrap => remainder(&position, n),
        PadMode::Reflect if n > 1 => mirrored(2 * (n - 1), 2 * (n - 1)),
        PadMode::Symmetric => mirrored(2 * n, 2 * n - 1),
        _ => remainder(&position, n),
    }
}
