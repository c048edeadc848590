//! Elementwise arithmetic: operations, signs, rounding, extrema, powers and roots.

pub(super) mod basic;
pub(super) mod extrema;
pub(super) mod powers;
pub(super) mod roots;
pub(super) mod rounding;
pub(super) mod sign;

pub use basic::*;
pub use extrema::*;
pub use powers::*;
pub use roots::*;
pub use rounding::*;
pub use sign::*;
