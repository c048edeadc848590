//! NumPy-like methods of [`Array`]: shapes, dtypes, products, ordering and selection.
//!
//! Reductions are in `reductions.rs`, elementwise functions in `elementwise.rs`.

use super::partial_shape::{PartialShape, infer_shape};
use super::{
    Axes, Repeats, argpartition, diagonal, dot, flip, matmul, matrix_transpose, nonzero, partition,
    ptp, repeat, searchsorted, swapaxes, take, trace,
};
use crate::core::{Array, DType, RuleError, Shape, trace as tracing};
use crate::primitives::rules::{resolve_axis, without_axes};
use crate::primitives::{
    ArrayLike, argsort, bitcast_convert_type, broadcast_to, convert_element_type, reshape,
    resolve_axes, round, sort, transpose,
};

/// The order in which elements of an array are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ElementOrder {
    /// The last axis varies fastest, NumPy's order `C`.
    #[default]
    RowMajor,
    /// The first axis varies fastest, NumPy's order `F`.
    ColumnMajor,
}

/// Options of [`Array::reshape_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReshapeOptions {
    /// The order of the elements. The default is [`ElementOrder::RowMajor`].
    pub order: ElementOrder,
}

/// Shape and dtype.
impl Array {
    /// Returns the same elements in row-major order under another shape. One size may be -1 and is
    /// inferred from the others. Parts of shapes are joined in a tuple.
    ///
    /// Throws `Op` (shape) if the number of elements differs.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let y = eval_shape(|x: Array| x.reshape([2, -1]), Aval::new(DType::F32, [4, 3]))?;
    /// assert_eq!(y.aval().to_string(), "f32[2,6]");
    /// let heads = |x: Array| x.reshape((&x.shape()[..2], 4, -1));
    /// let y = eval_shape(heads, Aval::new(DType::F32, [8, 16, 32]))?;
    /// assert_eq!(y.aval().to_string(), "f32[8,16,4,8]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn reshape(&self, shape: impl PartialShape) -> Array {
        match infer_shape(&shape.sizes(), self.shape()) {
            Ok(shape) => reshape(self, shape),
            Err(error) => tracing::throw_operands("reshape", error, &[self]),
        }
    }

    /// Returns the same elements under another shape, read and written in the order of the options.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let x = array![[1, 2, 3], [4, 5, 6]];
    /// let columns = ReshapeOptions { order: ElementOrder::ColumnMajor };
    /// assert_eq!(x.reshape_with([-1], columns).to_vec::<i32>()?, [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn reshape_with(&self, shape: impl PartialShape, options: ReshapeOptions) -> Array {
        let shape = match infer_shape(&shape.sizes(), self.shape()) {
            Ok(shape) => shape,
            Err(error) => tracing::throw_operands("reshape", error, &[self]),
        };
        match options.order {
            ElementOrder::RowMajor => reshape(self, shape),
            ElementOrder::ColumnMajor => {
                let reversed: Shape = shape.iter().rev().copied().collect();
                reshape(&self.transpose(), reversed).transpose()
            }
        }
    }

    /// Returns all elements, in row-major order, as a vector.
    #[doc(alias = "ravel")]
    #[track_caller]
    pub fn flatten(&self) -> Array {
        reshape(self, [self.size()])
    }

    /// Reverses the order of the axes: the transpose of a matrix.
    #[doc(alias = "T")]
    #[track_caller]
    pub fn t(&self) -> Array {
        let order: Vec<usize> = (0..self.rank()).rev().collect();
        transpose(self, &order)
    }

    /// Reverses the order of the axes, as [`t`](Self::t). [`transpose_axes`](Self::transpose_axes)
    /// takes an order.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let x = Aval::new(DType::F32, [2, 3, 4]);
    /// let y = eval_shape(|x: Array| x.transpose(), x)?;
    /// assert_eq!(y.aval().to_string(), "f32[4,3,2]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn transpose(&self) -> Array {
        self.t()
    }

    /// Permutes the axes: axis `i` of the result is axis `permutation[i]`. Negative axes count from
    /// the end.
    ///
    /// Throws `Op` (shape) if `permutation` is not a permutation of the axes.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let x = Aval::new(DType::F32, [2, 3, 4]);
    /// let y = eval_shape(|x: Array| x.transpose_axes([1, 0, -1]), x)?;
    /// assert_eq!(y.aval().to_string(), "f32[3,2,4]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "permute_dims")]
    #[track_caller]
    pub fn transpose_axes(&self, permutation: impl AsRef<[isize]>) -> Array {
        let resolved: Result<Vec<usize>, RuleError> =
            permutation.as_ref().iter().map(|&axis| resolve_axis(axis, self.rank())).collect();
        match resolved {
            Ok(order) => transpose(self, &order),
            Err(error) => tracing::throw_operands("transpose", error, &[self]),
        }
    }

    /// Exchanges two axes, as [`swapaxes`]. Throws `Op` (shape) for axes out of range.
    #[track_caller]
    pub fn swapaxes(&self, axis1: isize, axis2: isize) -> Array {
        swapaxes(self, axis1, axis2)
    }

    /// Exchanges the last two axes, as [`matrix_transpose`].
    #[doc(alias = "mT")]
    #[track_caller]
    pub fn mt(&self) -> Array {
        matrix_transpose(self)
    }

    /// Reverses the order of the elements along `axes`, as [`flip`]. Throws `Op` (shape) for axes
    /// out of range.
    #[track_caller]
    pub fn flip(&self, axes: impl Into<Axes>) -> Array {
        flip(self, axes)
    }

    /// Drops all axes of size 1.
    #[track_caller]
    pub fn squeeze(&self) -> Array {
        reshape(self, self.shape().iter().copied().filter(|&size| size != 1).collect::<Shape>())
    }

    /// Drops the listed axes, which must have size 1. Negative axes count from the end.
    ///
    /// Throws `Op` (shape) for other sizes and for axes out of range.
    #[track_caller]
    pub fn squeeze_axes(&self, axes: impl AsRef<[isize]>) -> Array {
        let dropped = resolve_axes("squeeze", self, axes.as_ref());
        if let Some(&axis) = dropped.iter().find(|&&axis| self.shape()[axis] != 1) {
            let message = format!("axis {axis} has size {}, not 1", self.shape()[axis]);
            tracing::throw_operands("squeeze", RuleError::shape(message), &[self]);
        }
        reshape(self, without_axes(self.shape(), &dropped))
    }

    /// Adds an axis of size 1, which becomes `axis` of the result. Negative axes count from the
    /// end.
    ///
    /// Throws `Op` (shape) for an axis out of range.
    #[track_caller]
    pub fn expand_dims(&self, axis: isize) -> Array {
        match resolve_axis(axis, self.rank() + 1) {
            Ok(axis) => reshape(self, self.shape().insert(axis, 1)),
            Err(error) => tracing::throw_operands("expand_dims", error, &[self]),
        }
    }

    /// Broadcasts to `shape` by NumPy's rules: axes are aligned at the last one, and sizes are
    /// equal or 1.
    ///
    /// Throws `Op` (shape) if the array does not broadcast.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> Array {
        broadcast_to(self, shape)
    }

    /// Repeats each element along `axis` `repeats` times, as [`repeat`].
    #[track_caller]
    pub fn repeat(&self, repeats: impl Into<Repeats>, axis: impl Into<Option<isize>>) -> Array {
        repeat(self, repeats, axis)
    }

    /// Converts every element to `dtype`.
    #[doc(alias = "convert_element_type")]
    #[track_caller]
    pub fn astype(&self, dtype: DType) -> Array {
        convert_element_type(self, dtype)
    }

    /// Reinterprets the bits of the elements as another dtype, as [`bitcast_convert_type`].
    #[track_caller]
    pub fn view(&self, dtype: DType) -> Array {
        bitcast_convert_type(self, dtype)
    }
}

