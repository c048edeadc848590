//! Products of vectors and matrices, based on `dot_general`.

use crate::core::{Array, DType, NamedSharding, RuleError, Shape, trace};
use crate::primitives::rules::{resolve_axis, without_axes};
use crate::primitives::{
    DotAlgorithm, DotGeneral, Precision, conj, convert_element_type, dot_general, mul, reshape,
    transpose,
};

fn check_matmul(x: &Array, y: &Array) -> Result<(), RuleError> {
    if x.rank() == 0 || y.rank() == 0 {
        let message =
            format!("takes arrays of rank 1 and more, got ranks {} and {}", x.rank(), y.rank());
        return Err(RuleError::shape(message).help("multiply by a scalar with `*`"));
    }
    let (k, y_axis) = (x.shape()[x.rank() - 1], y.rank().saturating_sub(2));
    if k != y.shape()[y_axis] {
        let error = RuleError::shape(format!(
            "contracting sizes differ: lhs axis {} is {k}, rhs axis {y_axis} is {}",
            x.rank() - 1,
            y.shape()[y_axis]
        ));
        let transposed_fits = y.rank() >= 2 && y.shape()[y.rank() - 1] == k;
        return Err(if transposed_fits {
            error.help("the last axis of rhs would fit: swap its last two axes")
        } else {
            error
        });
    }
    let batch = |a: &Array| a.shape()[..a.rank().saturating_sub(2)].to_vec();
    let (a, b) = (batch(x), batch(y));
    if Shape::new(&a).broadcast(&Shape::new(&b)).is_none() {
        return Err(RuleError::shape(format!(
            "batch axes {a:?} of lhs and {b:?} of rhs do not broadcast"
        )));
    }
    Ok(())
}

/// Returns the matrix product over the last axis of `x` and the second to last axis of `y`:
/// `[…, m, k] × […, k, n] → […, m, n]`.
///
/// Leading axes broadcast. A vector is a row on the left (`[k] × [k, n] → [n]`) and a column on the
/// right (`[m, k] × [k] → [m]`); two vectors give a scalar. Dtypes are promoted. Throws `Op`
/// (shape) for scalars and for sizes that do not fit.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, y) = (Aval::new(DType::F32, [8, 1, 2, 3]), Aval::new(DType::F32, [5, 3, 4]));
/// let z = eval_shape(|x: Array, y: Array| matmul(&x, &y), (x, y))?;
/// assert_eq!(z.aval().to_string(), "f32[8,5,2,4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn matmul(x: &Array, y: &Array) -> Array {
    matmul_with(x, y, MatmulOptions::default())
}

/// Options of products: [`matmul_with`], [`einsum_with`](super::einsum_with), [`dot_with`],
/// [`tensordot_with`], [`inner_with`], [`vdot_with`], [`vecdot_with`](super::vecdot_with),
/// [`matvec_with`](super::matvec_with), [`vecmat_with`](super::vecmat_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatmulOptions<'a> {
    /// The dtype of sums and result. The default is the dtype that the operands promote to.
    pub preferred_element_type: Option<DType>,
    /// The precision of the products. [`Precision::Default`] is replaced by the one of
    /// [`with_matmul_precision`](crate::prelude::with_matmul_precision).
    pub precision: Precision,
    /// The algorithm, such as `Some(DotAlgorithmPreset::BF16_BF16_F32.into())`. By default the
    /// compiler chooses one by the precision.
    pub algorithm: Option<DotAlgorithm>,
    /// The sharding of the result over explicit axes of a mesh. By default that of the operands'
    /// axes, which is ambiguous if summed axes are sharded.
    pub out_sharding: Option<&'a NamedSharding>,
}

impl MatmulOptions<'_> {
    /// Returns `numbers` with these options. Axis `i` of the product is axis `axes[i]` of the
    /// result.
    pub(super) fn apply(self, numbers: DotGeneral, axes: &[usize]) -> DotGeneral {
        DotGeneral {
            preferred_element_type: self.preferred_element_type,
            precision: [self.precision; 2],
            algorithm: self.algorithm,
            out_sharding: self.out_sharding.map(|sharding| sharding.permuted(axes)),
            ..numbers
        }
    }
}

