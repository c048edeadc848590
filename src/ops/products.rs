//! Products of vectors and matrices, written with `dot_general`.

use crate::core::{Array, RuleError, Shape, trace};
use crate::primitives::rules::{resolve_axis, without_axes};
use crate::primitives::{DotGeneral, conj, dot_general, mul, reshape, transpose};

fn refuse_scalars(name: &str, x: &Array, y: &Array) -> Result<(), RuleError> {
    match x.rank() == 0 || y.rank() == 0 {
        true => Err(RuleError::shape(format!(
            "takes arrays of rank 1 and more, got ranks {} and {}",
            x.rank(),
            y.rank()
        ))
        .help(if name == "matmul" {
            "multiply by a scalar with `*`"
        } else {
            "use `mul`"
        })),
        false => Ok(()),
    }
}

fn matmul_mistake(x: &Array, y: &Array) -> Result<(), RuleError> {
    refuse_scalars("matmul", x, y)?;
    let (k, y_axis) = (x.shape()[x.rank() - 1], y.rank().saturating_sub(2));
    if k != y.shape()[y_axis] {
        let error = RuleError::shape(format!(
            "contracting sizes differ: lhs axis {} is {k}, rhs axis {y_axis} is {}",
            x.rank() - 1,
            y.shape()[y_axis]
        ));
        let transposed_fits = y.rank() >= 2 && y.shape()[y.rank() - 1] == k;
        return Err(match transposed_fits {
            true => error.help("the last axis of rhs would fit: swap its last two axes"),
            false => error,
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

/// Matrix product over the last axis of `x` and the last but one of `y`, as NumPy's `matmul`:
/// `[…, m, k] × […, k, n] → […, m, n]`.
///
/// Leading axes broadcast. A vector is a row on the left (`[k] × [k, n] → [n]`) and a column on the
/// right (`[m, k] × [k] → [m]`); two vectors give a scalar. Dtypes are promoted. Throws `Op` (shape)
/// for scalars and for sizes that do not fit.
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
    if let Err(error) = matmul_mistake(x, y) {
        trace::throw_operands("matmul", error, &[x, y]);
    }
    let (x_rank, y_rank) = (x.rank(), y.rank());
    let (x_batch, y_batch) = (x_rank.saturating_sub(2), y_rank.saturating_sub(2));
    // Without batch axes on one side, all leading axes of the other are plain free axes.
    if y_batch == 0 {
        let how = contract(&[x_rank - 1], &[y_rank.saturating_sub(2)]);
        return dot_general(x, y, how);
    }
    if x_batch == 0 {
        let how = contract(&[x_rank - 1], &[y_rank - 2]);
        let product = dot_general(x, y, how);
        // `[m, batch…, n]` from a matrix, `[batch…, n]` from a vector.
        if x_rank == 1 {
            return product;
        }
        let mut order: Vec<usize> = (1..=y_batch).collect();
        order.extend([0, y_batch + 1]);
        return transpose(&product, &order);
    }
    batched_matmul(x, y)
}

fn contract(lhs: &[usize], rhs: &[usize]) -> DotGeneral {
    DotGeneral {
        lhs_contracting: lhs.to_vec(),
        rhs_contracting: rhs.to_vec(),
        ..Default::default()
    }
}

/// Both sides have batch axes. Axes that one side alone has, or has with a size other than 1, stay
/// free axes of that side instead of being repeated in the other.
#[track_caller]
fn batched_matmul(x: &Array, y: &Array) -> Array {
    let (x_batch, y_batch) = (x.rank() - 2, y.rank() - 2);
    let n_batch = x_batch.max(y_batch);
    let size = |a: &Array, batch: usize, axis: usize| {
        (axis + batch).checked_sub(n_batch).map(|position| (position, a.shape()[position]))
    };
    let (mut lhs_drop, mut rhs_drop) = (Vec::new(), Vec::new());
    let (mut lhs_batch, mut rhs_batch) = (Vec::new(), Vec::new());
    // Where each batch axis of the result comes from.
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
        axes.iter().map(|&axis| axis - drop.iter().filter(|&&gone| gone < axis).count()).collect()
    };
    let lhs = reshape(x, without_axes(x.shape(), &lhs_drop));
    let rhs = reshape(y, without_axes(y.shape(), &rhs_drop));
    let how = DotGeneral {
        lhs_contracting: vec![lhs.rank() - 1],
        rhs_contracting: vec![rhs.rank() - 2],
        lhs_batch: shift(&lhs_batch, &lhs_drop),
        rhs_batch: shift(&rhs_batch, &rhs_drop),
        ..Default::default()
    };
    let product = dot_general(&lhs, &rhs, how);
    // The product has `[both…, left…, m, right…, n]`.
    let (m, n) = (n_batch, n_batch + 1);
    let mut came: Vec<usize> = both;
    came.extend(left);
    came.push(m);
    came.extend(right);
    came.push(n);
    transpose(&product, &inverse(&came))
}

/// The permutation that undoes `came`.
pub(super) fn inverse(came: &[usize]) -> Vec<usize> {
    let mut order = vec![0; came.len()];
    for (position, &axis) in came.iter().enumerate() {
        order[axis] = position;
    }
    order
}

/// NumPy's `dot`: the product over the last axis of `x` and the last but one of `y`, without
/// broadcasting: `[a…, k] · [b…, k, n] → [a…, b…, n]`. Scalars multiply. Throws `Op` (shape) if the
/// sizes differ.
#[track_caller]
pub fn dot(x: &Array, y: &Array) -> Array {
    if x.rank() == 0 || y.rank() == 0 {
        return mul(x, y);
    }
    dot_general(x, y, contract(&[x.rank() - 1], &[y.rank().saturating_sub(2)]))
}

/// Inner product of all elements in row-major order, the first operand conjugated: a scalar. Throws
/// `Op` (shape) if the numbers of elements differ.
#[track_caller]
pub fn vdot(x: &Array, y: &Array) -> Array {
    let x = if x.dtype().is_complex() { conj(x) } else { x.clone() };
    dot_general(&reshape(&x, [x.size()]), &reshape(y, [y.size()]), contract(&[0], &[0]))
}

/// Sum of products over the last axes of both: `[a…, k] · [b…, k] → [a…, b…]`. Scalars multiply.
/// Throws `Op` (shape) if the sizes differ.
#[track_caller]
pub fn inner(x: &Array, y: &Array) -> Array {
    if x.rank() == 0 || y.rank() == 0 {
        return mul(x, y);
    }
    dot_general(x, y, contract(&[x.rank() - 1], &[y.rank() - 1]))
}

/// Products of every element of `x` with every one of `y`, both flattened: `[m], [n] → [m, n]`.
#[track_caller]
pub fn outer(x: &Array, y: &Array) -> Array {
    mul(reshape(x, [x.size(), 1]), reshape(y, [1, y.size()]))
}

/// Which axes [`tensordot`] sums over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensorDotAxes {
    /// The last so many of the first operand with the first so many of the second.
    Count(usize),
    /// These of the first operand with those of the second; negative ones count from the back.
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

/// Sum of products over the given axes: a number of them, `tensordot(&x, &y, 2)`, or pairs,
/// `tensordot(&x, &y, ([0, 1], [1, 0]))`. The free axes of `x` come first. Throws `Op` (shape) if
/// there are not so many axes or their sizes differ.
#[track_caller]
pub fn tensordot(x: &Array, y: &Array, axes: impl Into<TensorDotAxes>) -> Array {
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
        Ok((a, b)) => dot_general(x, y, contract(&a, &b)),
        Err(error) => trace::throw_operands("tensordot", error, &[x, y]),
    }
}
