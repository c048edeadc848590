//! Vector quantization, as in `jax.scipy.cluster.vq`.

use crate::operands::{common_inexact, throw_shape};
use oxidax::core::Loc;
use oxidax::ops::linalg::{VectorNorm, vector_norm};
use oxidax::prelude::*;

/// Assigns each observation to the nearest row of a code book. Returns the indices of the rows,
/// `i32[n]`, and the Euclidean distances, `[n]`.
///
/// Observations are `[n, features]` and the code book `[k, features]`, or both are vectors of
/// single features. Integers become floats.
///
/// Throws `Op` (shape) unless both have the same rank, 1 or 2, and the same number of features.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::cluster::vq;
/// let observations = array![[0.0, 1.0], [5.0, 5.0]];
/// let (codes, distances) = vq(&observations, &array![[4.0, 5.0], [0.0, 0.0]]);
/// assert_eq!(codes.to_vec::<i32>()?, [1, 0]);
/// assert_eq!(distances.to_vec::<f32>()?, [1.0, 1.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn vq(observations: &Array, code_book: &Array) -> (Array, Array) {
    let rank = observations.rank();
    let is_known = rank == code_book.rank() && [1, 2].contains(&rank);
    if !is_known || (rank == 2 && observations.shape()[1] != code_book.shape()[1]) {
        let message = format!(
            "takes observations [n, features] and a code book [k, features], or two vectors, got \
             {} and {}",
            observations.shape(),
            code_book.shape()
        );
        throw_shape("vq", message, &[observations, code_book]);
    }
    Loc::caller().scope(|| {
        let [x, codes] = common_inexact([observations, code_book]);
        let column = |x: &Array| if rank == 1 { x.expand_dims(-1) } else { x.clone() };
        let offsets = column(&x).expand_dims(1) - column(&codes).expand_dims(0);
        let distances = vector_norm(&offsets, VectorNorm::L2, -1);
        let nearest = argmin(&distances, -1);
        let least = take_along_axis(&distances, &nearest.expand_dims(-1), -1);
        (nearest, squeeze(&least, &[-1]))
    })
}