/// Returns the matrix product, as [`matmul`], with another dtype of the sums or another precision.
///
/// Narrow operands are not converted before they are multiplied, so `bf16` matrices are read as
/// such and summed in `f32`. Throws as [`matmul`], and `Op` (dtype) for a dtype that cannot hold
/// the products.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, y) = (Aval::new(DType::BF16, [8, 64]), Aval::new(DType::BF16, [64, 4]));
/// let wide = MatmulOptions { preferred_element_type: Some(DType::F32), ..Default::default() };
/// let z = eval_shape(move |x: Array, y: Array| matmul_with(&x, &y, wide), (x, y))?;
/// assert_eq!(z.aval().to_string(), "f32[8,4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn matmul_with(x: &Array, y: &Array, options: MatmulOptions<'_>) -> Array {
    if let Err(error) = check_matmul(x, y) {
        trace::throw_operands("matmul", error, &[x, y]);
    }
    let (x_rank, y_rank) = (x.rank(), y.rank());
    let (x_batch, y_batch) = (x_rank.saturating_sub(2), y_rank.saturating_sub(2));
    // Without batch axes on one side, all leading axes of the other are free axes.
    if y_batch == 0 {
        let numbers = contract(&[x_rank - 1], &[y_rank.saturating_sub(2)]);
        let axes: Vec<usize> = (0..x_rank + y_rank - 2).collect();
        return dot_general(x, y, options.apply(numbers, &axes));
    }
    if x_batch == 0 {
        let numbers = contract(&[x_rank - 1], &[y_rank - 2]);
        // `[m, batch…, n]` from a matrix, `[batch…, n]` from a vector.
        let mut order: Vec<usize> = (x_rank - 1..x_rank - 1 + y_batch).collect();
        order.extend(0..x_rank - 1);
        order.push(order.len());
        let product = dot_general(x, y, options.apply(numbers, &inverse(&order)));
        return transpose(&product, &order);
    }
    batched_matmul(x, y, options)
}

fn contract(lhs: &[usize], rhs: &[usize]) -> DotGeneral {
    DotGeneral {
        lhs_contracting: lhs.to_vec(),
        rhs_contracting: rhs.to_vec(),
        ..Default::default()
    }
}

/// Multiplies operands that both have batch axes. A batch axis that only one side has, or has with
/// a size other than 1, becomes a free axis of that side, so that the other side is not repeated.
#[track_caller]
fn batched_matmul(x: &Array, y: &Array, options: MatmulOptions<'_>) -> Array {
    let (x_batch, y_batch) = (x.rank() - 2, y.rank() - 2);
    let n_batch = x_batch.max(y_batch);
    let size = |a: &Array, batch: usize, axis: usize| {
        (axis + batch).checked_sub(n_batch).map(|position| (position, a.shape()[position]))
    };
    let (mut lhs_drop, mut rhs_drop) = (Vec::new(), Vec::new());
    let (mut lhs_batch, mut rhs_batch) = (Vec::new(), Vec::new());
    // The operands of each batch axis of the result.
    let (mut both, mut left, mut right) = (Vec::new(), Vec::new(), Vec::new());
    for axis in 0..n_batch {
        match (size(x, x_batch, axis), size(y, y_batch, axis)) {
            (Some((i, n)), Some((j, m))) if n == m => {
                lhs_batch.push(i);
                rhs_batch.push(j);
                both.push(axis);
            }
            (Some((i, 1)), Some(_)) => {
                lhs_drop.push(i);
                right.push(axis);
            }
            (Some(_), Some((j, _))) => {
                rhs_drop.push(j);
                left.push(axis);
            }
            (Some(_), None) => left.push(axis),
            (None, _) => right.push(axis),
        }
    }
    let shift = |axes: &[usize], drop: &[usize]| -> Vec<usize> {
        axes.iter()
            .map(|&axis| axis - drop.iter().filter(|&&dropped| dropped < axis).count())
            .collect()
    };
    let lhs = reshape(x, without_axes(x.shape(), &lhs_drop));
    let rhs = reshape(y, without_axes(y.shape(), &rhs_drop));
    let numbers = DotGeneral {
        lhs_contracting: vec![lhs.rank() - 1],
        rhs_contracting: vec![rhs.rank() - 2],
        lhs_batch: shift(&lhs_batch, &lhs_drop),
        rhs_batch: shift(&rhs_batch, &rhs_drop),
        ..Default::default()
    };
    // The product has `[both…, left…, m, right…, n]`.
    let (m, n) = (n_batch, n_batch + 1);
    let mut order: Vec<usize> = both;
    order.extend(left);
    order.push(m);
    order.extend(right);
    order.push(n);
    let product = dot_general(&lhs, &rhs, options.apply(numbers, &order));
    transpose(&product, &inverse(&order))
}

/// Returns the inverse of a permutation.
pub(super) fn inverse(permutation: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; permutation.len()];
    for (index, &axis) in permutation.iter().enumerate() {
        inverse[axis] = index;
    }
    inverse
}

/// Returns NumPy's `dot` product over the last axis of `x` and the second to last axis of `y`,
/// without broadcasting: `[a…, k] · [b…, k, n] → [a…, b…, n]`. Scalars multiply. Throws `Op`
/// (shape) if the sizes differ.
#[track_caller]
pub fn dot(x: &Array, y: &Array) -> Array {
    dot_with(x, y, MatmulOptions::default())
}

/// Returns NumPy's `dot` product, as [`dot`], with another dtype of the sums or another precision.
///
/// ```
/// use oxidax::prelude::*;
/// let wide = MatmulOptions { preferred_element_type: Some(DType::F32), ..Default::default() };
/// let x = ones(([4], DType::BF16));
/// assert_eq!(dot_with(&x, &x, wide).aval().to_string(), "f32[]");
/// ```
#[track_caller]
pub fn dot_with(x: &Array, y: &Array, options: MatmulOptions<'_>) -> Array {
    if x.rank() == 0 || y.rank() == 0 {
        return scaled(x, y, options);
    }
    let numbers = contract(&[x.rank() - 1], &[y.rank().saturating_sub(2)]);
    in_order(x, y, numbers, options)
}

