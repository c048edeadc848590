//! Composite functions against plain loops and known values, on the CPU plugin.

mod activations;
mod reductions;
mod support;
