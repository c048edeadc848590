//! GGUF files: metadata, the types of tensors, and elements that may be blocks of quantized
//! numbers.
//!
//! Source: `docs/gguf.md` of ggml, versions 2 and 3, and the package `gguf` 0.19.

mod block_type;
mod blocks;
mod grids;
mod i_blocks;
mod k_blocks;
mod parts;
mod quantize;
mod reader;
mod writer;

pub use block_type::GgmlType;
pub(crate) use blocks::dequantize;
pub use parts::QuantizedBlocks;
pub(crate) use quantize::quantize;
pub(crate) use reader::read;
pub use writer::GgufDType;
