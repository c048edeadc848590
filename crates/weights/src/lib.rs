//! Reads weights that other libraries have written, and maps their names.
//!
//! ```no_run
//! use oxidax_weights::Weights;
//! let weights = Weights::open("pytorch_model.bin")?;
//! for (name, tensor) in weights.tensors() {
//!     println!("{name}: {tensor}"); // transformer.wte.weight: f32[50257,768]
//! }
//! # Ok::<(), oxidax_weights::Error>(())
//! ```
//!
//! | format | read | written |
//! |--------|------|---------|
//! | safetensors, also several files with an index | yes | yes |
//! | PyTorch: `torch.save`, also several files with an index | yes | no |
//! | GGUF, every type of blocks | yes | yes |
//! | NumPy: `.npy`, `.npz` | yes | no |
//! | Flax: `flax.serialization` | yes | no |
//! | Orbax: OCDBT, zarr 2 and 3 | yes | no |
//!
//! Any bytes can be read: damaged ones are an [`Error`] that names the file and the position.
//! Pickles are not executed. Elements are read when they are needed, by ranges of the file.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod archive;
#[cfg(feature = "arrays")]
mod arrays;
mod convert;
mod derived;
mod detect;
mod dtype;
mod error;
mod fit;
mod flax;
mod gguf;
mod metadata;
mod names;
mod npy;
mod npz;
mod orbax;
mod pattern;
mod pickle;
mod pickle_machine;
mod pytorch;
mod pytorch_legacy;
mod rules;
mod rules_text;
mod safetensors;
mod safetensors_writer;
mod shards;
mod source;
mod state_dict;
mod strided;
mod tensor;
mod weights;

#[cfg(feature = "arrays")]
pub use arrays::expected_tensors;
pub use detect::WeightFormat;
pub use dtype::WeightDType;
pub use error::{Error, Result};
pub use fit::ExpectedTensor;
pub use gguf::{GgmlType, GgufDType, QuantizedBlocks};
pub use metadata::WeightMetadata;
pub use rules::Rules;
pub use tensor::StoredTensor;
pub use weights::Weights;
