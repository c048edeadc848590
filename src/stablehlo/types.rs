//! Tensor types and SSA values.

use smallvec::SmallVec;
use std::fmt;

const TOKEN: &str = "!stablehlo.token";

/// A ranked, static tensor type, or that of a token. Prints as `tensor<4x8xf32>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    element: &'static str,
    dims: SmallVec<[usize; 6]>,
}

impl TensorType {
    /// The type with element type `element`, spelt as StableHLO spells it, and axis sizes `dims`.
    pub fn new(element: &'static str, dims: &[usize]) -> TensorType {
        TensorType { element, dims: SmallVec::from_slice(dims) }
    }

    /// The type of a token, which orders side effects and has no elements.
    pub fn token() -> TensorType {
        TensorType { element: TOKEN, dims: SmallVec::new() }
    }

    /// The element type.
    pub fn element(&self) -> &'static str {
        self.element
    }

    /// The axis sizes.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// A scalar of the same element type.
    pub fn scalar(&self) -> TensorType {
        TensorType::new(self.element, &[])
    }

    /// The same element type with other axis sizes.
    pub fn with_dims(&self, dims: &[usize]) -> TensorType {
        TensorType::new(self.element, dims)
    }

    /// The same axis sizes with another element type.
    pub fn with_element(&self, element: &'static str) -> TensorType {
        TensorType { element, dims: self.dims.clone() }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.element == TOKEN {
            return f.write_str(TOKEN);
        }
        f.write_str("tensor<")?;
        for dim in &self.dims {
            write!(f, "{dim}x")?;
        }
        write!(f, "{}>", self.element)
    }
}

/// An SSA value: a block argument or one result of an operation. Prints as `%3` or `%3#1`.
#[derive(Clone, Debug)]
pub struct Value {
    pub(super) id: u32,
    pub(super) index: Option<u32>,
    pub(super) ty: TensorType,
}

impl Value {
    /// The value's type.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            None => write!(f, "%{}", self.id),
            Some(index) => write!(f, "%{}#{index}", self.id),
        }
    }
}
