//! Composite functions: what NumPy and `jax.nn` offer, written with primitives.
//!
//! Nothing here has rules of its own: every function is a few primitives, so it works under every
//! transform. Methods of [`Array`](crate::core::Array) live here too: reductions with axes,
//! reshaping, elementwise functions, indexing.

mod activations;
mod arrange;
mod axes;
mod convolve;
mod creation;
mod einsum;
mod elementwise;
pub mod fft;
mod indexing;
pub mod linalg;
mod methods;
mod numeric;
mod pooling;
mod products;
mod reductions;
mod running;
mod shapes;

pub use activations::{
    elu, gelu, gelu_exact, glu, hard_tanh, leaky_relu, log_sigmoid, log_softmax, logsumexp,
    logsumexp_weighted, relu, relu6, selu, sigmoid, silu, soft_sign, softmax, softplus,
    standardize,
};
pub use arrange::{
    diagonal, diff, flip, repeat, roll, split, split_at, stack, swapaxes, tile, trace, tri, tril,
    triu,
};
pub use axes::{Axes, axes};
pub use convolve::{ConvolveMode, convolve, correlate};
pub use creation::{
    Indexing, arange, eye, eye_offset, linspace, linspace_open, meshgrid, one_hot, one_hot_axis,
};
pub use einsum::einsum;
pub use indexing::{At, Ellipsis, Index, NewAxis, by, take, take_along_axis};
pub use numeric::{
    clip, floor_divide, isfinite, isinf, isnan, nan_to_num, power, remainder, signbit,
};
pub use pooling::{AverageOver, avg_pool, max_pool, min_pool};
pub use products::{TensorDotAxes, dot, inner, matmul, outer, tensordot, vdot};
pub use running::{cumulative_prod, cumulative_sum};
pub use shapes::OpenShape;
