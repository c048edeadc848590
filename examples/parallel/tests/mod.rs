//! Runs `examples/parallel` on eight CPU devices and checks losses, collectives and bytes per
//! device.

mod collectives;
mod recipes;
