//! Trigonometric and hyperbolic primitives. Angles are in radians.

pub(super) mod circular;
mod complex;
pub(super) mod hyperbolic;
pub(super) mod inverse;

pub use circular::*;
pub use hyperbolic::*;
pub use inverse::*;
