//! Arrays side by side.

use crate::core::{Array, RuleError, Shape, trace};
use crate::primitives::{broadcast_to, concatenate, reshape};

/// `x` with at least one axis: a scalar becomes `[1]`.
#[track_caller]
pub fn atleast_1d(x: &Array) -> Array {
    match x.rank() {
        0 => reshape(x, [1]),
        _ => x.clone(),
    }
}

/// `x` with at least two axes: a scalar becomes `[1, 1]`, a vector `[n]` a row `[1, n]`.
#[track_caller]
pub fn atleast_2d(x: &Array) -> Array {
    match x.rank() {
        0 | 1 => reshape(x, [1, x.size()]),
        _ => x.clone(),
    }
}

/// `x` with at least three axes: `[n]` becomes `[1, n, 1]` and `[m, n]` becomes `[m, n, 1]`.
#[track_caller]
pub fn atleast_3d(x: &Array) -> Array {
    match x.rank() {
        0 | 1 => reshape(x, [1, x.size(), 1]),
        2 => reshape(x, x.shape().insert(2, 1)),
        _ => x.clone(),
    }
}

#[track_caller]
fn not_none<'a>(name: &str, arrays: &'a [&'a Array]) {
    if arrays.is_empty() {
        trace::throw_operands(name, RuleError::value("takes at least one array, got 0"), &[]);
    }
}

/// `x` with `values` behind it along `axis`. For NumPy's default flatten both first. Dtypes are
/// promoted. Throws `Op` (shape) if the other axes differ.
#[track_caller]
pub fn append(x: &Array, values: &Array, axis: isize) -> Array {
    concatenate(&[x, values], axis)
}

/// Arrays in a row: along axis 1, vectors along their only axis. Throws `Op` (shape) if the other
/// axes differ.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, y) = (Aval::new(DType::F32, [2, 3]), Aval::new(DType::F32, [2, 1]));
/// let z = eval_shape(|x: Array, y: Array| hstack([&x, &y]), (x, y))?;
/// assert_eq!(z.aval().to_string(), "f32[2,4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn hstack<'a>(arrays: impl AsRef<[&'a Array]>) -> Array {
    not_none("hstack", arrays.as_ref());
    let mut high = Vec::new();
    for x in arrays.as_ref() {
        high.push(atleast_1d(x));
    }
    let axis = if high[0].rank() == 1 { 0 } else { 1 };
    concatenate(&high, axis)
}

/// Arrays on top of each other: along axis 0, vectors as rows. Throws `Op` (shape) if the other axes
/// differ.
#[doc(alias = "row_stack")]
#[track_caller]
pub fn vstack<'a>(arrays: impl AsRef<[&'a Array]>) -> Array {
    not_none("vstack", arrays.as_ref());
    let mut high = Vec::new();
    for x in arrays.as_ref() {
        high.push(atleast_2d(x));
    }
    concatenate(&high, 0)
}

/// Arrays behind each other: along axis 2, vectors `[n]` as `[1, n, 1]`. Throws `Op` (shape) if the
/// other axes differ.
#[track_caller]
pub fn dstack<'a>(arrays: impl AsRef<[&'a Array]>) -> Array {
    not_none("dstack", arrays.as_ref());
    let mut high = Vec::new();
    for x in arrays.as_ref() {
        high.push(atleast_3d(x));
    }
    concatenate(&high, 2)
}

/// Vectors as the columns of a matrix; matrices give all their columns. Throws `Op` (shape) if the
/// numbers of rows differ.
#[track_caller]
pub fn column_stack<'a>(arrays: impl AsRef<[&'a Array]>) -> Array {
    not_none("column_stack", arrays.as_ref());
    let mut columns = Vec::new();
    for x in arrays.as_ref() {
        columns.push(match x.rank() {
            0 | 1 => reshape(x, [x.size(), 1]),
            _ => (*x).clone(),
        });
    }
    concatenate(&columns, 1)
}

/// A matrix of blocks: each row is joined along the last axis, the rows along the last but one. Blocks
/// of rank below 2 count as rows. Throws `Op` (shape) if sizes do not fit.
///
/// ```
/// use oxidax::prelude::*;
/// let (a, b) = (Aval::new(DType::F32, [2, 2]), Aval::new(DType::F32, [2, 3]));
/// let m = eval_shape(|a: Array, b: Array| block(&[&[&a, &b], &[&a, &b]]), (a, b))?;
/// assert_eq!(m.aval().to_string(), "f32[4,5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn block(rows: &[&[&Array]]) -> Array {
    if rows.is_empty() || rows.iter().any(|row| row.is_empty()) {
        let counts: Vec<usize> = rows.iter().map(|row| row.len()).collect();
        let message = format!("takes rows of at least one array, got rows of {counts:?}");
        trace::throw_operands("block", RuleError::value(message), &[]);
    }
    let rank = rows.iter().flat_map(|row| row.iter()).map(|x| x.rank()).fold(2, usize::max);
    let mut joined = Vec::new();
    for row in rows {
        let mut high = Vec::new();
        for x in *row {
            let mut shape = vec![1; rank - x.rank()];
            shape.extend_from_slice(x.shape());
            high.push(reshape(x, shape));
        }
        joined.push(concatenate(&high, -1));
    }
    concatenate(&joined, -2)
}

/// The shape that all `shapes` broadcast to; that of a scalar if there is none. Throws `Op` (shape) if
/// they do not.
///
/// ```
/// use oxidax::prelude::*;
/// let shape = broadcast_shapes([[8, 1].into(), [3].into(), Shape::scalar()]);
/// assert_eq!(shape.dims(), [8, 3]);
/// ```
#[track_caller]
pub fn broadcast_shapes(shapes: impl AsRef<[Shape]>) -> Shape {
    let mut joint = Shape::scalar();
    for shape in shapes.as_ref() {
        joint = match joint.broadcast(shape) {
            Some(joint) => joint,
            None => {
                let message = format!("shapes {joint} and {shape} do not broadcast");
                trace::throw_operands("broadcast_shapes", RuleError::shape(message), &[])
            }
        };
    }
    joint
}

/// All arrays repeated to the shape that they broadcast to, each in its own dtype. Throws `Op` (shape)
/// if they do not broadcast.
#[track_caller]
pub fn broadcast_arrays<'a>(arrays: impl AsRef<[&'a Array]>) -> Vec<Array> {
    let arrays = arrays.as_ref();
    let mut joint = Shape::scalar();
    for x in arrays {
        joint = match joint.broadcast(x.shape()) {
            Some(joint) => joint,
            None => {
                let message = format!("shapes {joint} and {} do not broadcast", x.shape());
                trace::throw_operands("broadcast_arrays", RuleError::shape(message), arrays)
            }
        };
    }
    let mut wide = Vec::with_capacity(arrays.len());
    for x in arrays {
        wide.push(broadcast_to(x, &joint));
    }
    wide
}
