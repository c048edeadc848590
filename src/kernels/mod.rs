//! Kernels that models need, each with its derivative: written with [`kernel`](crate::kernel), for
//! TPU, GPU and CPU.

mod grouped_matmul;
mod paged_attention;
mod products;
mod quantized;
mod row_groups;

pub use grouped_matmul::{GroupedMatmulOptions, grouped_matmul, grouped_matmul_with};
pub use paged_attention::{
    PagedAttentionOptions, paged_attention, paged_attention_with, write_pages,
};
pub use quantized::{
    Activations, Quantization, QuantizedMatmulOptions, QuantizedWeight, quantized_matmul,
    quantized_matmul_with,
};
