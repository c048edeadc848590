//! Tangents and cotangents, with symbolic zeros.

use crate::core::array::array::Array;
use crate::core::types::aval::Aval;

/// A tangent or cotangent: a symbolic zero, or an array.
#[derive(Clone, Debug)]
pub enum Tangent {
    /// Zero everywhere; of the aval that a dense one would have.
    Zero(Aval),
    /// An array.
    Dense(Array),
}

impl Tangent {
    /// A symbolic zero for a value like `x`.
    #[doc(alias = "zero_from_primal")]
    pub fn zero_like(x: &Array) -> Tangent {
        Tangent::Zero(x.aval().clone())
    }

    /// Returns the aval.
    pub fn aval(&self) -> &Aval {
        match self {
            Tangent::Zero(aval) => aval,
            Tangent::Dense(array) => array.aval(),
        }
    }

    /// Returns true for a symbolic zero.
    pub fn is_zero(&self) -> bool {
        matches!(self, Tangent::Zero(_))
    }

    /// Returns the array, or `None` for a symbolic zero.
    pub fn array(&self) -> Option<&Array> {
        match self {
            Tangent::Zero(_) => None,
            Tangent::Dense(array) => Some(array),
        }
    }

    /// Applies a linear function whose result is a tangent of `result`; a zero stays a zero.
    pub fn map(&self, result: &Aval, f: impl FnOnce(&Array) -> Array) -> Tangent {
        match self {
            Tangent::Zero(_) => Tangent::Zero(result.clone()),
            Tangent::Dense(array) => Tangent::Dense(f(array)),
        }
    }
}

impl From<Array> for Tangent {
    fn from(array: Array) -> Tangent {
        Tangent::Dense(array)
    }
}
