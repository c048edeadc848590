//! Linear algebra: the functions of `jax.scipy.linalg`, and those of `jax.lax.linalg` that oxidax
//! does not have itself.
//!
//! The last two axes are matrices, all other axes are a batch. Integers become `f32`. Functions
//! with the same defaults as in [`oxidax::linalg`] are re-exported from there. [`cholesky`],
//! [`lu`], [`qr`] and [`svd`] have SciPy's defaults here, which differ.

mod eigen;
mod factors;
mod functions;
mod householder;
mod named_matrices;
mod polar;
mod qr;
mod real_schur;
mod schur;
mod structured_matrices;
mod support;
mod sylvester;
mod systems;
mod tridiagonal;

pub use eigen::{
    GeneralizedProblem, HermitianEigenOptions, LeftRightEigenvectors, eig_left_right, eigh_with,
    eigvalsh_with,
};
pub use factors::{
    CholeskyFactor, LuFactor, LuMatrices, SymmetricProductOptions, cho_factor, cho_factor_with,
    cho_solve, cholesky, cholesky_update, cholesky_with, lu, lu_factor, lu_permuted,
    lu_pivots_to_permutation, lu_solve, lu_solve_with, symmetric_product,
};
pub use functions::{ExpmOptions, expm_frechet, expm_with, funm, funm_with_error, sqrtm};
pub use householder::{
    OrmqrOptions, ProductSide, Reflectors, TridiagonalForm, geqrf, hessenberg,
    hessenberg_reflectors, hessenberg_with_q, householder_product, ormqr, tridiagonal,
};
pub use named_matrices::{
    DftScale, HelmertRows, PascalKind, dft, hadamard, helmert, hilbert, invhilbert, invpascal,
    pascal,
};
pub use oxidax::linalg::{
    EigResult, EighResult, QrResult, SolveTriangularOptions, SvdResult, Triangle, det, eig, eigh,
    eigvals, eigvalsh, expm, inv, lstsq, matrix_norm, norm, pinv, slogdet, solve, solve_triangular,
    solve_triangular_with, svdvals, vector_norm,
};
pub use oxidax::primitives::{TransposeA, TriangularSolve, triangular_solve};
pub use polar::{
    PolarMethod, PolarOptions, PolarResult, PolarSide, QdwhOptions, QdwhResult, polar, polar_with,
    qdwh, qdwh_with,
};
pub use qr::{
    PivotedQr, QrMultiplyOptions, QrSize, qr, qr_multiply, qr_multiply_pivoted, qr_pivoted,
    qr_with, svd, svd_with,
};
pub use schur::{SchurOutput, SchurResult, rsf2csf, schur, schur_with};
pub use structured_matrices::{
    block_diag, circulant, companion, convolution_matrix, fiedler, fiedler_companion, hankel,
    hankel_with, leslie, toeplitz, toeplitz_with,
};
pub use sylvester::{SylvesterMethod, SylvesterOptions, solve_sylvester, solve_sylvester_with};
pub use systems::{AssumeA, SolveOptions, solve_with};
pub use tridiagonal::{
    TridiagonalSolveOptions, bandwidth, eigh_tridiagonal, eigh_tridiagonal_range,
    eigvalsh_tridiagonal, eigvalsh_tridiagonal_range, solve_banded, tridiagonal_solve,
    tridiagonal_solve_with,
};
