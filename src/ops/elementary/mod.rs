//! Elementwise functions of NumPy that are more than one primitive: logarithms and angles, the parts
//! of floating-point numbers, integers and their bits, comparisons within a tolerance.

mod angles;
mod closeness;
mod float_parts;
mod gcd;
mod logarithms;
mod logical;
mod mulhi;
mod packbits;
mod signs;

pub use angles::{deg2rad, hypot, rad2deg, sinc, unwrap};
pub use closeness::{
    Closeness, allclose, allclose_within, array_equal, array_equal_nan, array_equiv, isclose,
    isclose_within, iscomplex, isneginf, isposinf, isreal,
};
pub use float_parts::{frexp, ldexp, spacing};
pub use gcd::{gcd, lcm};
pub use logarithms::{log2, log10, logaddexp2};
pub use logical::{
    divmod, fmax, fmin, heaviside, logical_and, logical_not, logical_or, logical_xor,
};
pub use mulhi::mulhi;
pub use packbits::{BitOrder, packbits, unpackbits};
pub use signs::{copysign, fabs, float_power, modf, positive, reciprocal, round_to, trunc};
