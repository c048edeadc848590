//! Composite functions against plain loops and known values, on the CPU plugin.

mod activations;
mod arranging;
mod indexing;
mod locations;
mod products;
mod reductions;
mod support;
