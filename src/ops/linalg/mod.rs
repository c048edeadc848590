//! Linear algebra: norms, decompositions, systems of equations.
//!
//! Matrices are the last two axes, and all others are a batch. Integers become `f32`; 16-bit floats are
//! refused by the decompositions, as in JAX: convert them.

mod decompositions;
mod functions;
mod norms;
mod systems;

pub use decompositions::{Eigh, Qr, Svd, cholesky, eigh, eigvalsh, lu, qr, svd, svdvals};
pub use functions::{cond, det, expm, matrix_power, matrix_rank, multi_dot, slogdet};
pub use norms::{MatrixNorm, VectorNorm, matrix_norm, norm, vector_norm};
pub use systems::{
    LeastSquares, cho_solve, inv, lstsq, pinv, solve, solve_triangular, tensorinv, tensorsolve,
};
