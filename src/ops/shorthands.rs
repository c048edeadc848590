//! Methods of [`Array`] that say the same as a function, where NumPy's arrays have them.

use super::axes::Axes;
use super::{diagonal, repeat, searchsorted, take, trace};
use crate::core::{Array, DType};
use crate::primitives::{ArrayLike, argsort, bitcast_convert_type, round, sort};

/// Ordering and picking.
impl Array {
    /// The array sorted along `axis`, smallest first, NaN last. See [`sort`].
    #[track_caller]
    pub fn sort(&self, axis: isize) -> Array {
        sort(self, axis)
    }

    /// The positions, `i32`, that sort the array along `axis`. See [`argsort`].
    #[track_caller]
    pub fn argsort(&self, axis: isize) -> Array {
        argsort(self, axis)
    }

    /// The array with the element that belongs at `kth` along `axis` there. See
    /// [`partition`](super::partition).
    #[track_caller]
    pub fn partition(&self, kth: isize, axis: isize) -> Array {
        super::partition(self, kth, axis)
    }

    /// The positions that [`Array::partition`] takes elements from.
    #[track_caller]
    pub fn argpartition(&self, kth: isize, axis: isize) -> Array {
        super::argpartition(self, kth, axis)
    }

    /// Where values go in this sorted vector. See [`searchsorted`].
    #[track_caller]
    pub fn searchsorted(&self, values: impl ArrayLike) -> Array {
        searchsorted(self, values)
    }

    /// Slices along `axis` at the positions `indices`. See [`take`].
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let y = eval_shape(|x: Array| x.take(&arange(2), 1), Aval::new(DType::F32, [3, 5]))?;
    /// assert_eq!(y.aval().to_string(), "f32[3,2]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn take(&self, indices: &Array, axis: isize) -> Array {
        take(self, indices, axis)
    }

    /// The positions of elements other than zero. See [`nonzero`](super::nonzero).
    #[track_caller]
    pub fn nonzero(&self, size: usize, fill_value: i32) -> Vec<Array> {
        super::nonzero(self, size, fill_value)
    }

    /// Each element `repeats` times in a row along `axis`. See [`repeat`].
    #[track_caller]
    pub fn repeat(&self, repeats: usize, axis: isize) -> Array {
        repeat(self, repeats, axis)
    }
}

/// Elements as numbers and as bits.
impl Array {
    /// Each element rounded to a whole number, halves to even. See [`round`].
    #[track_caller]
    pub fn round(&self) -> Array {
        round(self)
    }

    /// Largest minus smallest element along `axes`. See [`ptp`](super::ptp).
    #[track_caller]
    pub fn ptp(&self, axes: impl Into<Axes>) -> Array {
        super::ptp(self, axes)
    }

    /// Diagonal `offset` of the last two axes. See [`diagonal`].
    #[track_caller]
    pub fn diagonal(&self, offset: isize) -> Array {
        diagonal(self, offset)
    }

    /// Sum of diagonal `offset` of the last two axes. See [`trace`].
    #[track_caller]
    pub fn trace(&self, offset: isize) -> Array {
        trace(self, offset)
    }

    /// The array with its last two axes exchanged. See [`matrix_transpose`](super::matrix_transpose).
    #[doc(alias = "mT")]
    #[track_caller]
    pub fn mt(&self) -> Array {
        super::matrix_transpose(self)
    }

    /// The elements' bits as another dtype. See [`bitcast_convert_type`].
    #[track_caller]
    pub fn view(&self, dtype: DType) -> Array {
        bitcast_convert_type(self, dtype)
    }
}
