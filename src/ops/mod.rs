//! Functions of `jax.numpy`, `jax.nn` and `jax.scipy` that are composed of primitives.
//!
//! Compositions need no rules, so every function works under every transform. The folder also holds
//! methods of [`Array`](crate::core::Array): reductions, reshaping, elementwise functions,
//! indexing.
//!
//! A function `f(x, …)` has JAX's defaults. Its options are the fields of a struct that
//! `f_with(x, …, FOptions { .. })` takes.

mod activations;
mod array_ref;
mod axes;
mod axis_slice;
mod block_scaled;
mod calculus;
mod collectives;
mod convolve;
mod creation;
mod cumulative;
mod descriptive;
mod dtypes;
mod einsum;
mod elementary;
mod elementwise;
pub mod fft;
mod grids;
mod indexing;
mod joining;
pub mod linalg;
mod literal;
mod masked;
mod methods;
mod numeric;
mod pad;
mod pad_values;
mod partial_shape;
mod polynomials;
mod pooling;
mod products;
mod ragged_dot;
mod reductions;
mod scaled_products;
mod segments;
mod selection;
mod spaces;
pub mod special;
pub mod stats;
mod tree_functions;
mod vectors;
mod window_functions;
mod windows;

pub use activations::*;
pub use array_ref::{RefOptions, empty_ref, free_ref, freeze, new_ref, new_ref_with};
pub use axes::*;
pub use block_scaled::{BlockScaleConfig, BlockScaleMode, scaled_dot_general};
pub use calculus::*;
pub use collectives::*;
pub use convolve::*;
pub use creation::*;
pub use cumulative::*;
pub use descriptive::*;
pub use dtypes::*;
pub use einsum::*;
pub use elementary::*;
pub use grids::*;
pub use indexing::*;
pub use joining::*;
pub use literal::*;
pub use masked::*;
pub use methods::{ElementOrder, ReshapeOptions};
pub use numeric::*;
pub use pad::*;
pub use partial_shape::*;
pub use polynomials::*;
pub use pooling::*;
pub use products::*;
pub use ragged_dot::*;
pub use scaled_products::*;
pub use segments::*;
pub use selection::*;
pub use spaces::*;
pub use tree_functions::*;
pub use vectors::*;
pub use window_functions::*;
pub use windows::*;
