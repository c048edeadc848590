//! Repeated elements.

use super::super::axis_slice::expect_axis;
use super::counted::{RepeatOptions, Repeats, repeat_each};
use crate::core::{Array, Shape};
use crate::primitives::{broadcast_in_dim, reshape, slice, zeros};

/// Repeats `x` as a whole, `reps[i]` times along axis `i`. Axes are aligned at the last one, and
/// missing axes count as 1.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| tile(&x, &[4, 1, 2]), Aval::new(DType::F32, [2, 3]))?;
/// assert_eq!(y.aval().to_string(), "f32[4,2,6]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn tile(x: &Array, reps: &[usize]) -> Array {
    let rank = x.rank().max(reps.len());
    let size = |axis: usize| (axis + x.rank()).checked_sub(rank).map_or(1, |axis| x.shape()[axis]);
    let rep = |axis: usize| (axis + reps.len()).checked_sub(rank).map_or(1, |axis| reps[axis]);
    // Each axis becomes a pair (repeat, element), which is then flattened.
    let pairs: Vec<usize> = (0..rank).flat_map(|axis| [rep(axis), size(axis)]).collect();
    let element_axes: Vec<usize> = (rank - x.rank()..rank).map(|axis| 2 * axis + 1).collect();
    let shape: Shape = (0..rank).map(|axis| rep(axis) * size(axis)).collect();
    reshape(&broadcast_in_dim(x, pairs, &element_axes), shape)
}

/// Repeats each element of `x` along `axis`, or of the flattened array for `None`. `repeats` is one
/// number, or integers with one count for each slice along the axis.
///
/// Throws `Op` (shape) for an axis out of range and for another number of counts, and `Op`
/// (unsupported) for traced counts, which require [`repeat_with`].
///
/// ```
/// use oxidax::prelude::*;
/// let x = array![[1, 2], [3, 4]];
/// assert_eq!(repeat(&x, 2, 1).to_vec::<i32>()?, [1, 1, 2, 2, 3, 3, 4, 4]);
/// assert_eq!(repeat(&x, [0, 2], 1).to_vec::<i32>()?, [2, 2, 4, 4]);
/// assert_eq!(repeat(&x, [1, 0, 0, 2], None).to_vec::<i32>()?, [1, 4, 4]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn repeat(x: &Array, repeats: impl Into<Repeats>, axis: impl Into<Option<isize>>) -> Array {
    repeat_with(x, repeats, axis, RepeatOptions::default())
}

/// Repeats elements, as [`repeat`], to a static total size, which traced counts require.
///
/// ```
/// use oxidax::prelude::*;
/// let total = RepeatOptions { total_repeat_length: Some(5) };
/// let y = eval_shape(
///     move |x: Array, counts: Array| repeat_with(&x, &counts, 0, total),
///     (Aval::new(DType::F32, [3, 4]), Aval::new(DType::I32, [3])),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[5,4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn repeat_with(
    x: &Array,
    repeats: impl Into<Repeats>,
    axis: impl Into<Option<isize>>,
    options: RepeatOptions,
) -> Array {
    let axis = axis.into();
    let x = &if axis.is_none() { reshape(x, [x.size()]) } else { x.clone() };
    let axis = axis.unwrap_or(0);
    match (repeats.into(), options.total_repeat_length) {
        (Repeats::Count(count), None) => repeat_all(x, count, axis),
        (Repeats::Count(count), Some(_)) => {
            repeat_each(x, &Array::from(vec![count as i32]), axis, options)
        }
        (Repeats::Counts(counts), _) => repeat_each(x, &counts, axis, options),
    }
}

#[track_caller]
fn repeat_all(x: &Array, repeats: usize, axis: isize) -> Array {
    let axis = expect_axis("repeat", axis, x.rank(), x);
    let pairs = x.shape().insert(axis + 1, repeats);
    let element_axes: Vec<usize> = (0..=x.rank()).filter(|&other| other != axis + 1).collect();
    let mut shape = x.shape().to_vec();
    shape[axis] *= repeats;
    reshape(&broadcast_in_dim(x, pairs, &element_axes), shape)
}

/// Returns the elements of `x` in row-major order under another shape, repeated from the first as
/// often as the shape requires. The result is zero if `x` is empty.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| resize(&x, [2, 4]), Aval::new(DType::F32, [3]))?;
/// assert_eq!(y.aval().to_string(), "f32[2,4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn resize(x: &Array, new_shape: impl Into<Shape>) -> Array {
    let shape = new_shape.into();
    let (available, needed) = (x.size(), shape.size());
    if available == 0 || needed == 0 {
        return zeros((shape, x.dtype()));
    }
    let repeated = tile(&reshape(x, [available]), &[needed.div_ceil(available)]);
    reshape(&slice(&repeated, &[0], &[needed], &[1]), shape)
}
