//! Decompositions of matrices. `ops::linalg` has the functions that users reach for.
//!
//! No plugin brings LAPACK along: XLA has its own for Cholesky, triangular systems and QR; LU, singular
//! values and eigenvalues are loops written here. XLA's own for Hermitian matrices stops
//! at a precision of 1e-9 in `f64`, whatever it is told (measured on C API 0.115).

mod cholesky;
mod eig;
mod eigh;
mod lu;
mod matrices;
mod qr;
mod svd;
mod triangular_solve;

pub use cholesky::{Cholesky, cholesky};
pub use eig::{Eig, eig};
pub use eigh::{Eigh, eigh};
pub use lu::{Lu, lu};
pub use qr::{Qr, qr};
pub use svd::{Svd, svd};
pub use triangular_solve::{TransposeA, TriangularSolve, triangular_solve};
