//! Splitting an array into several.

use super::super::axis_slice::{expect_axis, slice_axis};
use crate::core::{Array, Loc, RuleError, trace};
use crate::primitives::{reshape, split_sizes};

/// Sections of an axis, for [`split`]: a number of sections, or the indices before which to split.
///
/// Converts from a number and from a list of indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sections {
    /// This number of sections.
    Count(usize),
    /// A section before the first index, between neighbouring indices, and after the last.
    Indices(Vec<usize>),
}

impl From<usize> for Sections {
    fn from(count: usize) -> Sections {
        Sections::Count(count)
    }
}

impl<const N: usize> From<[usize; N]> for Sections {
    fn from(indices: [usize; N]) -> Sections {
        Sections::Indices(indices.to_vec())
    }
}

impl From<&[usize]> for Sections {
    fn from(indices: &[usize]) -> Sections {
        Sections::Indices(indices.to_vec())
    }
}

impl From<Vec<usize>> for Sections {
    fn from(indices: Vec<usize>) -> Sections {
        Sections::Indices(indices)
    }
}

/// Splits `x` along `axis` into equal sections, or before each of a list of indices.
///
/// [`split_sizes`] takes sizes instead, as `lax.split`. Throws `Op` (shape) if the axis does not
/// divide into that number of sections, and if indices decrease or exceed its size.
///
/// ```
/// use oxidax::prelude::*;
/// let sizes = |x: Array| split(&x, [2, 3], 0);
/// let parts = eval_shape(sizes, Aval::new(DType::F32, [7]))?;
/// assert_eq!(parts.iter().map(|part| part.size()).collect::<Vec<_>>(), [2, 1, 4]);
/// let halves = eval_shape(|x: Array| split(&x, 2, -1), Aval::new(DType::F32, [3, 4]))?;
/// assert_eq!(halves[0].aval().to_string(), "f32[3,2]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn split(x: &Array, sections: impl Into<Sections>, axis: isize) -> Vec<Array> {
    Loc::caller().scope(|| {
        let resolved = expect_axis("split", axis, x.rank(), x);
        let size = x.shape()[resolved];
        match sections.into() {
            Sections::Indices(indices) => split_before("split", x, &indices, resolved),
            Sections::Count(count) if count == 0 || !size.is_multiple_of(count) => {
                let message = format!(
                    "axis {resolved} of size {size} does not split into {count} equal sections"
                );
                let error = RuleError::shape(message).help(
                    "pass the indices to split at, or use `array_split` for unequal sections",
                );
                trace::throw_operands("split", error, &[x])
            }
            Sections::Count(count) => {
                let indices: Vec<usize> = (1..count).map(|index| index * (size / count)).collect();
                split_before("split", x, &indices, resolved)
            }
        }
    })
}

/// Splits `x` along `axis` before each of `indices`.
#[track_caller]
fn split_before(name: &str, x: &Array, indices: &[usize], axis: usize) -> Vec<Array> {
    Loc::caller().scope(|| {
        let size = x.shape()[axis];
        if !indices.is_sorted() || indices.last().is_some_and(|&last| last > size) {
            let message = format!(
                "indices {indices:?} must not decrease or exceed the size {size} of axis {axis}"
            );
            trace::throw_operands(name, RuleError::shape(message), &[x]);
        }
        let starts = [0].iter().chain(indices);
        let ends = indices.iter().chain([&size]);
        let sizes: Vec<usize> = ends.zip(starts).map(|(end, start)| end - start).collect();
        split_sizes(x, &sizes, axis as isize)
    })
}

/// Splits `x` along `axis` as [`split`] does. The sizes of a number of sections may differ by one,
/// larger sections first.
///
/// Throws `Op` (value) for 0 sections, and `Op` (shape) for an axis out of range and for indices
/// that decrease or exceed its size.
///
/// ```
/// use oxidax::prelude::*;
/// let parts = eval_shape(|x: Array| array_split(&x, 3, 0), Aval::new(DType::F32, [7]))?;
/// let sizes: Vec<usize> = parts.iter().map(|part| part.size()).collect();
/// assert_eq!(sizes, [3, 2, 2]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn array_split(x: &Array, sections: impl Into<Sections>, axis: isize) -> Vec<Array> {
    let axis = expect_axis("array_split", axis, x.rank(), x);
    let indices = match sections.into() {
        Sections::Count(0) => {
            let error = RuleError::value("takes at least one section, got 0");
            trace::throw_operands("array_split", error, &[x])
        }
        Sections::Count(count) => {
            let (base, larger) = (x.shape()[axis] / count, x.shape()[axis] % count);
            (1..count).map(|index| index * base + index.min(larger)).collect()
        }
        Sections::Indices(indices) => indices,
    };
    split_before("array_split", x, &indices, axis)
}

#[track_caller]
fn expect_rank(name: &str, x: &Array, least: usize) {
    if x.rank() < least {
        let message = format!("takes an array of rank {least} and more, got {}", x.rank());
        trace::throw_operands(name, RuleError::shape(message), &[x]);
    }
}

/// Splits `x` along axis 0, as [`split`] does. Throws `Op` (shape) for arrays of rank below 2.
#[track_caller]
pub fn vsplit(x: &Array, sections: impl Into<Sections>) -> Vec<Array> {
    expect_rank("vsplit", x, 2);
    split(x, sections, 0)
}

/// Splits `x` along axis 1, or a vector along axis 0, as [`split`] does. Throws `Op` (shape) for a
/// scalar.
#[track_caller]
pub fn hsplit(x: &Array, sections: impl Into<Sections>) -> Vec<Array> {
    expect_rank("hsplit", x, 1);
    split(x, sections, if x.rank() == 1 { 0 } else { 1 })
}

/// Splits `x` along axis 2, as [`split`] does. Throws `Op` (shape) for arrays of rank below 3.
#[track_caller]
pub fn dsplit(x: &Array, sections: impl Into<Sections>) -> Vec<Array> {
    expect_rank("dsplit", x, 3);
    split(x, sections, 2)
}

/// Returns the slices of `x` along `axis`, without that axis. The inverse of
/// [`stack`](super::super::stack). Throws `Op` (shape) for an axis out of range.
#[track_caller]
pub fn unstack(x: &Array, axis: isize) -> Vec<Array> {
    let axis = expect_axis("unstack", axis, x.rank(), x);
    let mut slices = Vec::with_capacity(x.shape()[axis]);
    for index in 0..x.shape()[axis] {
        let slice = slice_axis(x, axis, index, index + 1);
        slices.push(reshape(&slice, x.shape().remove(axis)));
    }
    slices
}
