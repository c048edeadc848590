//! Matrices of a given size.

use super::support::index_mask;
use oxidax::core::{Loc, RuleError, throw, throw_operands};
use oxidax::prelude::*;
use std::f64::consts::PI;

/// Returns the size of a square matrix and its dtype.
#[track_caller]
fn size_of(name: &str, size: impl IntoAval, default: DType) -> (usize, DType) {
    let aval = size.into_aval(default);
    match *aval.shape.dims() {
        [n] => (n, aval.dtype),
        _ => {
            let message = format!("takes one size, got {}", aval.shape);
            throw_operands(name, RuleError::shape(message), &[])
        }
    }
}

/// Returns a square matrix of numbers that the host computes in double precision.
#[track_caller]
fn computed((n, dtype): (usize, DType), element: impl Fn(usize, usize) -> f64) -> Array {
    let numbers: Vec<f64> = (0..n * n).map(|at| element(at / n, at % n)).collect();
    let array = if dtype == DType::F64 {
        Array::from_slice(&numbers, [n, n])
    } else {
        let narrow: Vec<f32> = numbers.iter().map(|&x| x as f32).collect();
        Array::from_slice(&narrow, [n, n]).map(|x| x.astype(dtype))
    };
    array.unwrap_or_else(|error| throw(error))
}

/// Returns the binomial coefficient, exact below 2⁵³.
fn binomial(n: usize, k: usize) -> f64 {
    if k > n {
        return 0.0;
    }
    let k = k.min(n - k);
    (0..k).fold(1.0, |product, i| (product * (n - i) as f64 / (i + 1) as f64).round())
}

fn power_of_minus_one(n: usize) -> f64 {
    if n.is_multiple_of(2) { 1.0 } else { -1.0 }
}

/// Returns the Hilbert matrix, with elements `1 / (i + j + 1)`: `hilbert(3)` is `f32[3, 3]`, and
/// `hilbert((3, DType::F64))` has another dtype.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::linalg;
/// let h = linalg::hilbert((2, DType::F64));
/// assert_eq!(h.to_vec::<f64>()?, [1.0, 0.5, 0.5, 1.0 / 3.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn hilbert(size: impl IntoAval) -> Array {
    let (n, dtype) = size_of("hilbert", size, DType::F32);
    let sums = index_mask((n, n), |row, column| row + column + 1).astype(dtype);
    reciprocal(sums)
}

/// Returns the inverse of the [`hilbert`] matrix, whose elements are integers. The default dtype is
/// `f32`; numbers above 2²⁴ are rounded in it, and those above 2⁵³ in `f64`.
#[track_caller]
pub fn invhilbert(size: impl IntoAval) -> Array {
    let (n, dtype) = size_of("invhilbert", size, DType::F32);
    computed((n, dtype), |i, j| {
        power_of_minus_one(i + j)
            * (i + j + 1) as f64
            * binomial(n + i, n - j - 1)
            * binomial(n + j, n - i - 1)
            * binomial(i + j, i).powi(2)
    })
}

/// Form of a [`pascal`] matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PascalKind {
    /// The product of the lower and the upper matrix: `binomial(i + j, i)`.
    #[default]
    Symmetric,
    /// The lower triangular matrix `binomial(i, j)`.
    Lower,
    /// The upper triangular matrix `binomial(j, i)`.
    Upper,
}

/// Returns the Pascal matrix, whose elements are binomial coefficients. The default dtype is `f32`.
/// Numbers above 2²⁴ are rounded in it, and those above 2⁵³ in `f64`.
#[track_caller]
pub fn pascal(size: impl IntoAval, kind: PascalKind) -> Array {
    let size = size_of("pascal", size, DType::F32);
    computed(size, |i, j| match kind {
        PascalKind::Symmetric => binomial(i + j, i),
        PascalKind::Lower => binomial(i, j),
        PascalKind::Upper => binomial(j, i),
    })
}

