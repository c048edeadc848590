//! Products of vectors along an axis, and the Kronecker product.

use super::{Index, MatmulOptions, matmul_with};
use crate::core::{Array, Loc, RuleError, trace};
use crate::primitives::rules::{move_axis, resolve_axis};
use crate::primitives::{conj, mul, neg, reshape, sub, zeros_like};

#[track_caller]
fn vector_axis(name: &str, x: &Array, axis: isize, operands: [&Array; 2]) -> usize {
    match resolve_axis(axis, x.rank()) {
        Ok(axis) => axis,
        Err(error) => trace::throw_operands(name, error, &operands),
    }
}

/// Returns the sum of products along `axis`. The first operand is conjugated, and other axes
/// broadcast. Throws `Op` (shape) if the sizes along the axis differ.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, y) = (Aval::new(DType::F32, [8, 3]), Aval::new(DType::F32, [3]));
/// let z = eval_shape(|x: Array, y: Array| vecdot(&x, &y, -1), (x, y))?;
/// assert_eq!(z.aval().to_string(), "f32[8]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn vecdot(x: &Array, y: &Array, axis: isize) -> Array {
    vecdot_with(x, y, axis, MatmulOptions::default())
}

/// Returns the sum of products along `axis`, as [`vecdot`], with another dtype of the sums or
/// another precision. Throws `Op` (unsupported) for `out_sharding`.
#[track_caller]
pub fn vecdot_with(x: &Array, y: &Array, axis: isize, options: MatmulOptions<'_>) -> Array {
    reject_sharding("vecdot", options, [x, y]);
    let (a, b) = (vector_axis("vecdot", x, axis, [x, y]), vector_axis("vecdot", y, axis, [x, y]));
    if x.shape()[a] != y.shape()[b] {
        let message = format!(
            "sizes differ: lhs axis {a} is {}, rhs axis {b} is {}",
            x.shape()[a],
            y.shape()[b]
        );
        trace::throw_operands("vecdot", RuleError::shape(message), &[x, y]);
    }
    let x = if x.dtype().is_complex() { conj(x) } else { x.clone() };
    let (x, y) = (move_axis(&x, a, x.rank() - 1), move_axis(y, b, y.rank() - 1));
    let row = reshape(&x, x.shape().insert(x.rank() - 1, 1));
    let column = reshape(&y, y.shape().insert(y.rank(), 1));
    matmul_with(&row, &column, options).squeeze_axes([-2, -1])
}

#[track_caller]
fn expect_ranks(name: &str, ranks: [usize; 2], operands: [&Array; 2]) {
    Loc::caller().scope(|| {
        let [x, y] = operands;
        if x.rank() < ranks[0] || y.rank() < ranks[1] {
            let message = format!(
                "takes arrays of rank {} and {} and more, got {} and {}",
                ranks[0],
                ranks[1],
                x.rank(),
                y.rank()
            );
            trace::throw_operands(name, RuleError::shape(message), &operands);
        }
    })
}

/// Multiplies matrices by column vectors: `[…, m, n] × […, n] → […, m]`. The leading axes
/// broadcast. Throws
/// `Op` (shape) if sizes do not fit.
#[track_caller]
pub fn matvec(x: &Array, y: &Array) -> Array {
    matvec_with(x, y, MatmulOptions::default())
}

/// Multiplies matrices by column vectors, as [`matvec`], with another dtype of the sums or another
/// precision. Throws `Op` (unsupported) for `out_sharding`.
#[track_caller]
pub fn matvec_with(x: &Array, y: &Array, options: MatmulOptions<'_>) -> Array {
    expect_ranks("matvec", [2, 1], [x, y]);
    reject_sharding("matvec", options, [x, y]);
    matmul_with(x, &y.index([Index::Ellipsis, Index::NewAxis]), options).squeeze_axes([-1])
}

/// Throws if the sharding of the result is set: the product has another rank.
#[track_caller]
fn reject_sharding(name: &str, options: MatmulOptions<'_>, operands: [&Array; 2]) {
    if options.out_sharding.is_some() {
        let error = RuleError::unsupported("does not take out_sharding")
            .help("`einsum_with` and `dot_general` take it");
        trace::throw_operands(name, error, &operands);
    }
}

/// Multiplies conjugated row vectors by matrices: `[…, n] × […, n, m] → […, m]`. The leading axes
/// broadcast. Throws `Op` (shape) if sizes do not fit.
#[track_caller]
pub fn vecmat(x: &Array, y: &Array) -> Array {
    vecmat_with(x, y, MatmulOptions::default())
}

/// Multiplies row vectors by matrices, as [`vecmat`], with another dtype of the sums or another
/// precision. Throws `Op` (unsupported) for `out_sharding`.
#[track_caller]
pub fn vecmat_with(x: &Array, y: &Array, options: MatmulOptions<'_>) -> Array {
    reject_sharding("vecmat", options, [x, y]);
    expect_ranks("vecmat", [1, 2], [x, y]);
    let x = if x.dtype().is_complex() { conj(x) } else { x.clone() };
    let row = reshape(&x, x.shape().insert(x.rank() - 1, 1));
    matmul_with(&row, y, options).squeeze_axes([-2])
}

