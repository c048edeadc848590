//! Stacking and joining of arrays.

use super::super::axis_slice::expect_axis;
use crate::core::{Array, Loc, RuleError, Shape, trace};
use crate::primitives::{ArrayList, broadcast_to, concatenate, references, reshape};

/// Joins arrays of one shape along a new axis, which becomes `axis` of the result. Dtypes are
/// promoted. Throws `Op` if there are no arrays or their shapes differ.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Aval::new(DType::F32, [2, 3]);
/// let y = eval_shape(|x: Array| stack([&x, &x, &x], -1), x)?;
/// assert_eq!(y.aval().to_string(), "f32[2,3,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn stack<F>(arrays: impl ArrayList<F>, axis: isize) -> Array {
    stack_all(&arrays.into_arrays(), axis)
}

#[track_caller]
fn stack_all(arrays: &[Array], axis: isize) -> Array {
    let Some(first) = arrays.first() else {
        trace::throw_operands("stack", RuleError::value("takes at least one array, got 0"), &[]);
    };
    if let Some(other) = arrays.iter().find(|other| other.shape() != first.shape()) {
        let message = format!("shapes differ: {} and {}", first.shape(), other.shape());
        trace::throw_operands("stack", RuleError::shape(message), &references(arrays));
    }
    let axis = expect_axis("stack", axis, first.rank() + 1, first);
    let mut layers = Vec::with_capacity(arrays.len());
    for x in arrays {
        layers.push(reshape(x, x.shape().insert(axis, 1)));
    }
    concatenate(layers, axis as isize)
}

/// Returns `x` with at least one axis: a scalar becomes `[1]`.
#[track_caller]
pub fn atleast_1d(x: &Array) -> Array {
    match x.rank() {
        0 => reshape(x, [1]),
        _ => x.clone(),
    }
}

/// Returns `x` with at least two axes: a scalar becomes `[1, 1]`, a vector `[n]` a row `[1, n]`.
#[track_caller]
pub fn atleast_2d(x: &Array) -> Array {
    match x.rank() {
        0 | 1 => reshape(x, [1, x.size()]),
        _ => x.clone(),
    }
}

/// Returns `x` with at least three axes: `[n]` becomes `[1, n, 1]` and `[m, n]` becomes `[m, n,
/// 1]`.
#[track_caller]
pub fn atleast_3d(x: &Array) -> Array {
    match x.rank() {
        0 | 1 => reshape(x, [1, x.size(), 1]),
        2 => reshape(x, x.shape().insert(2, 1)),
        _ => x.clone(),
    }
}

#[track_caller]
fn expect_arrays(name: &str, arrays: Vec<Array>) -> Vec<Array> {
    if arrays.is_empty() {
        trace::throw_operands(name, RuleError::value("takes at least one array, got 0"), &[]);
    }
    arrays
}

/// Changes each array by `rank` and joins them along `axis`.
#[track_caller]
fn joined(arrays: &[Array], rank: fn(&Array) -> Array, axis: isize) -> Array {
    Loc::caller().scope(|| concatenate(arrays.iter().map(rank), axis))
}

/// Joins `values` to the end of `x` along `axis`; `None` flattens both first. Dtypes are promoted.
/// Throws `Op` (shape) if the other axes differ.
#[track_caller]
pub fn append(x: &Array, values: &Array, axis: impl Into<Option<isize>>) -> Array {
    let axis = axis.into();
    let [(x, along), (values, _)] = [x, values].map(|x| super::insert_delete::along(x, axis));
    concatenate([&x, &values], along)
}

/// Joins arrays along axis 1, and vectors along axis 0. Throws `Op` (shape) if the other axes
/// differ.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, y) = (Aval::new(DType::F32, [2, 3]), Aval::new(DType::F32, [2, 1]));
/// let z = eval_shape(|x: Array, y: Array| hstack([&x, &y]), (x, y))?;
/// assert_eq!(z.aval().to_string(), "f32[2,4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn hstack<F>(arrays: impl ArrayList<F>) -> Array {
    let arrays = expect_arrays("hstack", arrays.into_arrays());
    let axis = if arrays[0].rank() < 2 { 0 } else { 1 };
    joined(&arrays, atleast_1d, axis)
}

/// Joins arrays along axis 0, vectors as rows. Throws `Op` (shape) if the other axes differ.
#[doc(alias = "row_stack")]
#[track_caller]
pub fn vstack<F>(arrays: impl ArrayList<F>) -> Array {
    joined(&expect_arrays("vstack", arrays.into_arrays()), atleast_2d, 0)
}

/// Joins arrays along axis 2, vectors `[n]` as `[1, n, 1]`. Throws `Op` (shape) if the other axes
/// differ.
#[track_caller]
pub fn dstack<F>(arrays: impl ArrayList<F>) -> Array {
    joined(&expect_arrays("dstack", arrays.into_arrays()), atleast_3d, 2)
}

/// Joins vectors as the columns of a matrix, and matrices along axis 1. Throws `Op` (shape) if the
/// numbers of rows differ.
#[track_caller]
pub fn column_stack<F>(arrays: impl ArrayList<F>) -> Array {
    #[track_caller]
    fn column(x: &Array) -> Array {
        if x.rank() < 2 { reshape(x, [x.size(), 1]) } else { x.clone() }
    }
    joined(&expect_arrays("column_stack", arrays.into_arrays()), column, 1)
}

/// Returns the shape that all `shapes` broadcast to; the shape of a scalar if there are none.
/// Throws
/// `Op` (shape) if they do not broadcast.
///
/// ```
/// use oxidax::prelude::*;
/// let shape = broadcast_shapes([[8, 1].into(), [3].into(), Shape::scalar()]);
/// assert_eq!(shape.dims(), [8, 3]);
/// ```
#[track_caller]
pub fn broadcast_shapes(shapes: impl AsRef<[Shape]>) -> Shape {
    joint_shape("broadcast_shapes", shapes.as_ref().iter(), &[])
}

/// Broadcasts all arrays to one shape. Each keeps its dtype. Throws `Op` (shape) if they do not
/// broadcast.
#[track_caller]
pub fn broadcast_arrays<F>(arrays: impl ArrayList<F>) -> Vec<Array> {
    let arrays = arrays.into_arrays();
    let operands = references(&arrays);
    let joint = joint_shape("broadcast_arrays", arrays.iter().map(Array::shape), &operands);
    let mut results = Vec::with_capacity(arrays.len());
    for x in &arrays {
        results.push(broadcast_to(x, &joint));
    }
    results
}

#[track_caller]
fn joint_shape<'a>(
    name: &str,
    shapes: impl Iterator<Item = &'a Shape>,
    operands: &[&Array],
) -> Shape {
    let mut joint = Shape::scalar();
    for shape in shapes {
        joint = match joint.broadcast(shape) {
            Some(joint) => joint,
            None => {
                let message = format!("shapes {joint} and {shape} do not broadcast");
                trace::throw_operands(name, RuleError::shape(message), operands)
            }
        };
    }
    joint
}
