//! Norms of vectors and matrices.

use crate::core::{Array, RuleError, trace};
use crate::ops::Axes;
use crate::ops::axes::signed;
use crate::primitives::{
    abs, conj, convert_element_type, inexact, moveaxis, mul, pow, real, reduce_max, reduce_sum,
    sqrt,
};

/// Norm of a vector.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum VectorNorm {
    /// Sum of absolute values.
    L1,
    /// Square root of the sum of squares.
    #[default]
    L2,
    /// Largest absolute value.
    Inf,
    /// Smallest absolute value.
    NegInf,
    /// Number of elements that are not zero.
    Zero,
    /// `(Σ |x|ᵖ)^(1/p)`.
    P(f64),
}

/// Norm of a matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatrixNorm {
    /// Square root of the sum of squares of all elements.
    #[default]
    Frobenius,
    /// Largest sum of absolute values of a column.
    L1,
    /// Largest sum of absolute values of a row.
    Inf,
    /// Smallest sum of absolute values of a column, NumPy's order -1.
    NegL1,
    /// Smallest sum of absolute values of a row.
    NegInf,
    /// Largest singular value, NumPy's order 2.
    Spectral,
    /// Smallest singular value, NumPy's order -2.
    NegSpectral,
    /// Sum of the singular values.
    Nuclear,
}

/// Order of [`norm_with`]: that of a vector or that of a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NormOrder {
    /// All axes of the reduction are treated as one vector.
    Vector(VectorNorm),
    /// The reduction is over two axes, of the rows and of the columns.
    Matrix(MatrixNorm),
}

impl From<VectorNorm> for NormOrder {
    fn from(order: VectorNorm) -> NormOrder {
        NormOrder::Vector(order)
    }
}

impl From<MatrixNorm> for NormOrder {
    fn from(order: MatrixNorm) -> NormOrder {
        NormOrder::Matrix(order)
    }
}

/// Options of [`norm_with`].
#[derive(Clone, Debug, PartialEq)]
pub struct NormOptions {
    /// The order. The default is [`VectorNorm::L2`], which is the Frobenius norm over two axes.
    pub order: NormOrder,
    /// The axes that the norm reduces, with `axes(…).keepdims()` kept as 1. The default are all
    /// axes.
    pub axes: Axes,
}

impl Default for NormOptions {
    fn default() -> Self {
        NormOptions { order: NormOrder::Vector(VectorNorm::L2), axes: Axes::all() }
    }
}

/// Returns a norm of `x` along axes. Integers become floats, and the result is real.
///
/// Throws `Op` (shape) for the norm of a matrix over another number of axes than two.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::linalg::{MatrixNorm, NormOptions, norm_with};
/// let x = array![[3.0, 0.0], [0.0, 4.0]];
/// let nuclear = NormOptions { order: MatrixNorm::Nuclear.into(), ..Default::default() };
/// assert!((norm_with(&x, nuclear).item::<f32>()? - 7.0).abs() < 1e-5);
/// let rows = NormOptions { axes: axes(-1).keepdims(), ..Default::default() };
/// assert_eq!(norm_with(&x, rows).shape().dims(), [2, 1]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn norm_with(x: &Array, options: NormOptions) -> Array {
    let NormOptions { order, axes } = options;
    let order = match order {
        NormOrder::Vector(order) => return vector_norm(x, order, axes),
        NormOrder::Matrix(order) => order,
    };
    let all: Vec<isize> = (0..x.rank() as isize).collect();
    let list = axes.list().unwrap_or(&all);
    let &[row, column] = list else {
        let message = format!("the norm of a matrix reduces two axes, got {}", list.len());
        trace::throw_operands("norm", RuleError::shape(message), &[x])
    };
    let last = moveaxis(x, [row, column], [-2, -1]);
    axes.restore("norm", x, &matrix_norm(&last, order))
}

/// Returns the square root of the sum of squares of all elements, a real scalar: the 2-norm of a
/// vector, the Frobenius norm of a matrix. Integers become floats. [`norm_with`] takes an order and
/// axes.
#[track_caller]
pub fn norm(x: &Array) -> Array {
    vector_norm(x, VectorNorm::L2, Axes::all())
}

/// Returns a norm along `axes`, which are treated as one vector. Integers become floats, and the
/// result is real. The largest absolute value over an empty axis is 0. JAX's default order is
/// [`VectorNorm::L2`].
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::linalg::{VectorNorm, vector_norm};
/// let y = eval_shape(|x: Array| vector_norm(&x, VectorNorm::Inf, -1), Aval::new(DType::C64, [3,
/// 4]))?; assert_eq!(y.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn vector_norm(x: &Array, order: VectorNorm, axes: impl Into<Axes>) -> Array {
    let (x, axes) = (inexact(x), axes.into());
    match order {
        VectorNorm::L1 => abs(&x).sum_axes(axes),
        VectorNorm::L2 => sqrt(squares(&x).sum_axes(axes)),
        VectorNorm::Inf => largest(&abs(&x), axes),
        VectorNorm::NegInf => abs(&x).min_axes(axes),
        VectorNorm::Zero => convert_element_type(&x.count_nonzero_axes(axes), x.dtype().real()),
        VectorNorm::P(p) => {
            let sum = pow(abs(&x), p).sum_axes(axes);
            pow(sum, 1.0 / p)
        }
    }
}

#[track_caller]
fn squares(x: &Array) -> Array {
    if x.dtype().is_complex() { real(mul(x, conj(x))) } else { mul(x, x) }
}

/// Returns the largest of non-negative numbers; 0 if there are none.
#[track_caller]
fn largest(x: &Array, axes: Axes) -> Array {
    let resolved = axes.resolve("norm", x);
    let reduced = if resolved.iter().any(|&axis| x.shape()[axis] == 0) {
        reduce_sum(x, &signed(&resolved))
    } else {
        reduce_max(x, &signed(&resolved))
    };
    axes.restore("norm", x, &reduced)
}

/// Returns a norm of the matrices in the last two axes: `[…, m, n] → […]`. JAX's default order is
/// [`MatrixNorm::Frobenius`]. Throws `Op` (shape) for arrays of rank below 2.
#[track_caller]
pub fn matrix_norm(x: &Array, order: MatrixNorm) -> Array {
    if x.rank() < 2 {
        let message = format!("takes an array of rank 2 and more, got {}", x.rank());
        trace::throw_operands("matrix_norm", RuleError::shape(message), &[x]);
    }
    let x = inexact(x);
    match order {
        MatrixNorm::Frobenius => sqrt(squares(&x).sum_axes([-2, -1])),
        MatrixNorm::L1 => largest(&abs(&x).sum_axes(-2), Axes::from(-1)),
        MatrixNorm::Inf => largest(&abs(&x).sum_axes(-1), Axes::from(-1)),
        MatrixNorm::NegL1 => abs(&x).sum_axes(-2).min_axes(-1),
        MatrixNorm::NegInf => abs(&x).sum_axes(-1).min_axes(-1),
        MatrixNorm::Spectral => super::svdvals(&x).max_axes(-1),
        MatrixNorm::NegSpectral => super::svdvals(&x).min_axes(-1),
        MatrixNorm::Nuclear => super::svdvals(&x).sum_axes(-1),
    }
}