/// Returns the inverse of the [`pascal`] matrix, whose elements are integers. The default dtype is
/// `f32`.
#[track_caller]
pub fn invpascal(size: impl IntoAval, kind: PascalKind) -> Array {
    let (n, dtype) = size_of("invpascal", size, DType::F32);
    let lower = |i: usize, j: usize| power_of_minus_one(i + j) * binomial(i, j);
    computed((n, dtype), |i, j| match kind {
        PascalKind::Symmetric => (0..n).map(|k| lower(k, i) * lower(k, j)).sum(),
        PascalKind::Lower => lower(i, j),
        PascalKind::Upper => lower(j, i),
    })
}

/// Rows of a [`helmert`] matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HelmertRows {
    /// Without the first row of equal numbers: `[n − 1, n]`.
    #[default]
    Contrasts,
    /// All: a square orthogonal matrix.
    All,
}

/// Returns the Helmert matrix: orthonormal rows, each of which compares an element with the mean of
/// the elements before it. The default dtype is `f32`.
///
/// Throws `Op` (value) for size 0.
#[track_caller]
pub fn helmert(size: impl IntoAval, rows: HelmertRows) -> Array {
    let (n, dtype) = size_of("helmert", size, DType::F32);
    if n == 0 {
        let error = RuleError::value("the size must be at least 1, got 0");
        throw_operands("helmert", error, &[]);
    }
    // Row k has k equal numbers, and the negative of their sum.
    let k = index_mask((n, n), |row, _| row + 0).astype(dtype);
    let length = sqrt(&k * (&k + 1.0));
    let before = index_mask((n, n), |row, column| lt(column, row));
    let at = index_mask((n, n), |row, column| eq(column, row));
    let divisor = where_(eq(&length, 0.0), 1.0, &length);
    let contrasts = where_(before, 1.0 / &divisor, where_(at, -&k / &divisor, 0.0));
    let first = index_mask((n, n), |row, _| eq(row, 0));
    let full = where_(first, 1.0 / (n as f64).sqrt(), contrasts);
    match rows {
        HelmertRows::All => full,
        HelmertRows::Contrasts => slice_in_dim(&full, 1, n as isize, 1, 0),
    }
}

/// Returns the Hadamard matrix of Sylvester's construction, with elements 1 and −1. The default
/// dtype is `i32`.
///
/// Throws `Op` (value) unless the size is a power of 2.
#[track_caller]
pub fn hadamard(size: impl IntoAval) -> Array {
    let (n, dtype) = size_of("hadamard", size, DType::I32);
    if !n.is_power_of_two() {
        let error = RuleError::value(format!("the size must be a power of 2, got {n}"));
        throw_operands("hadamard", error, &[]);
    }
    Loc::caller().scope(|| {
        let common = index_mask((n, n), |row, column| bitwise_and(row, column));
        let is_odd = bitwise_and(population_count(&common), 1);
        (1 - is_odd * 2).astype(dtype)
    })
}

/// Factor of a [`dft`] matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DftScale {
    /// 1.
    #[default]
    One,
    /// `1 / √n`: the matrix is unitary.
    #[doc(alias = "sqrtn")]
    InverseSqrt,
    /// `1 / n`.
    #[doc(alias = "n")]
    Inverse,
}

/// Returns the matrix of the discrete Fourier transform, with elements `exp(−2πi jk / n)`. The
/// default dtype is `c64`.
///
/// Throws `Op` (dtype) for a dtype that is not complex.
#[track_caller]
pub fn dft(size: impl IntoAval, scale: DftScale) -> Array {
    let (n, dtype) = size_of("dft", size, DType::C64);
    if !dtype.is_complex() {
        let message = format!("the dtype must be c64 or c128, got {dtype}");
        throw_operands("dft", RuleError::dtype(message), &[]);
    }
    Loc::caller().scope(|| {
        // The remainder keeps angles small, so that they are exact in f32.
        let power = index_mask((n, n), |row, column| rem(row * column, n.max(1) as i32));
        let angle = power.astype(dtype.real()) * (-2.0 * PI / n.max(1) as f64);
        let factor = match scale {
            DftScale::One => 1.0,
            DftScale::InverseSqrt => 1.0 / (n as f64).sqrt(),
            DftScale::Inverse => 1.0 / n as f64,
        };
        complex(&(cos(&angle) * factor), &(sin(&angle) * factor))
    })
}
