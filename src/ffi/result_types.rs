//! [`ResultTypes`]: the types of results that a call states.

use crate::core::{Array, Aval};

/// The types of a call's results, and the form in which it returns them: one [`Aval`] for an array,
/// an array of them for an array of arrays, and a vector or a slice for a vector.
pub trait ResultTypes {
    /// The arrays that the call returns.
    type Arrays;
    /// Returns the types.
    fn avals(&self) -> Vec<Aval>;
    /// Returns the arrays, which have the types, in the form of the types.
    fn arrays(&self, arrays: Vec<Array>) -> Self::Arrays;
}

impl ResultTypes for Aval {
    type Arrays = Array;
    fn avals(&self) -> Vec<Aval> {
        vec![self.clone()]
    }
    fn arrays(&self, mut arrays: Vec<Array>) -> Array {
        arrays.swap_remove(0)
    }
}

impl ResultTypes for &Aval {
    type Arrays = Array;
    fn avals(&self) -> Vec<Aval> {
        vec![(*self).clone()]
    }
    fn arrays(&self, mut arrays: Vec<Array>) -> Array {
        arrays.swap_remove(0)
    }
}

impl<const N: usize> ResultTypes for [Aval; N] {
    type Arrays = [Array; N];
    fn avals(&self) -> Vec<Aval> {
        self.to_vec()
    }
    fn arrays(&self, arrays: Vec<Array>) -> [Array; N] {
        arrays.try_into().expect("a call returns one array for each type")
    }
}

impl ResultTypes for &[Aval] {
    type Arrays = Vec<Array>;
    fn avals(&self) -> Vec<Aval> {
        self.to_vec()
    }
    fn arrays(&self, arrays: Vec<Array>) -> Vec<Array> {
        arrays
    }
}

impl ResultTypes for Vec<Aval> {
    type Arrays = Vec<Array>;
    fn avals(&self) -> Vec<Aval> {
        self.clone()
    }
    fn arrays(&self, arrays: Vec<Array>) -> Vec<Array> {
        arrays
    }
}
