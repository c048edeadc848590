//! Kernels that models need, each with its derivative: written with [`kernel`](crate::kernel), for
//! TPU, GPU and CPU.

mod attention;
mod ring_attention;

pub use attention::{FlashAttentionOptions, flash_attention, flash_attention_with};
pub use ring_attention::{ring_attention, ring_attention_with};
