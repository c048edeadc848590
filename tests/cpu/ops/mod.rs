//! Composite functions against plain loops and known values, on the CPU plugin.

mod activations;
mod arranging;
mod display;
mod indexing;
mod locations;
mod products;
mod reductions;
mod refusals;
mod special_values;
mod support;
mod updates;
mod windows;
