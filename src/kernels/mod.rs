//! Kernels that models need, each with its derivative: written with [`kernel`](crate::kernel), for
//! TPU, GPU and CPU.

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

pub use attention::{FlashAttentionOptions, flash_attention, flash_attention_with};
pub use cross_entropy::{
    HeadLayout, LinearCrossEntropyOptions, linear_cross_entropy, linear_cross_entropy_with,
    linear_cross_entropy_with_lse,
};
pub use glu::{GluActivation, GluOptions, LinearGluOptions, geglu, glu, linear_glu, swiglu};
pub use grouped_matmul::{GroupedMatmulOptions, grouped_matmul, grouped_matmul_with};
pub use norms::{
    LayerNormOptions, RmsNormOptions, add_layer_norm, add_rms_norm, layer_norm, rms_norm,
};
pub use paged_attention::{
    PagedAttentionOptions, paged_attention, paged_attention_with, write_pages,
};
pub use quantized::{
    Activations, Quantization, QuantizedMatmulOptions, QuantizedWeight, quantized_matmul,
    quantized_matmul_with,
};
pub use ring_attention::{ring_attention, ring_attention_with};
