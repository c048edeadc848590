//! Entries of an index: [`Index`], and the macro `i!`.

use crate::core::{Array, throw};
use std::convert::Infallible;
use std::iter::{Rev, StepBy};
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// Entry of an index, usually created by [`i!`](crate::i).
#[derive(Clone, Debug)]
pub enum Index {
    /// One index along an axis, which is dropped; negative indices count from the end.
    At(isize),
    /// Indices `start..stop` with a step. As in Python, negative bounds count from the end, and
    /// bounds beyond the axis are clipped.
    Slice {
        /// The first index; the start of the axis if `None`, or its end if `step` is negative.
        start: Option<isize>,
        /// The index before which to stop; the other end of the axis if `None`.
        stop: Option<isize>,
        /// The distance between indices, not 0.
        step: isize,
    },
    /// A new axis of size 1.
    NewAxis,
    /// All remaining axes.
    Ellipsis,
    /// Indices in an integer array, or a mask, which may be a scalar.
    Array(Array),
}

/// A new axis of size 1 in an index, as `None`.
#[derive(Clone, Copy, Debug)]
pub struct NewAxis;

/// All remaining axes in an index, as `...` in [`i!`](crate::i).
#[derive(Clone, Copy, Debug)]
pub struct Ellipsis;

/// Returns a range with a step: `strided(1..9, 2)`, or `strided(.., -1)` to reverse an axis.
pub fn strided(range: impl Into<Index>, step: isize) -> Index {
    match range.into() {
        Index::Slice { start, stop, .. } => Index::Slice { start, stop, step },
        other => other,
    }
}

const fn slice(start: Option<isize>, stop: Option<isize>) -> Index {
    Index::Slice { start, stop, step: 1 }
}

/// Returns the bound after an inclusive last index; -1 is the end of the axis.
fn after(last: isize) -> Option<isize> {
    if last == -1 { None } else { Some(last + 1) }
}

/// Converts a finite arithmetic sequence of indices to a slice.
fn sequence(mut indices: impl DoubleEndedIterator<Item = isize>) -> Index {
    let Some(start) = indices.next() else { return slice(Some(0), Some(0)) };
    let Some(second) = indices.next() else { return slice(Some(start), after(start)) };
    let (last, step) = (indices.next_back().unwrap_or(second), second - start);
    let stop = match step {
        1.. => after(last),
        // Before the first index of the axis there is no bound.
        _ if last == 0 => None,
        _ => Some(last - 1),
    };
    Index::Slice { start: Some(start), stop, step }
}

macro_rules! from_integers {
    ($($int:ty),*) => {$(
        impl From<$int> for Index {
            fn from(index: $int) -> Index {
                Index::At(index as isize)
            }
        }

        impl From<Range<$int>> for Index {
            fn from(range: Range<$int>) -> Index {
                slice(Some(range.start as isize), Some(range.end as isize))
            }
        }

        impl From<RangeInclusive<$int>> for Index {
            fn from(range: RangeInclusive<$int>) -> Index {
                slice(Some(*range.start() as isize), after(*range.end() as isize))
            }
        }

        impl From<RangeFrom<$int>> for Index {
            fn from(range: RangeFrom<$int>) -> Index {
                slice(Some(range.start as isize), None)
            }
        }

        impl From<RangeTo<$int>> for Index {
            fn from(range: RangeTo<$int>) -> Index {
                slice(None, Some(range.end as isize))
            }
        }

        impl From<RangeToInclusive<$int>> for Index {
            fn from(range: RangeToInclusive<$int>) -> Index {
                slice(None, after(range.end as isize))
            }
        }

        impl From<StepBy<Range<$int>>> for Index {
            fn from(range: StepBy<Range<$int>>) -> Index {
                sequence(range.map(|index| index as isize))
            }
        }

        impl From<Rev<Range<$int>>> for Index {
            fn from(range: Rev<Range<$int>>) -> Index {
                sequence(range.map(|index| index as isize))
            }
        }

        impl From<StepBy<RangeFrom<$int>>> for Index {
            fn from(mut range: StepBy<RangeFrom<$int>>) -> Index {
                let indices = (range.next(), range.next());
                let (Some(start), Some(second)) = indices else { return slice(Some(0), Some(0)) };
                let (start, second) = (start as isize, second as isize);
                Index::Slice { start: Some(start), stop: None, step: second - start }
            }
        }
    )*};
}

