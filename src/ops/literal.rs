//! The macro [`array!`](crate::array): arrays written as lists.

use super::stack;
use crate::core::elements::{flattened, transferred};
use crate::core::{Array, Element, NestedElements};
use crate::primitives::reshape;

/// The rows of an [`array!`](crate::array), before they are converted.
#[doc(hidden)]
#[derive(Debug)]
pub struct ArrayLiteral<T>(pub T);

/// Conversion of the rows of an [`array!`](crate::array) whose elements have one type.
#[doc(hidden)]
pub trait TypedLiteral {
    /// Converts the rows.
    #[track_caller]
    fn array(self) -> Array;
}

/// The innermost elements of rows: numbers, or arrays of one shape.
pub trait LiteralLeaf: Sized {
    /// Assembles elements of a row-major list of this shape.
    #[track_caller]
    fn assemble(leaves: &[Self], shape: &[usize]) -> Array;
}

impl<T: Element> LiteralLeaf for T {
    #[track_caller]
    fn assemble(leaves: &[T], shape: &[usize]) -> Array {
        transferred(leaves, shape)
    }
}

impl LiteralLeaf for Array {
    #[track_caller]
    fn assemble(leaves: &[Array], shape: &[usize]) -> Array {
        let stacked = stack(leaves, 0);
        let inner = &stacked.shape()[1..];
        reshape(&stacked, [shape, inner].concat())
    }
}

impl<T: NestedElements<Leaf: LiteralLeaf>> TypedLiteral for ArrayLiteral<T> {
    #[track_caller]
    fn array(self) -> Array {
        let (leaves, shape) = flattened(&self.0);
        LiteralLeaf::assemble(&leaves, &shape)
    }
}

// The compiler prefers these methods to the one of the trait. A float literal without a suffix fits
// them, and so becomes `f32`; a value of type `f64` does not.
macro_rules! floats {
    ($([$($size:ident),*] $rows:ty;)*) => {$(
        impl<$(const $size: usize),*> ArrayLiteral<$rows> {
            /// Converts rows of `f32`.
            #[track_caller]
            pub fn array(self) -> Array {
                TypedLiteral::array(self)
            }
        }
    )*};
}

floats!(
    [A] [f32; A];
    [A, B] [[f32; B]; A];
    [A, B, C] [[[f32; C]; B]; A];
    [A, B, C, D] [[[[f32; D]; C]; B]; A];
    [A, B, C, D, E] [[[[[f32; E]; D]; C]; B]; A];
    [A, B, C, D, E, F] [[[[[[f32; F]; E]; D]; C]; B]; A];
);

/// Creates an array from numbers, nested to any depth, or stacks arrays of one shape.
///
/// | elements | dtype |
/// |-|-|
/// | float literals, `1.0`, `1.0 / 3.0` | `f32`, as in JAX, to six levels |
/// | integer literals, `usize`, `isize` | `i32`, as in JAX |
/// | `true` and `false` | `bool` |
/// | values of a type, `1.0f64`, `x` | their type: an `f64` variable is not narrowed |
/// | arrays, owned or borrowed | stacked along new leading axes, promoted |
///
/// All elements have one Rust type. Arrays and numbers together are a tuple:
/// [`stack((&x, 0.0), 0)`](crate::ops::stack). Rows of different lengths do not compile; rows in
/// vectors throw `Op` (value). Throws `Plugin` and `Runtime` as
/// [`Array::from_slice`](crate::Array::from_slice) returns them.
///
/// ```
/// use oxidax::prelude::*;
/// assert_eq!(array![1.0, 2.0].aval().to_string(), "f32[2]");
/// assert_eq!(array![[1, 2], [3, 4]].aval().to_string(), "i32[2,2]");
/// assert_eq!(array![true, false].aval().to_string(), "bool[2]");
/// let (wide, x) = (0.1f64, scalar(2.0));
/// assert_eq!(array![wide, 1.0].aval().to_string(), "f64[2]");
/// assert_eq!(array![&x, &(&x * 2.0)].shape().dims(), [2]);
/// ```
#[doc(alias = "jnp.array")]
#[macro_export]
macro_rules! array {
    ($($element:expr),* $(,)?) => {{
        #[allow(unused_imports, reason = "float literals have a method of their own")]
        use $crate::ops::TypedLiteral as _;
        $crate::ops::ArrayLiteral([$($element),*]).array()
    }};
}
