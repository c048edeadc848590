//! Norms of vectors and matrices.

use crate::core::{Array, RuleError, trace};
use crate::ops::Axes;
use crate::ops::axes::signed;
use crate::primitives::{
    abs, conj, convert_element_type, inexact, mul, pow, real, reduce_max, reduce_sum, sqrt,
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
}

/// Returns the square root of the sum of squares of all elements, a real scalar: the 2-norm of a
/// vector, the Frobenius norm of a matrix. Integers become floats. [`vector_norm`] and
/// [`matrix_norm`] take an order.
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
    }
}
