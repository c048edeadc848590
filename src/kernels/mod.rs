//! Kernels that models need, each with its derivative: written with [`kernel`](crate::kernel), for
//! TPU, GPU and CPU.
//!
//! - [`linear_cross_entropy`]: the loss of a language model without its logits
//!   (`docs/kernels/cross-entropy.md`).
//! - [`rms_norm`], [`layer_norm`], [`add_rms_norm`], [`add_layer_norm`], [`glu`], [`swiglu`],
//!   [`geglu`] and [`linear_glu`]: norms and gates (`docs/kernels/norms.md`).

mod cross_entropy;
mod glu;
mod norms;
mod parts;

pub use cross_entropy::{
    HeadLayout, LinearCrossEntropyOptions, linear_cross_entropy, linear_cross_entropy_with,
    linear_cross_entropy_with_lse,
};
pub use glu::{GluActivation, GluOptions, LinearGluOptions, geglu, glu, linear_glu, swiglu};
pub use norms::{
    LayerNormOptions, RmsNormOptions, add_layer_norm, add_rms_norm, layer_norm, rms_norm,
};