/// Returns the cross products of the vectors along `axis`, which have 3 components, or 2 if the
/// third one is zero. For two vectors of 2 components the result is the third component. Other axes
/// broadcast. Throws `Op` (shape) for other sizes.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Aval::new(DType::F32, [8, 3]);
/// let z = eval_shape(|x: Array, y: Array| cross(&x, &y, -1), (x.clone(), x))?;
/// assert_eq!(z.aval().to_string(), "f32[8,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn cross(x: &Array, y: &Array, axis: isize) -> Array {
    cross_with(x, y, CrossOptions { axisa: axis, axisb: axis, axisc: axis })
}

/// Options of [`cross_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossOptions {
    /// The axis of the components of the first operand. The default is -1.
    pub axisa: isize,
    /// The axis of the components of the second operand. The default is -1.
    pub axisb: isize,
    /// The axis of the components of the result, if it has any. The default is -1.
    pub axisc: isize,
}

impl Default for CrossOptions {
    fn default() -> Self {
        CrossOptions { axisa: -1, axisb: -1, axisc: -1 }
    }
}

/// Returns cross products, as [`cross`], of vectors along different axes.
#[track_caller]
pub fn cross_with(x: &Array, y: &Array, options: CrossOptions) -> Array {
    let CrossOptions { axisa, axisb, axisc } = options;
    let (a, b) = (vector_axis("cross", x, axisa, [x, y]), vector_axis("cross", y, axisb, [x, y]));
    let sizes = [x.shape()[a], y.shape()[b]];
    if sizes.iter().any(|size| ![2, 3].contains(size)) {
        let message =
            format!("takes vectors of 2 or 3 components, got {} and {}", sizes[0], sizes[1]);
        trace::throw_operands("cross", RuleError::shape(message), &[x, y]);
    }
    let (xs, ys) = (super::unstack(x, axisa), super::unstack(y, axisb));
    if sizes == [2, 2] {
        return minor(&xs, &ys, 0, 1);
    }
    let parts = [minor(&xs, &ys, 1, 2), minor(&xs, &ys, 2, 0), minor(&xs, &ys, 0, 1)];
    let stacked = super::stack(parts.iter().collect::<Vec<_>>(), -1);
    match resolve_axis(axisc, stacked.rank()) {
        Ok(axis) => move_axis(&stacked, stacked.rank() - 1, axis),
        Err(error) => trace::throw_operands("cross", error, &[x, y]),
    }
}

/// Returns `xᵢ yⱼ - xⱼ yᵢ`; missing components are 0.
#[track_caller]
fn minor(xs: &[Array], ys: &[Array], i: usize, j: usize) -> Array {
    match (xs.get(i).zip(ys.get(j)), xs.get(j).zip(ys.get(i))) {
        (Some((a, b)), Some((c, d))) => sub(mul(a, b), mul(c, d)),
        (Some((a, b)), None) => mul(a, b),
        (None, Some((c, d))) => neg(mul(c, d)),
        (None, None) => mul(&xs[0], zeros_like(&ys[0])),
    }
}

/// Returns the Kronecker product: `y` times each element of `x`, in blocks. `[m, n] ⊗ [p, q] → [mp,
/// nq]`. Axes are aligned at the last one, and missing axes count as 1.
#[track_caller]
pub fn kron(x: &Array, y: &Array) -> Array {
    let rank = x.rank().max(y.rank());
    let full = |a: &Array| {
        let mut shape = vec![1; rank - a.rank()];
        shape.extend_from_slice(a.shape());
        shape
    };
    let (a, b) = (full(x), full(y));
    let outer: Vec<usize> = a.iter().flat_map(|&size| [size, 1]).collect();
    let inner: Vec<usize> = b.iter().flat_map(|&size| [1, size]).collect();
    let product = mul(reshape(x, outer), reshape(y, inner));
    reshape(&product, a.iter().zip(&b).map(|(m, n)| m * n).collect::<Vec<_>>())
}

/// Applies `f` to `x` along each of `axes` in turn. If `f` drops the axis, it is restored with size
/// 1.
///
/// Throws `Op` (shape) if `f` returns an array of any other rank.
#[track_caller]
pub fn apply_over_axes(
    f: impl Fn(&Array, isize) -> Array,
    x: &Array,
    axes: impl AsRef<[isize]>,
) -> Array {
    let mut x = x.clone();
    for &axis in axes.as_ref() {
        let result = f(&x, axis);
        x = match x.rank() as isize - result.rank() as isize {
            0 => result,
            1 => result.expand_dims(axis),
            _ => {
                let message = format!(
                    "the function returned {} for {}: it may drop the axis or keep it",
                    result.shape(),
                    x.shape()
                );
                trace::throw_operands("apply_over_axes", RuleError::shape(message), &[&x])
            }
        };
    }
    x
}
