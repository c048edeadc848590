//! Kernels that models need, each with its derivative: written with [`kernel`](crate::kernel), for
//! TPU, GPU and CPU.

mod cross_entropy;
mod parts;

pub use cross_entropy::{
    HeadLayout, LinearCrossEntropyOptions, linear_cross_entropy, linear_cross_entropy_with,
    linear_cross_entropy_with_lse,
};
