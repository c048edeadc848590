//! Arrays like others, ranges, identity matrices, grids and one-hot encodings.

use super::axis_slice::expect_axis;
use crate::core::{Array, Aval, DType, IntoAval, RuleError, Scalar, Shape, throw_operands, trace};
use crate::primitives::{
    ArrayLike, ArrayList, arange_step, broadcast_in_dim, broadcasted_iota as iota,
    convert_element_type, eq, fill_of, references, reshape, sub,
};

/// Returns `0, 1, …` below `stop`: `i32` for an integer, `f32` for a float. The result is empty if
/// `stop` is not positive. [`arange_step`] takes a start and a step.
///
/// Throws `Op` (value) for a number that is not finite.
///
/// ```
/// use oxidax::prelude::*;
/// assert_eq!(eval_shape(|| arange(5), ())?.aval().to_string(), "i32[5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn arange(stop: impl Into<Scalar>) -> Array {
    arange_step(0, stop, 1)
}

/// Options of [`zeros_like_with`], [`ones_like_with`] and [`full_like_with`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LikeOptions {
    /// The dtype of the result. The default is that of the operand.
    pub dtype: Option<DType>,
    /// The shape of the result. The default is that of the operand.
    pub shape: Option<Shape>,
}

/// Returns zeros of the shape and dtype of `x`, where the options do not state another.
///
/// ```
/// use oxidax::prelude::*;
/// let x = ones([2, 3]);
/// let wide = LikeOptions { dtype: Some(DType::F64), ..Default::default() };
/// assert_eq!(zeros_like_with(&x, wide).aval().to_string(), "f64[2,3]");
/// ```
#[doc(alias = "empty_like")]
#[track_caller]
pub fn zeros_like_with(x: &Array, options: LikeOptions) -> Array {
    full_like_with(x, 0, options)
}

/// Returns ones of the shape and dtype of `x`, where the options do not state another.
#[track_caller]
pub fn ones_like_with(x: &Array, options: LikeOptions) -> Array {
    full_like_with(x, 1, options)
}

/// Returns an array of the shape and dtype of `x`, where the options do not state another, filled
/// with `value`.
#[track_caller]
pub fn full_like_with(x: &Array, value: impl Into<Scalar>, options: LikeOptions) -> Array {
    let mut aval = x.aval().clone();
    if let Some(shape) = options.shape {
        aval = aval.with_shape(shape);
    }
    if let Some(dtype) = options.dtype {
        aval = Aval { dtype, weak: false, ..aval };
    }
    fill_of(value.into(), &aval)
}

/// Options of [`eye_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EyeOptions {
    /// The diagonal: 0 is the main one, positive ones are above it. The default is 0.
    pub offset: isize,
}

/// Returns the identity matrix: `eye(3)`, or `eye([3, 4])` with three rows and four columns. The
/// dtype is `f32` unless given: `eye((3, DType::I32))`. See [`IntoAval`].
///
/// Throws `Op` (shape) for more than two sizes.
#[doc(alias = "identity")]
#[track_caller]
pub fn eye(shape: impl IntoAval) -> Array {
    eye_with(shape, EyeOptions::default())
}

/// Returns a matrix with ones on one diagonal and zeros elsewhere. Shape, dtype and errors are
/// those of [`eye`].
#[track_caller]
pub fn eye_with(shape: impl IntoAval, options: EyeOptions) -> Array {
    let (Aval { shape, dtype, .. }, EyeOptions { offset }) = (shape.into_aval(DType::F32), options);
    let (rows, columns) = rows_and_columns("eye", &shape);
    let row = iota(DType::I32, [rows, columns], 0);
    let column = iota(DType::I32, [rows, columns], 1);
    convert_element_type(&eq(sub(&column, &row), offset as i32), dtype)
}

/// Returns the sizes of a matrix whose shape is one size, if it is square, or two.
#[track_caller]
pub(super) fn rows_and_columns(name: &str, shape: &Shape) -> (usize, usize) {
    match *shape.dims() {
        [n] => (n, n),
        [rows, columns] => (rows, columns),
        _ => {
            let message = format!("takes one or two sizes, got {shape}");
            throw_operands(name, RuleError::shape(message), &[]);
        }
    }
}

