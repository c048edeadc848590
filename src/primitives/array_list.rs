//! [`ArrayList`]: several arrays as one argument.

use super::constant::scalar;
use super::promote::{ArrayLike, Like};
use crate::core::{Array, Scalar};

/// An entry of an [`ArrayList`]: an array or a number.
#[derive(Clone, Debug)]
pub enum ListEntry {
    /// An array. Its elements are shared, not copied.
    Array(Array),
    /// A number, weakly typed.
    Scalar(Scalar),
}

impl ListEntry {
    fn of(entry: &impl ArrayLike) -> ListEntry {
        match entry.like() {
            Like::Array(x) => ListEntry::Array(x.clone()),
            Like::Scalar(value) => ListEntry::Scalar(value),
        }
    }
}

impl ArrayLike for ListEntry {
    fn like(&self) -> Like<'_> {
        match self {
            ListEntry::Array(x) => Like::Array(x),
            ListEntry::Scalar(value) => Like::Scalar(*value),
        }
    }
}

/// Several arrays as one argument, owned or borrowed: an array or slice, a vector, an iterator, or
/// a tuple, which may mix both with numbers.
///
/// Entries are arrays or numbers; a number becomes a weakly typed scalar. The arrays share their
/// elements with the list, so a borrowed list costs as much as an owned one. `Form` tells sequences
/// from tuples and is always inferred.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, y) = (Aval::new(DType::F32, [3]), Aval::new(DType::F32, [3]));
/// let stacked = |x: Array, y: Array| {
///     let rows = vec![x.clone(), y.clone()];
///     vec![
///         stack([&x, &y], 0),
///         stack(&rows, 0),
///         stack(rows.iter().map(|row| row * 2.0), 0),
///         stack((&x, y), 0),
///         stack((1.0, x.sum()), 0),
///     ]
/// };
/// let shapes = eval_shape(stacked, (x, y))?;
/// assert!(shapes[..4].iter().all(|x| x.shape().dims() == [2, 3]));
/// assert_eq!(shapes[4].aval().to_string(), "f32[2]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of arrays",
    note = "write `[&x, &y]`, a vector, a slice or an iterator of arrays, or a tuple, `(x, &y, 0.5)`"
)]
pub trait ArrayList<Form> {
    /// Returns the entries in order.
    #[track_caller]
    fn into_entries(self) -> Vec<ListEntry>;

    /// Returns the entries in order, as arrays.
    #[track_caller]
    fn into_arrays(self) -> Vec<Array>
    where
        Self: Sized,
    {
        let entries = self.into_entries();
        let mut arrays = Vec::with_capacity(entries.len());
        for entry in entries {
            arrays.push(match entry {
                ListEntry::Array(x) => x,
                ListEntry::Scalar(value) => scalar(value),
            });
        }
        arrays
    }
}

/// The form of an [`ArrayList`] that is iterated over.
#[derive(Debug)]
pub enum SequenceForm {}

/// The form of an [`ArrayList`] that is a tuple.
#[derive(Debug)]
pub enum TupleForm {}

impl<I> ArrayList<SequenceForm> for I
where
    I: IntoIterator,
    I::Item: ArrayLike,
{
    // A scalar array has no entries to iterate over: an error at the caller's line.
    #[track_caller]
    fn into_entries(self) -> Vec<ListEntry> {
        self.into_iter().map(|entry| ListEntry::of(&entry)).collect()
    }
}

macro_rules! tuples {
    ($($($entry:ident $index:tt),*;)*) => {$(
        impl<$($entry: ArrayLike),*> ArrayList<TupleForm> for ($($entry,)*) {
            fn into_entries(self) -> Vec<ListEntry> {
                vec![$(ListEntry::of(&self.$index)),*]
            }
        }
    )*};
}

tuples!(
    ;
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
);

/// Returns references to the arrays of a list.
pub(crate) fn references(arrays: &[Array]) -> Vec<&Array> {
    arrays.iter().collect()
}
