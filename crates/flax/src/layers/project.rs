//! The projection of several layers.

use oxidax::nn::check::expect_features;
use oxidax::prelude::*;

/// Computes `x · weight` in `dtype`, with the sizes checked.
#[track_caller]
pub(super) fn project(layer: &str, x: &Array, name: &str, weight: &Array, dtype: DType) -> Array {
    let [n_in, _] = weight.dims();
    expect_features(layer, x, name, weight, n_in);
    matmul(&x.astype(dtype), &weight.astype(dtype))
}
