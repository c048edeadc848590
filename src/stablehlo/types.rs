//! Tensor types and SSA values.

use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

const TOKEN: &str = "!stablehlo.token";

const TUPLE: &str = "tuple";

/// A ranked, static tensor type, the token type, or a tuple of types. Prints as
/// `tensor<4x8xf32>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    element: &'static str,
    dims: SmallVec<[usize; 6]>,
    /// The types in a tuple.
    members: Option<Arc<[TensorType]>>,
}

impl TensorType {
    /// Creates a type from the StableHLO name of the element type and the axis sizes.
    pub fn new(element: &'static str, dims: &[usize]) -> TensorType {
        TensorType { element, dims: SmallVec::from_slice(dims), members: None }
    }

    /// Creates the type of a tuple.
    ///
    /// ```
    /// use oxidax::stablehlo::TensorType;
    /// let pair = TensorType::tuple([TensorType::new("f32", &[4]), TensorType::new("i1", &[])]);
    /// assert_eq!(pair.to_string(), "tuple<tensor<4xf32>, tensor<i1>>");
    /// ```
    pub fn tuple(members: impl IntoIterator<Item = TensorType>) -> TensorType {
        let members = Some(members.into_iter().collect());
        TensorType { element: TUPLE, dims: SmallVec::new(), members }
    }

    /// Returns the token type. Tokens order side effects and have no elements.
    pub fn token() -> TensorType {
        TensorType::new(TOKEN, &[])
    }

    /// Returns the element type.
    pub fn element(&self) -> &'static str {
        self.element
    }

    /// Returns the axis sizes.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Returns the scalar type with this element type.
    pub fn scalar(&self) -> TensorType {
        TensorType::new(self.element, &[])
    }

    /// Returns the type with this element type and other axis sizes.
    pub fn with_dims(&self, dims: &[usize]) -> TensorType {
        TensorType::new(self.element, dims)
    }

    /// Returns the type with these axis sizes and another element type.
    pub fn with_element(&self, element: &'static str) -> TensorType {
        TensorType { element, dims: self.dims.clone(), members: None }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.element == TOKEN {
            return f.write_str(TOKEN);
        }
        if let Some(members) = &self.members {
            f.write_str("tuple<")?;
            for (index, member) in members.iter().enumerate() {
                write!(f, "{}{member}", if index == 0 { "" } else { ", " })?;
            }
            return f.write_str(">");
        }
        f.write_str("tensor<")?;
        for dim in &self.dims {
            write!(f, "{dim}x")?;
        }
        write!(f, "{}>", self.element)
    }
}

/// An SSA value: a block argument or one result of an operation. Prints as `%3` or `%3#1`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Value {
    pub(super) id: u32,
    pub(super) index: Option<u32>,
    pub(super) ty: TensorType,
}

impl Value {
    /// Returns the type of the value.
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