/// Multiplies by a scalar.
#[track_caller]
fn scaled(x: &Array, y: &Array, options: MatmulOptions<'_>) -> Array {
    match options.preferred_element_type {
        Some(dtype) => mul(convert_element_type(x, dtype), convert_element_type(y, dtype)),
        None => mul(x, y),
    }
}

/// Multiplies with the axes of the result in the order of the product.
#[track_caller]
fn in_order(x: &Array, y: &Array, numbers: DotGeneral, options: MatmulOptions<'_>) -> Array {
    let n_summed = numbers.lhs_contracting.len() + numbers.rhs_contracting.len();
    let axes: Vec<usize> = (0..(x.rank() + y.rank()).saturating_sub(n_summed)).collect();
    dot_general(x, y, options.apply(numbers, &axes))
}

/// Returns the inner product of all elements in row-major order, a scalar. The first operand is
/// conjugated. Throws
/// `Op` (shape) if the numbers of elements differ.
#[track_caller]
pub fn vdot(x: &Array, y: &Array) -> Array {
    vdot_with(x, y, MatmulOptions::default())
}

/// Returns the inner product of all elements, as [`vdot`], with another dtype of the sums or
/// another precision.
#[track_caller]
pub fn vdot_with(x: &Array, y: &Array, options: MatmulOptions<'_>) -> Array {
    let x = if x.dtype().is_complex() { conj(x) } else { x.clone() };
    let (x, y) = (reshape(&x, [x.size()]), reshape(y, [y.size()]));
    in_order(&x, &y, contract(&[0], &[0]), options)
}

/// Returns the sum of products over the last axes of both: `[a…, k] · [b…, k] → [a…, b…]`. Scalars
/// multiply. Throws `Op` (shape) if the sizes differ.
#[track_caller]
pub fn inner(x: &Array, y: &Array) -> Array {
    inner_with(x, y, MatmulOptions::default())
}

/// Returns the sum of products over the last axes, as [`inner`], with another dtype of the sums or
/// another precision.
#[track_caller]
pub fn inner_with(x: &Array, y: &Array, options: MatmulOptions<'_>) -> Array {
    if x.rank() == 0 || y.rank() == 0 {
        return scaled(x, y, options);
    }
    in_order(x, y, contract(&[x.rank() - 1], &[y.rank() - 1]), options)
}

/// Returns the products of all pairs of elements of the flattened operands: `[m], [n] → [m, n]`.
#[track_caller]
pub fn outer(x: &Array, y: &Array) -> Array {
    mul(reshape(x, [x.size(), 1]), reshape(y, [1, y.size()]))
}

/// Axes that [`tensordot`] sums over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensorDotAxes {
    /// The last axes of the first operand with the first axes of the second, in this number.
    Count(usize),
    /// Axes of the first operand with axes of the second. Negative axes count from the end.
    Pairs(Vec<isize>, Vec<isize>),
}

impl From<usize> for TensorDotAxes {
    fn from(count: usize) -> TensorDotAxes {
        TensorDotAxes::Count(count)
    }
}

impl<const N: usize> From<([isize; N], [isize; N])> for TensorDotAxes {
    fn from((x, y): ([isize; N], [isize; N])) -> TensorDotAxes {
        TensorDotAxes::Pairs(x.to_vec(), y.to_vec())
    }
}

/// Returns the sum of products over axes: a number of axes, `tensordot(&x, &y, 2)`, or pairs,
/// `tensordot(&x, &y, ([0, 1], [1, 0]))`. The free axes of `x` come first. Throws `Op` (shape) if
/// axes are out of range or their sizes differ.
#[track_caller]
pub fn tensordot(x: &Array, y: &Array, axes: impl Into<TensorDotAxes>) -> Array {
    tensordot_with(x, y, axes, MatmulOptions::default())
}

/// Returns the sum of products over axes, as [`tensordot`], with another dtype of the sums or
/// another precision.
#[track_caller]
pub fn tensordot_with(
    x: &Array,
    y: &Array,
    axes: impl Into<TensorDotAxes>,
    options: MatmulOptions<'_>,
) -> Array {
    let resolved = match axes.into() {
        TensorDotAxes::Count(n) if n > x.rank().min(y.rank()) => Err(RuleError::shape(format!(
            "cannot sum over {n} axes of arrays of ranks {} and {}",
            x.rank(),
            y.rank()
        ))),
        TensorDotAxes::Count(n) => Ok(((x.rank() - n..x.rank()).collect(), (0..n).collect())),
        TensorDotAxes::Pairs(a, b) => {
            let side = |axes: &[isize], rank: usize| -> Result<Vec<usize>, RuleError> {
                axes.iter().map(|&axis| resolve_axis(axis, rank)).collect()
            };
            side(&a, x.rank()).and_then(|a| Ok((a, side(&b, y.rank())?)))
        }
    };
    match resolved {
        Ok((a, b)) => in_order(x, y, contract(&a, &b), options),
        Err(error) => trace::throw_operands("tensordot", error, &[x, y]),
    }
}
