//! Composite functions compared with plain loops and expected values, on the CPU plugin.

mod accumulated_updates;
mod activations;
mod arranging;
mod convolution_products;
mod custom_generators;
mod display;
mod indexing;
mod lax_options;
mod locations;
mod products;
mod reductions;
mod refusals;
mod special_values;
pub(crate) mod support;
mod transposed_products;
mod updates;
mod windows;
