//! Elementwise functions of NumPy that are more than one primitive: logarithms and angles, the parts
//! of floating-point numbers, integers and their bits, comparisons within a tolerance.

mod angles;
mod bytes;
mod closeness;
mod divisors;
mod exponents;
mod high_bits;
mod logarithms;
mod ordering;
mod signs;

pub use angles::{deg2rad, hypot, rad2deg, sinc, unwrap};
pub use bytes::{BitOrder, packbits, unpackbits};
pub use closeness::{
    Closeness, allclose, allclose_within, array_equal, array_equal_nan, array_equiv, isclose,
    isclose_within, iscomplex, isneginf, isposinf, isreal,
};
pub use divisors::{gcd, lcm};
pub use exponents::{frexp, ldexp, spacing};
pub use high_bits::mulhi;
pub use logarithms::{log2, log10, logaddexp2};
pub use ordering::{
    divmod, fmax, fmin, heaviside, logical_and, logical_not, logical_or, logical_xor,
};
pub use signs::{copysign, fabs, float_power, modf, positive, reciprocal, round_to, trunc};
