//! Algorithms of decompositions, by JAX's names.

use crate::core::{Array, RuleError, RuleResult, trace};
use std::ops::Range;

/// An algorithm of the singular value decomposition.
///
/// On every platform it is computed by Jacobi rotations, since no plugin includes LAPACK. Other
/// algorithms are an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum SvdAlgorithm {
    /// The default of the platform: Jacobi rotations.
    #[default]
    Default,
    /// One-sided Jacobi rotations after a QR decomposition.
    Jacobi,
    /// The QR algorithm on a bidiagonal matrix, of LAPACK and cuSOLVER.
    Qr,
    /// The polar decomposition and the eigenvectors of its Hermitian factor, of XLA for TPUs.
    Polar,
    /// Divide and conquer on a bidiagonal matrix, of LAPACK.
    DivideAndConquer,
}

/// An algorithm of the eigendecomposition of Hermitian matrices.
///
/// On every platform it is computed by Jacobi rotations. Other algorithms are an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum EighImplementation {
    /// The default of the platform: Jacobi rotations.
    #[default]
    Default,
    /// Jacobi rotations.
    Jacobi,
    /// The QR algorithm on a tridiagonal matrix, of LAPACK and cuSOLVER.
    Qr,
    /// Spectral divide and conquer by the QDWH iteration, of XLA for TPUs.
    Qdwh,
}

/// An implementation of the eigendecomposition of any square matrix.
///
/// On every platform it is computed by shifted QR sweeps, as operations of the program. The
/// libraries that JAX can call are an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum EigImplementation {
    /// The default: QR sweeps on every platform.
    #[default]
    Default,
    /// LAPACK, on the host.
    Lapack,
    /// cuSOLVER, on GPUs.
    Cusolver,
    /// MAGMA, on GPUs.
    Magma,
}

/// Throws `Op` (unsupported) for an algorithm that no platform has.
#[track_caller]
fn refuse(name: &str, a: &Array, algorithm: &str, remedy: &str) -> ! {
    let message = format!("the algorithm {algorithm} is not available: plugins contain none");
    trace::throw_operands(name, RuleError::unsupported(message).help(remedy), &[a])
}

impl SvdAlgorithm {
    #[track_caller]
    pub(super) fn expect_available(self, a: &Array) {
        if !matches!(self, SvdAlgorithm::Default | SvdAlgorithm::Jacobi) {
            refuse("svd", a, &format!("{self:?}"), "use SvdAlgorithm::Default or Jacobi");
        }
    }
}

impl EighImplementation {
    /// Throws `Op` (unsupported) unless it is the default or Jacobi's.
    #[track_caller]
    pub(crate) fn expect_available(self, a: &Array) {
        if !matches!(self, EighImplementation::Default | EighImplementation::Jacobi) {
            refuse("eigh", a, &format!("{self:?}"), "use EighImplementation::Default or Jacobi");
        }
    }
}

impl EigImplementation {
    /// Throws `Op` (unsupported) unless it is the default.
    #[track_caller]
    pub(crate) fn expect_available(self, a: &Array) {
        if self != EigImplementation::Default {
            refuse("eig", a, &format!("{self:?}"), "use EigImplementation::Default");
        }
    }
}

/// Checks a range of the `n` values of a decomposition, which are ordered.
pub(crate) fn check_subset(subset: &Range<usize>, n: usize) -> RuleResult<()> {
    let Range { start, end } = subset;
    crate::ensure!(
        start <= end && *end <= n,
        "subset_by_index is {start}..{end}, and there are {n} values"
    );
    Ok(())
}
