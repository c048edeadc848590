//! Hyperparameters of a layer.

use std::fmt;

/// A hyperparameter that is fixed when a layer is created, such as an epsilon or a rate.
///
/// It is part of the tree structure, so `jit` recompiles when it changes. Two are equal if their
/// bits are.
///
/// ```
/// use oxidax::prelude::*;
/// let epsilon = nn::Number::from(1e-5);
/// assert_eq!(epsilon.get(), 1e-5);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Number(u64);

impl Number {
    /// Returns the number.
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
