//! Numbers of a layer that are not trained.

use std::fmt;

/// A number that is fixed when a layer is made, such as an epsilon or a rate: part of the structure, so that
/// `jit` compiles anew when it changes. Equal by its bits.
///
/// ```
/// use oxidax::prelude::*;
/// let epsilon = nn::Number::from(1e-5);
/// assert_eq!(epsilon.get(), 1e-5);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Number(u64);

impl Number {
    /// The number itself.
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Number {
        Number(value.to_bits())
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.get(), f)
    }
}