/// Order of the first two axes of [`meshgrid`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Indexing {
    /// Cartesian coordinates: the first vector varies along axis 1, the second along axis 0.
    #[default]
    Xy,
    /// Matrix indices: vector `i` varies along axis `i`.
    Ij,
}

/// Options of [`meshgrid_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeshgridOptions {
    /// The order of the first two axes. The default is [`Indexing::Xy`].
    pub indexing: Indexing,
    /// Returns axes of size 1 where a coordinate is constant, which broadcast to the grid. The
    /// default is false.
    pub sparse: bool,
}

/// Returns the coordinate arrays of the grid that `vectors` span: result `i` varies like vector `i`
/// along one axis and is constant along the others. Throws `Op` (shape) for an operand that is not
/// a vector.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, y) = (Aval::new(DType::F32, [3]), Aval::new(DType::F32, [2]));
/// let grid = eval_shape(|x: Array, y: Array| meshgrid([&x, &y]), (x, y))?;
/// assert_eq!(grid[0].aval().to_string(), "f32[2,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn meshgrid<F>(vectors: impl ArrayList<F>) -> Vec<Array> {
    meshgrid_with(vectors, MeshgridOptions::default())
}

/// Returns the coordinate arrays of a grid, as [`meshgrid`], with another order of axes.
#[track_caller]
pub fn meshgrid_with<F>(vectors: impl ArrayList<F>, options: MeshgridOptions) -> Vec<Array> {
    let vectors = vectors.into_arrays();
    if let Some(other) = vectors.iter().find(|x| x.rank() != 1) {
        let message = format!("takes vectors, got {}", other.aval());
        trace::throw_operands("meshgrid", RuleError::shape(message), &references(&vectors));
    }
    let axis_of = |index: usize| match options.indexing {
        Indexing::Xy if index < 2 && vectors.len() > 1 => 1 - index,
        _ => index,
    };
    let mut shape = vec![0; vectors.len()];
    for (index, x) in vectors.iter().enumerate() {
        shape[axis_of(index)] = x.size();
    }
    let mut grids = Vec::with_capacity(vectors.len());
    for (index, x) in vectors.iter().enumerate() {
        let axis = axis_of(index);
        grids.push(if options.sparse {
            let mut sizes = vec![1; shape.len()];
            sizes[axis] = shape[axis];
            reshape(x, sizes)
        } else {
            broadcast_in_dim(x, shape.as_slice(), &[axis])
        });
    }
    grids
}

/// Options of [`one_hot_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneHotOptions {
    /// The new axis of the result. The default is -1.
    pub axis: isize,
    /// The dtype of the result. The default is `f32`.
    pub dtype: DType,
}

impl Default for OneHotOptions {
    fn default() -> Self {
        OneHotOptions { axis: -1, dtype: DType::F32 }
    }
}

/// Returns, for each class index in `x`, `num_classes` numbers along a new last axis: 1 at the
/// index and 0 elsewhere. For an index out of range all are 0.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|labels: Array| one_hot(&labels, 10), Aval::new(DType::I32, [128]))?;
/// assert_eq!(y.aval().to_string(), "f32[128,10]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn one_hot(x: impl ArrayLike, num_classes: usize) -> Array {
    let x = &x.to_array();
    one_hot_with(x, num_classes, OneHotOptions::default())
}

/// Returns a one-hot encoding, as [`one_hot`], along another axis or of another dtype. Throws `Op`
/// (shape) for an axis out of range.
#[track_caller]
pub fn one_hot_with(x: impl ArrayLike, num_classes: usize, options: OneHotOptions) -> Array {
    let x = &x.to_array();
    let axis = expect_axis("one_hot", options.axis, x.rank() + 1, x);
    // Class indices may not fit into a narrow integer.
    let wide = match x.dtype() {
        narrow if narrow.is_bool() || narrow.is_integer() && narrow.bits() < 32 => DType::I32,
        other => other,
    };
    let shape: Shape = x.shape().insert(axis, num_classes);
    let axes: Vec<usize> = (0..=x.rank()).filter(|&other| other != axis).collect();
    let classes = iota(wide, shape.clone(), axis);
    let x = broadcast_in_dim(&convert_element_type(x, wide), shape, &axes);
    convert_element_type(&eq(x, classes), options.dtype)
}