from_integers!(i32, isize, usize);

impl From<RangeFull> for Index {
    fn from(_: RangeFull) -> Index {
        slice(None, None)
    }
}

impl From<NewAxis> for Index {
    fn from(_: NewAxis) -> Index {
        Index::NewAxis
    }
}

impl From<Option<Infallible>> for Index {
    fn from(_: Option<Infallible>) -> Index {
        Index::NewAxis
    }
}

impl From<Ellipsis> for Index {
    fn from(_: Ellipsis) -> Index {
        Index::Ellipsis
    }
}

/// A scalar mask.
impl From<bool> for Index {
    #[track_caller]
    fn from(mask: bool) -> Index {
        match Array::from_slice(&[mask], []) {
            Ok(mask) => Index::Array(mask),
            Err(error) => throw(error),
        }
    }
}

impl From<&Array> for Index {
    fn from(indices: &Array) -> Index {
        Index::Array(indices.clone())
    }
}

impl From<Array> for Index {
    fn from(indices: Array) -> Index {
        Index::Array(indices)
    }
}

/// Creates a list of [`Index`](crate::ops::Index) entries for
/// [`Array::index`](crate::core::Array::index): indices, ranges, `...` for all remaining axes,
/// `None` for a new axis, integer arrays, masks, and `true` and `false` for scalar masks.
///
/// A step is written `::2`, `1::2` or `::-1` with literals, `strided(range, step)` with variables,
/// or `(1..9).step_by(2)`.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Aval::new(DType::F32, [4, 5, 6]);
/// let shape = |f: fn(&Array) -> Array| eval_shape(move |x: Array| f(&x), x.clone());
/// assert_eq!(shape(|x| x.index(i![0]))?.aval().to_string(), "f32[5,6]");
/// assert_eq!(shape(|x| x.index(i![..., 1..3]))?.aval().to_string(), "f32[4,5,2]");
/// assert_eq!(shape(|x| x.index(i![-1, strided(.., -2), None]))?.aval().to_string(), "f32[3,1,6]");
/// assert_eq!(shape(|x| x.index(i![::2, 1::2, ::-1]))?.aval().to_string(), "f32[2,2,6]");
/// assert_eq!(shape(|x| x.index(i![(0..4).step_by(3)]))?.aval().to_string(), "f32[2,5,6]");
/// assert_eq!(shape(|x| x.index(i![&arange(3), .., &arange(3)]))?.aval().to_string(), "f32[3,5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[macro_export]
macro_rules! i {
    (@list [$($done:tt)*]) => { [$($done)*] };
    (@list [$($done:tt)*] ... $(, $($rest:tt)*)?) => {
        $crate::i!(@list [$($done)* $crate::ops::Index::Ellipsis,] $($($rest)*)?)
    };
    (@list [$($done:tt)*] :: $step:literal $(, $($rest:tt)*)?) => {
        $crate::i!(@list [$($done)* $crate::ops::strided(.., $step),] $($($rest)*)?)
    };
    (@list [$($done:tt)*] $start:literal :: $step:literal $(, $($rest:tt)*)?) => {
        $crate::i!(@list [$($done)* $crate::ops::strided($start.., $step),] $($($rest)*)?)
    };
    (@list [$($done:tt)*] $index:expr $(, $($rest:tt)*)?) => {
        $crate::i!(@list [$($done)* $crate::ops::Index::from($index),] $($($rest)*)?)
    };
    () => { [] as [$crate::ops::Index; 0] };
    ($($entries:tt)*) => {{
        #[allow(clippy::reversed_empty_ranges, reason = "negative bounds count from the end")]
        let indices = $crate::i!(@list [] $($entries)*);
        indices
    }};
}
