//! Logic on booleans and on the bits of integers.

pub(super) mod bitwise;
pub(super) mod counts;
pub(super) mod shifts;

pub use bitwise::*;
pub use counts::*;
pub use shifts::*;
