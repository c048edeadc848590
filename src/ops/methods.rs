//! The NumPy-like methods of [`Array`] that rearrange, convert and multiply. Reductions are in
//! `reductions`, elementwise functions in `elementwise`.

use super::shapes::{OpenShape, close};
use super::{dot, flip, matmul, swapaxes};
use crate::core::{Array, DType, RuleError, Shape, trace};
use crate::primitives::rules::resolve_axis;
use crate::primitives::{broadcast_to, convert_element_type, reshape, resolve_axes, transpose};

/// Shape and dtype.
impl Array {
    /// The same elements, row-major, under another shape; one size may be -1 and follows from the
    /// others.
    ///
    /// Throws `Op` (shape) if the number of elements differs.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let y = eval_shape(|x: Array| x.reshape([2, -1]), Aval::new(DType::F32, [4, 3]))?;
    /// assert_eq!(y.aval().to_string(), "f32[2,6]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn reshape(&self, shape: impl OpenShape) -> Array {
        match close(&shape.open_sizes(), self.shape()) {
            Ok(shape) => reshape(self, shape),
            Err(error) => trace::throw_operands("reshape", error, &[self]),
        }
    }

    /// All elements, row-major, along one axis.
    #[doc(alias = "ravel")]
    #[track_caller]
    pub fn flatten(&self) -> Array {
        reshape(self, [self.size()])
    }

    /// The array with its axes in reverse order: the transpose of a matrix.
    #[track_caller]
    pub fn t(&self) -> Array {
        let order: Vec<usize> = (0..self.rank()).rev().collect();
        transpose(self, &order)
    }

    /// The array with axis `i` taken from axis `permutation[i]`; negative ones count from the back.
    ///
    /// Throws `Op` (shape) if they are not a permutation of the axes.
    #[doc(alias = "permute_dims")]
    #[track_caller]
    pub fn transpose(&self, permutation: impl AsRef<[isize]>) -> Array {
        let resolved: Result<Vec<usize>, RuleError> =
            permutation.as_ref().iter().map(|&axis| resolve_axis(axis, self.rank())).collect();
        match resolved {
            Ok(order) => transpose(self, &order),
            Err(error) => trace::throw_operands("transpose", error, &[self]),
        }
    }

    /// The array with two axes exchanged; negative ones count from the back.
    ///
    /// Throws `Op` (shape) if there are no such axes.
    #[track_caller]
    pub fn swapaxes(&self, first: isize, second: isize) -> Array {
        swapaxes(self, first, second)
    }

    /// The array with the order of its elements reversed along `axes`.
    ///
    /// Throws `Op` (shape) if there are no such axes.
    #[track_caller]
    pub fn flip(&self, axes: impl Into<super::Axes>) -> Array {
        flip(self, axes)
    }

    /// The array without its axes of size 1.
    #[track_caller]
    pub fn squeeze(&self) -> Array {
        reshape(self, self.shape().iter().copied().filter(|&size| size != 1).collect::<Shape>())
    }

    /// The array without the given axes, which must be of size 1; negative ones count from the back.
    ///
    /// Throws `Op` (shape) if they are not.
    #[track_caller]
    pub fn squeeze_axes(&self, axes: impl AsRef<[isize]>) -> Array {
        let gone = resolve_axes("squeeze", self, axes.as_ref());
        if let Some(&axis) = gone.iter().find(|&&axis| self.shape()[axis] != 1) {
            let message = format!("axis {axis} has size {}, not 1", self.shape()[axis]);
            trace::throw_operands("squeeze", RuleError::shape(message), &[self]);
        }
        reshape(self, crate::primitives::rules::without_axes(self.shape(), &gone))
    }

    /// The array with a new axis of size 1 at position `axis` of the result; negative ones count
    /// from the back.
    ///
    /// Throws `Op` (shape) if there is no such position.
    #[track_caller]
    pub fn expand_dims(&self, axis: isize) -> Array {
        match resolve_axis(axis, self.rank() + 1) {
            Ok(axis) => reshape(self, self.shape().insert(axis, 1)),
            Err(error) => trace::throw_operands("expand_dims", error, &[self]),
        }
    }

    /// The array repeated to `shape` under NumPy's rules: axes aligned at the last, sizes equal or 1.
    ///
    /// Throws `Op` (shape) if it does not broadcast.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> Array {
        broadcast_to(self, shape)
    }

    /// Every element converted to `dtype`.
    #[doc(alias = "convert_element_type")]
    #[track_caller]
    pub fn astype(&self, dtype: DType) -> Array {
        convert_element_type(self, dtype)
    }

    /// Matrix product, as [`matmul`]: `[…, m, k] × […, k, n] → […, m, n]`.
    ///
    /// Throws `Op` (shape) if the sizes do not fit.
    #[track_caller]
    pub fn matmul(&self, rhs: &Array) -> Array {
        matmul(self, rhs)
    }

    /// NumPy's `dot`, as [`dot`].
    ///
    /// Throws `Op` (shape) if the sizes do not fit.
    #[track_caller]
    pub fn dot(&self, rhs: &Array) -> Array {
        dot(self, rhs)
    }
}
