//! Elementwise functions of NumPy: angles, logarithms, parts of floating-point numbers, bits of
//! integers, comparisons within a tolerance.

mod angles;
mod closeness;
mod float_parts;
mod gcd;
mod logarithms;
mod logical;
mod mulhi;
mod packbits;
mod signs;

pub use angles::*;
pub use closeness::*;
pub use float_parts::*;
pub use gcd::*;
pub use logarithms::*;
pub use logical::*;
pub use mulhi::*;
pub use packbits::*;
pub use signs::*;
