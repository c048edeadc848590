//! Matrix decompositions without LAPACK, which no plugin includes. `ops::linalg` has the functions
//! for users.
//!
//! XLA provides Cholesky, triangular solve and QR. LU, SVD and eigenvalues are implemented here as
//! loops. XLA's Hermitian eigensolver is not used: in `f64` it stops at a precision of 1e-9
//! (measured on C API 0.115).

mod algorithms;
mod cholesky;
mod eig;
mod eigh;
mod geqrf;
mod lu;
mod matrices;
mod qr;
mod svd;
mod triangular_solve;

pub(crate) use algorithms::check_subset;
pub use algorithms::{EigImplementation, EighImplementation, SvdAlgorithm};
pub use cholesky::{Cholesky, cholesky};
pub use eig::{Eig, eig};
pub use eigh::{Eigh, eigh};
pub use geqrf::{Geqrf, geqrf};
pub use lu::{Lu, lu};
pub use qr::{Qr, QrOptions, qr, qr_with};
pub use svd::{Svd, SvdOptions, svd, svd_with};
pub use triangular_solve::{TransposeA, TriangularSolve, triangular_solve};
