//! Entries of an index into a [`Ref`](super::Ref).

use crate::core::{Array, Loc, OpErrorKind, Scalar, trace};
use crate::primitives::{ArrayLike, Like};
use std::ops::{Range, RangeFrom, RangeFull, RangeTo};

/// The first index of a slice: a number, or a scalar that the kernel computes.
#[derive(Clone, Debug)]
pub(super) enum RefStart {
    Static(usize),
    Dynamic(Array),
}

/// One entry of an index into a [`Ref`](super::Ref), for one axis: see [`Ref::at`](super::Ref::at).
#[derive(Clone, Debug)]
pub enum RefIndex {
    /// All indices of the axis.
    Full,
    /// One index. The axis is dropped.
    #[doc(hidden)]
    At(Start),
    /// A number of indices from a start on.
    #[doc(hidden)]
    Slice {
        /// The first index.
        start: Start,
        /// The number of indices.
        size: usize,
        /// The distance between two indices.
        stride: usize,
    },
    /// A range; the end of the axis for an end of `None`.
    #[doc(hidden)]
    Range(usize, Option<usize>),
}

/// A start index, a number or an array.
#[derive(Clone, Debug)]
pub struct Start(pub(super) RefStart);

impl Start {
    #[track_caller]
    fn of(start: impl ArrayLike) -> Start {
        match start.like() {
            Like::Array(x) if x.rank() == 0 && x.dtype().is_integer() => {
                Start(RefStart::Dynamic(x.clone()))
            }
            Like::Scalar(Scalar::Int(number)) if usize::try_from(number).is_ok() => {
                Start(RefStart::Static(number as usize))
            }
            Like::Array(x) => refuse(&format!("an integer scalar, got {}", x.aval())),
            Like::Scalar(number) => {
                refuse(&format!("an integer that is not negative, got {}", number.as_f64()))
            }
        }
    }
}

#[track_caller]
fn refuse(found: &str) -> ! {
    let message = format!("an index of a Ref must be {found}");
    trace::throw_op(OpErrorKind::Value, "Ref::at", message, Loc::caller())
}

/// Returns the `size` indices of an axis from `start` on, a number or an integer scalar that the
/// kernel computes.
///
/// ```
/// use oxidax::kernel::{self, BlockSpec, Grid, Output, Ref, ds};
/// use oxidax::prelude::*;
/// // Adds the four rows of a block.
/// let sums = kernel::call(
///     |[x, y]: [Ref; 2]| {
///         let step = |i: Array, total: Array| total + x.at((ds(&i, 1), ..)).load();
///         let total = kernel::fori_loop(0, 4, step, zeros([1, 128]));
///         y.store(total);
///     },
///     Grid::new([1]),
///     [BlockSpec::whole()],
///     [Output::new(DType::F32, [1, 128], BlockSpec::whole())],
/// );
/// let x = Aval::new(DType::F32, [4, 128]);
/// let y = eval_shape(|x: Array| sums.apply1(&[&x]), x)?;
/// assert_eq!(y.aval().to_string(), "f32[1,128]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn ds(start: impl ArrayLike, size: usize) -> RefIndex {
    RefIndex::Slice { start: Start::of(start), size, stride: 1 }
}

/// Returns `size` indices of an axis from `start` on, `stride` apart: [`ds`] with a stride.
#[track_caller]
pub fn ds_strided(start: impl ArrayLike, size: usize, stride: usize) -> RefIndex {
    if stride == 0 {
        refuse("a slice with a stride of at least 1, got 0");
    }
    RefIndex::Slice { start: Start::of(start), size, stride }
}

macro_rules! ranges {
    ($($number:ty),*) => {$(
        impl From<Range<$number>> for RefIndex {
            #[track_caller]
            fn from(range: Range<$number>) -> RefIndex {
                RefIndex::Range(bound(range.start as i128), Some(bound(range.end as i128)))
            }
        }

        impl From<RangeFrom<$number>> for RefIndex {
            #[track_caller]
            fn from(range: RangeFrom<$number>) -> RefIndex {
                RefIndex::Range(bound(range.start as i128), None)
            }
        }

        impl From<RangeTo<$number>> for RefIndex {
            #[track_caller]
            fn from(range: RangeTo<$number>) -> RefIndex {
                RefIndex::Range(0, Some(bound(range.end as i128)))
            }
        }
    )*};
}

ranges!(usize, i32);

/// Checks the bound of a range.
#[track_caller]
fn bound(number: i128) -> usize {
    match usize::try_from(number) {
        Ok(number) => number,
        Err(_) => refuse(&format!("an integer that is not negative, got {number}")),
    }
}

impl From<RangeFull> for RefIndex {
    fn from(_: RangeFull) -> RefIndex {
        RefIndex::Full
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for RefIndex {
            #[track_caller]
            fn from(index: $number) -> RefIndex {
                RefIndex::At(Start::of(index))
            }
        }
    )*};
}

numbers!(i32, usize, Array, &Array);

/// The indices of a part of a [`Ref`](super::Ref): one entry for each axis, as a tuple or an array.
///
/// An entry is a number or an integer scalar, which drops the axis; a range; `..` for a whole axis;
/// or a [`ds`]. Missing entries at the end take whole axes.
pub trait RefIndices {
    /// Returns the entries.
    #[track_caller]
    fn into_entries(self) -> Vec<RefIndex>;
}

impl<const N: usize> RefIndices for [RefIndex; N] {
    fn into_entries(self) -> Vec<RefIndex> {
        self.into()
    }
}

impl RefIndices for RefIndex {
    fn into_entries(self) -> Vec<RefIndex> {
        vec![self]
    }
}

macro_rules! tuples {
    ($($($entry:ident $index:tt),+;)*) => {$(
        impl<$($entry: Into<RefIndex>),+> RefIndices for ($($entry,)+) {
            #[track_caller]
            fn into_entries(self) -> Vec<RefIndex> {
                vec![$(self.$index.into()),+]
            }
        }
    )*};
}

tuples!(
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
);
