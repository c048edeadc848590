//! Layers, training state, generation, checkpoints and assertions of Flax, Orbax and chex, beyond
//! [`oxidax::nn`].
//!
//! | module | contents | in Python |
//! |---|---|---|
//! | the root | layers, recurrent cells, attention weights | `flax.linen`, `flax.nnx` |
//! | [`training`] | training state, metrics, early stopping | `flax.training`, `nnx.metrics` |
//! | [`generate`] | text generation with a cache for any decoder | |
//! | [`serialization`] | trees as MessagePack, nested dictionaries | `flax.serialization`, `flax.traverse_util` |
//! | [`checkpoint`] | checkpoints kept by a metric | `orbax.checkpoint` |
//! | [`asserts`] | assertions about shapes, dtypes and values | `chex` |
//!
//! Layers are plain structs of arrays with `#[derive(Tree)]`, like those of [`oxidax::nn`].

#![forbid(unsafe_code)]

pub mod asserts;
pub mod checkpoint;
pub mod generate;
mod layers;
pub mod serialization;
pub mod training;

pub use layers::*;
