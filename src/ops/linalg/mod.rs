//! Linear algebra: norms, decompositions, systems of equations.
//!
//! Matrices are the last two axes, and all others are a batch. Integers become `f32`; 16-bit floats are
//! refused by the decompositions, as in JAX: convert them.

mod decompositions;
mod matrix_functions;
mod norms;
mod solve;

pub use decompositions::{
    Eig, Eigh, Qr, Svd, cholesky, eig, eigh, eigvals, eigvalsh, lu, qr, svd, svdvals,
};
pub use matrix_functions::{cond, det, expm, matrix_power, matrix_rank, multi_dot, slogdet};
pub use norms::{MatrixNorm, VectorNorm, matrix_norm, norm, vector_norm};
pub use solve::{
    LeastSquares, cho_solve, inv, lstsq, pinv, solve, solve_triangular, tensorinv, tensorsolve,
};

use crate::core::{Array, RuleError, throw_operands};
use crate::ops::swapaxes;
use crate::primitives::conj;

/// Rows and columns.
fn matrix_sizes(x: &Array) -> (usize, usize) {
    (x.shape()[x.rank() - 2], x.shape()[x.rank() - 1])
}

/// The matrices transposed and conjugated.
#[track_caller]
fn adjoint(x: &Array) -> Array {
    conj(&swapaxes(x, -1, -2))
}

#[track_caller]
fn expect_square(name: &str, a: &Array) {
    if a.rank() < 2 || matrix_sizes(a).0 != matrix_sizes(a).1 {
        let error = RuleError::shape(format!("needs square matrices, got {}", a.aval()));
        throw_operands(name, error, &[a]);
    }
}
