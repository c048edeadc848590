//! Checks and matrix operations that the modules of this folder share.

use oxidax::core::{RuleError, throw_operands};
use oxidax::prelude::*;

/// Returns `x` as floats: integers and booleans become `f32`.
#[track_caller]
pub(super) fn inexact(x: &Array) -> Array {
    if x.dtype().is_inexact() { x.clone() } else { x.astype(DType::F32) }
}

/// Converts arrays to the dtype that they promote to.
#[track_caller]
pub(super) fn same_dtype<const N: usize>(arrays: [&Array; N]) -> [Array; N] {
    let dtype = result_type(arrays);
    arrays.map(|x| x.astype(dtype))
}

/// Converts arrays to floats of one dtype.
#[track_caller]
pub(super) fn same_inexact<const N: usize>(arrays: [&Array; N]) -> [Array; N] {
    let arrays = arrays.map(inexact);
    same_dtype(arrays.each_ref())
}

/// Returns the complex dtype of a decomposition, `c64` or `c128`.
#[track_caller]
pub(super) fn complex_dtype(name: &str, x: &Array) -> DType {
    expect_decomposable(name, x);
    x.dtype().complex().expect("f32, f64, c64 and c128 have a complex dtype")
}

/// Throws unless `x` has a dtype that decompositions support.
#[track_caller]
pub(super) fn expect_decomposable(name: &str, x: &Array) {
    if !matches!(x.dtype(), DType::F32 | DType::F64 | DType::C64 | DType::C128) {
        let message = format!("needs f32, f64, c64 or c128, got {}", x.dtype());
        let error = RuleError::dtype(message).help("convert it with `astype(DType::F32)`");
        throw_operands(name, error, &[x]);
    }
}

/// Throws unless `x` is a stack of matrices of a dtype that decompositions support.
#[track_caller]
pub(super) fn expect_matrices(name: &str, x: &Array) {
    if x.rank() < 2 {
        let error = RuleError::shape(format!("needs matrices, got {}", x.aval()));
        throw_operands(name, error, &[x]);
    }
    expect_decomposable(name, x);
}

/// Throws unless `x` is a stack of square matrices of a dtype that decompositions support.
#[track_caller]
pub(super) fn expect_square(name: &str, x: &Array) {
    expect_matrices(name, x);
    let (m, n) = sizes(x);
    if m != n {
        let error = RuleError::shape(format!("needs square matrices, got {m} by {n}"));
        throw_operands(name, error, &[x]);
    }
}

/// Returns the numbers of rows and columns.
pub(super) fn sizes(x: &Array) -> (usize, usize) {
    (x.shape()[x.rank() - 2], x.shape()[x.rank() - 1])
}

/// Transposes and conjugates matrices.
#[track_caller]
pub(super) fn adjoint(x: &Array) -> Array {
    conj(swapaxes(x, -1, -2))
}

/// Multiplies matrices at the highest precision of the device.
#[track_caller]
pub(super) fn dot(x: &Array, y: &Array) -> Array {
    matmul_with(x, y, MatmulOptions { precision: Precision::Highest, ..MatmulOptions::default() })
}

/// The main diagonal of matrices in the last two axes.
pub(super) const OF_MATRICES: DiagonalOptions = DiagonalOptions { offset: 0, axis1: -2, axis2: -1 };

/// Returns the diagonals of matrices: `[…, n, n]` to `[…, n]`.
#[track_caller]
pub(super) fn diagonals(x: &Array) -> Array {
    diagonal_with(x, OF_MATRICES)
}

/// Returns true where a matrix `[m, n]` has row and column indices that satisfy `relation`.
pub(super) fn index_mask(
    (m, n): (usize, usize),
    relation: impl Fn(&Array, &Array) -> Array,
) -> Array {
    let row = broadcasted_iota(DType::I32, [m, n], 0);
    let column = broadcasted_iota(DType::I32, [m, n], 1);
    relation(&row, &column)
}

/// Returns the vector of indices, `i32[n]`.
pub(super) fn indices(n: usize) -> Array {
    iota(DType::I32, n)
}

/// Returns column `k` of a matrix.
#[track_caller]
pub(super) fn column(x: &Array, k: impl ArrayLike) -> Array {
    dynamic_index_in_dim_with(x, k, 1, DynamicIndexOptions { keepdims: false })
}

/// Returns element `k` of a vector, or row `k` of a matrix.
#[track_caller]
pub(super) fn row(x: &Array, k: impl ArrayLike) -> Array {
    dynamic_index_in_dim_with(x, k, 0, DynamicIndexOptions { keepdims: false })
}

/// Returns `x` with the element or row `k` replaced.
#[track_caller]
pub(super) fn with_row(x: &Array, k: impl ArrayLike, value: &Array) -> Array {
    dynamic_update_slice_in_dim(x, &value.astype(x.dtype()).expand_dims(0), k, 0)
}

/// Returns `x` with column `k` replaced.
#[track_caller]
pub(super) fn with_column(x: &Array, k: impl ArrayLike, value: &Array) -> Array {
    dynamic_update_slice_in_dim(x, &value.astype(x.dtype()).expand_dims(1), k, 1)
}

/// Returns the outer product of vectors.
#[track_caller]
pub(super) fn outer_product(x: &Array, y: &Array) -> Array {
    x.expand_dims(1) * y.expand_dims(0)
}

/// Returns `xᴴ y` for vectors `x` and the rows of `y`.
#[track_caller]
pub(super) fn adjoint_times(x: &Array, y: &Array) -> Array {
    dot(&conj(x), y)
}

/// Applies `f` to the core axes of the operands, which the signature names as that of
/// [`vectorize`] does. Operands without batch axes are passed as they are.
#[track_caller]
pub(super) fn over_batches(
    signature: &str,
    operands: &[&Array],
    f: impl Fn(&[Array]) -> Vec<Array>,
) -> Vec<Array> {
    let inputs = signature.split("->").next().unwrap_or_default();
    let cores = inputs.split(')').filter_map(|core| core.split_once('('));
    let mut ranks =
        cores.map(|(_, names)| names.split(',').filter(|name| !name.is_empty()).count());
    let is_plain = operands.iter().all(|x| ranks.next() == Some(x.rank()));
    if is_plain {
        let operands: Vec<Array> = operands.iter().map(|x| (*x).clone()).collect();
        return f(&operands);
    }
    vectorize(signature, f)(operands)
}

/// As [`over_batches`], for a function of one result.
#[track_caller]
pub(super) fn over_batches1(
    signature: &str,
    operands: &[&Array],
    f: impl Fn(&[Array]) -> Array,
) -> Array {
    over_batches(signature, operands, |operands| vec![f(operands)]).remove(0)
}

/// As [`over_batches`], for a function of two results.
#[track_caller]
pub(super) fn over_batches2(
    signature: &str,
    operands: &[&Array],
    f: impl Fn(&[Array]) -> (Array, Array),
) -> (Array, Array) {
    let mut results = over_batches(signature, operands, |operands| {
        let (x, y) = f(operands);
        vec![x, y]
    });
    let second = results.remove(1);
    (results.remove(0), second)
}

/// Runs `value = step(i, value)` for each index below `n`. Without indices `step` is not traced,
/// because it could not index empty arrays.
#[track_caller]
pub(super) fn for_indices<C: Tree>(n: usize, step: impl Fn(Array, C) -> C, init: C) -> C {
    if n == 0 { init } else { fori_loop(0, n, step, init) }
}
