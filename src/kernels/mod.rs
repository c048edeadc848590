//! Kernels that models need, each with its derivative: written with [`kernel`](crate::kernel), for
//! TPU, GPU and CPU.
//!
//! - [`linear_cross_entropy`]: the loss of a language model without its logits
//!   (`docs/kernels/cross-entropy.md`).
//! - [`rms_norm`], [`layer_norm`], [`add_rms_norm`], [`add_layer_norm`], [`silu_and_mul`],
//!   [`gelu_and_mul`], [`sigmoid_and_mul`] and [`linear_glu`]: norms and gates
//!   (`docs/kernels/norms.md`).
//! - [`flash_attention`] and [`ring_attention`]: attention that does not store scores
//!   (`docs/kernels/flash-attention.md`), and [`paged_attention`] for decoding
//!   (`docs/kernels/paged-attention.md`).
//! - [`grouped_matmul`] for mixtures of experts, and [`quantized_matmul`] (`docs/kernels/`).
//!
//! `block_sizes::with_block_table` sets the blocks of all of them by a table of measurements, and
//! by a model for what was not measured. Blocks in options come first.

mod attention;
mod cross_entropy;
mod glu;
mod grouped_matmul;
mod norms;
mod paged_attention;
mod parts;
mod products;
mod quantized;
mod ring_attention;
mod row_groups;
mod scoped;

pub use attention::{FlashAttentionOptions, flash_attention, flash_attention_with};
pub use cross_entropy::{
    HeadLayout, LinearCrossEntropyOptions, linear_cross_entropy, linear_cross_entropy_with,
    linear_cross_entropy_with_lse,
};
pub use glu::{
    GluActivation, GluOptions, LinearGluOptions, gelu_and_mul, gelu_and_mul_with, linear_glu,
    linear_glu_with, sigmoid_and_mul, sigmoid_and_mul_with, silu_and_mul, silu_and_mul_with,
};
pub use grouped_matmul::{GroupedMatmulOptions, grouped_matmul, grouped_matmul_with};
pub use norms::{
    LayerNormOptions, RmsNormOptions, add_layer_norm, add_layer_norm_with, add_rms_norm,
    add_rms_norm_with, layer_norm, layer_norm_with, rms_norm, rms_norm_with,
};
pub use paged_attention::{
    PagedAttentionOptions, paged_attention, paged_attention_with, write_pages,
};
pub use quantized::{
    Activations, Quantization, QuantizedMatmulOptions, QuantizedWeight, quantized_matmul,
    quantized_matmul_with,
};
pub use ring_attention::{ring_attention, ring_attention_with};
