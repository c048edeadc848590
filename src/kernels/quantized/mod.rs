//! Products of activations and quantized weights.

mod channels;
mod groups;
mod matmul;
mod weight;

pub use matmul::{Activations, QuantizedMatmulOptions, quantized_matmul, quantized_matmul_with};
pub use weight::{Quantization, QuantizedWeight};
