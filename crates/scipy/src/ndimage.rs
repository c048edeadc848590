//! Interpolation of images, as in `jax.scipy.ndimage`.

use crate::operands::throw_shape;
use oxidax::core::{Loc, Scalar};
use oxidax::prelude::*;

/// Order of the splines that [`map_coordinates`] interpolates with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplineOrder {
    /// Order 0: the nearest element.
    Nearest,
    /// Order 1: linear between elements.
    Linear,
}

/// Values outside of the array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageBoundary {
    /// The value [`MapCoordinatesOptions::cval`].
    #[default]
    Constant,
    /// The element at the edge.
    Nearest,
    /// The elements from the opposite end.
    Wrap,
    /// A mirror image that does not repeat the element at the edge.
    Mirror,
    /// A mirror image that repeats the element at the edge.
    Reflect,
}

/// Options of [`map_coordinates_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MapCoordinatesOptions {
    /// The values outside of the array. The default is [`ImageBoundary::Constant`].
    pub mode: ImageBoundary,
    /// The constant outside of the array. The default is 0.
    pub cval: Scalar,
}

impl Default for MapCoordinatesOptions {
    fn default() -> Self {
        MapCoordinatesOptions { mode: ImageBoundary::Constant, cval: Scalar::Int(0) }
    }
}

/// Interpolates `x` at coordinates: one array for each axis of `x`, which broadcast to the shape of
/// the result. The coordinate of an element is its index. The result has the dtype of `x`.
///
/// Outside of `x` the value is 0. Differentiable with respect to `x`, and for
/// [`SplineOrder::Linear`] also the coordinates. Integers are rounded.
///
/// Throws `Op` (shape) unless there is one array for each axis.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::ndimage::{SplineOrder, map_coordinates};
/// let x = array![[0.0, 1.0], [2.0, 3.0]];
/// let y = map_coordinates(&x, [&array![0.5, 1.0], &array![0.5, 0.25]], SplineOrder::Linear);
/// assert_eq!(y.to_vec::<f32>()?, [1.5, 2.25]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn map_coordinates<F>(
    x: &Array,
    coordinates: impl oxidax::primitives::ArrayList<F>,
    order: SplineOrder,
) -> Array {
    map_coordinates_with(x, coordinates, order, MapCoordinatesOptions::default())
}

/// Returns [`map_coordinates`] with options.
#[track_caller]
pub fn map_coordinates_with<F>(
    x: &Array,
    coordinates: impl oxidax::primitives::ArrayList<F>,
    order: SplineOrder,
    options: MapCoordinatesOptions,
) -> Array {
    let coordinates = coordinates.into_arrays();
    if coordinates.len() != x.rank() {
        let count = coordinates.len();
        let message = format!("{count} arrays of coordinates for an array of rank {}", x.rank());
        throw_shape("map_coordinates", message, &[x]);
    }
    Loc::caller().scope(|| interpolated(x, &coordinates, order, options))
}

/// A neighbour along one axis: its index within the array, the condition that the coordinate is
/// within the array, if it matters, and its weight.
struct Neighbour {
    index: Array,
    is_inside: Option<Array>,
    weight: Array,
}

fn interpolated(
    x: &Array,
    coordinates: &[Array],
    order: SplineOrder,
    options: MapCoordinatesOptions,
) -> Array {
    let axes = coordinates.iter().zip(x.shape().iter());
    let neighbours: Vec<Vec<Neighbour>> =
        axes.map(|(at, &size)| along_axis(at, size, order, options.mode)).collect();
    let mut sum: Option<Array> = None;
    let n_corners: usize = neighbours.iter().map(Vec::len).product();
    for corner in 0..n_corners {
        let (mut rest, mut chosen) = (corner, Vec::with_capacity(neighbours.len()));
        for choices in neighbours.iter().rev() {
            chosen.push(&choices[rest % choices.len()]);
            rest /= choices.len();
        }
        chosen.reverse();
        let indices: Vec<Index> = chosen.iter().map(|one| Index::from(&one.index)).collect();
        let mut value = x.index(indices);
        let inside = chosen.iter().filter_map(|one| one.is_inside.clone());
        if let Some(inside) = inside.reduce(|a, b| logical_and(a, b)) {
            value = where_(inside, &value, scalar(options.cval).astype(x.dtype()));
        }
        let weights = chosen.iter().map(|one| one.weight.clone());
        let term = match weights.reduce(|a, b| a * b) {
            Some(weight) => weight * value,
            None => value,
        };
        sum = Some(match sum {
            Some(sum) => sum + term,
            None => term,
        });
    }
    let sum = sum.unwrap_or_else(|| x.clone());
    let is_rounded = !x.dtype().is_inexact() && sum.dtype().is_inexact();
    if is_rounded { round_half_away(sum).astype(x.dtype()) } else { sum.astype(x.dtype()) }
}

fn along_axis(at: &Array, size: usize, order: SplineOrder, mode: ImageBoundary) -> Vec<Neighbour> {
    let neighbour = |index: Array, weight: Array| {
        let last = size as i32 - 1;
        let is_inside =
            (mode == ImageBoundary::Constant).then(|| logical_and(ge(&index, 0), le(&index, last)));
        Neighbour { index: within(&index, size, mode), is_inside, weight }
    };
    match order {
        SplineOrder::Nearest => {
            let nearest = if at.dtype().is_inexact() { round_half_away(at) } else { at.clone() };
            vec![neighbour(nearest.astype(DType::I32), scalar(1).astype(at.dtype()))]
        }
        SplineOrder::Linear => {
            let lower = floor(at);
            let share = at - &lower;
            let index = lower.astype(DType::I32);
            vec![neighbour(index.clone(), sub(1, &share)), neighbour(index + 1, share)]
        }
    }
}

/// Returns the index of the element that stands for an index beyond the array.
fn within(index: &Array, size: usize, mode: ImageBoundary) -> Array {
    let n = size as i32;
    let mirrored =
        |index: Array, n: i32| abs(remainder(index + (n - 1), (2 * (n - 1)).max(1)) - (n - 1));
    match mode {
        // Values of indices beyond the array are replaced.
        ImageBoundary::Constant | ImageBoundary::Nearest => clip(index, 0, n - 1),
        ImageBoundary::Wrap => remainder(index, n),
        ImageBoundary::Mirror if n == 1 => zeros_like(index),
        ImageBoundary::Mirror => mirrored(index.clone(), n),
        ImageBoundary::Reflect => floor_divide(mirrored(index * 2 + 1, 2 * n + 1) - 1, 2),
    }
}
