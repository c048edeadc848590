//! Assertions about dtypes.

use super::failure::is_enabled;
use oxidax::core::{RuleError, throw_operands};
use oxidax::prelude::*;

/// A dtype or a category of dtypes, for [`assert_type`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExpectedType {
    /// This dtype.
    DType(DType),
    /// A float of any width.
    Float,
    /// A signed or unsigned integer of any width.
    Integer,
    /// A complex number of any width.
    Complex,
    /// Booleans.
    Bool,
}

impl From<DType> for ExpectedType {
    fn from(dtype: DType) -> ExpectedType {
        ExpectedType::DType(dtype)
    }
}

/// Throws `Op` (dtype) unless `x` has this dtype, or a dtype of this category.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::asserts::{ExpectedType, assert_type};
/// let x = ones([2]);
/// assert_type(&x, DType::F32);
/// assert_type(&x, ExpectedType::Float);
/// assert!(catch(|| assert_type(&x, ExpectedType::Integer)).is_err());
/// ```
#[track_caller]
pub fn assert_type(x: &Array, expected: impl Into<ExpectedType>) {
    let expected = expected.into();
    let dtype = x.dtype();
    let (fits, name) = match expected {
        ExpectedType::DType(expected) => (dtype == expected, expected.to_string()),
        ExpectedType::Float => (dtype.is_float(), "a float".to_owned()),
        ExpectedType::Integer => (dtype.is_integer(), "an integer".to_owned()),
        ExpectedType::Complex => {
            (matches!(dtype, DType::C64 | DType::C128), "a complex number".to_owned())
        }
        ExpectedType::Bool => (dtype == DType::Bool, "bool".to_owned()),
    };
    if is_enabled() && !fits {
        let error = RuleError::dtype(format!("{} is not {name}", x.aval()));
        throw_operands("assert_type", error, &[x]);
    }
}
