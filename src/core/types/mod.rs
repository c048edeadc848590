//! Types of arrays: dtypes, shapes, and promotion between them.

pub(crate) mod aval;
pub(crate) mod check_set;
pub(crate) mod dtype;
pub(crate) mod element;
pub(crate) mod layout;
pub(crate) mod precision;
pub(crate) mod promotion;
pub(crate) mod scalar;
pub(crate) mod shape;
pub(crate) mod small_float;

pub use aval::{Aval, IntoAval};
pub use check_set::CheckSet;
pub use dtype::DType;
pub use element::Element;
pub use layout::{Layout, LayoutMode};
pub use precision::{Precision, with_matmul_precision};
pub use promotion::promote;
pub use scalar::Scalar;
pub use shape::Shape;