/// Products and diagonals.
impl Array {
    /// Returns the matrix product, as [`matmul`]: `[…, m, k] × […, k, n] → […, m, n]`.
    ///
    /// Throws `Op` (shape) if the sizes do not fit.
    #[track_caller]
    pub fn matmul(&self, rhs: &Array) -> Array {
        matmul(self, rhs)
    }

    /// Returns NumPy's `dot` product, as [`dot`].
    ///
    /// Throws `Op` (shape) if the sizes do not fit.
    #[track_caller]
    pub fn dot(&self, rhs: &Array) -> Array {
        dot(self, rhs)
    }

    /// Returns the diagonal of the first two axes, as [`diagonal`].
    #[track_caller]
    pub fn diagonal(&self) -> Array {
        diagonal(self)
    }

    /// Returns the sum of the diagonal of the first two axes, as [`trace`].
    #[track_caller]
    pub fn trace(&self) -> Array {
        trace(self)
    }
}

/// Ordering and selection.
impl Array {
    /// Sorts along `axis`, smallest first and NaN last, as [`sort`].
    #[track_caller]
    pub fn sort(&self, axis: impl Into<Option<isize>>) -> Array {
        sort(self, axis)
    }

    /// Returns the indices, `i32`, that sort the array along `axis`, as [`argsort`].
    #[track_caller]
    pub fn argsort(&self, axis: impl Into<Option<isize>>) -> Array {
        argsort(self, axis)
    }

    /// Partitions the array around its element of rank `kth` along `axis`, as [`partition`].
    #[track_caller]
    pub fn partition(&self, kth: isize, axis: isize) -> Array {
        partition(self, kth, axis)
    }

    /// Returns the indices that partition the array, as [`argpartition`].
    #[track_caller]
    pub fn argpartition(&self, kth: isize, axis: isize) -> Array {
        argpartition(self, kth, axis)
    }

    /// Returns the indices at which `values` are inserted into this sorted vector, as
    /// [`searchsorted`].
    #[track_caller]
    pub fn searchsorted(&self, values: impl ArrayLike) -> Array {
        searchsorted(self, values)
    }

    /// Returns the slices at `indices` along `axis`, as [`take`].
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let y = eval_shape(|x: Array| x.take(&arange(2), 1), Aval::new(DType::F32, [3, 5]))?;
    /// assert_eq!(y.aval().to_string(), "f32[3,2]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn take(&self, indices: &Array, axis: impl Into<Option<isize>>) -> Array {
        take(self, indices, axis)
    }

    /// Returns the indices of the elements that are not zero, as [`nonzero`].
    #[track_caller]
    pub fn nonzero(&self, size: usize, fill_value: i32) -> Vec<Array> {
        nonzero(self, size, fill_value)
    }

    /// Returns the largest minus the smallest element along `axes`, as [`ptp`].
    #[track_caller]
    pub fn ptp(&self, axes: impl Into<Axes>) -> Array {
        ptp(self, axes)
    }

    /// Rounds each element to an integer, halves to even, as [`round`].
    #[track_caller]
    pub fn round(&self) -> Array {
        round(self)
    }
}
