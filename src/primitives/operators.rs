//! Rust operators for arrays and numbers.
//!
//! The right-hand side is any [`ArrayLike`]: one generic implementation per operator, so that the
//! type of `&x * 2.0` is known before the type of `2.0`. On the left only `i32` and `f64` are
//! literals: with more, `(2.0 * &x).sum()` would be ambiguous.

use super::arithmetic::{add, div, mul, neg, rem, sub};
use super::constant::scalar;
use super::logic::{bitwise_and, bitwise_not, bitwise_or, bitwise_xor, shift_left, shift_right};
use super::promote::ArrayLike;
use crate::core::Array;
use std::iter::{Product, Sum};
use std::ops::{
    Add, AddAssign, BitAnd, BitOr, BitXor, Div, DivAssign, Mul, MulAssign, Neg, Not, Rem,
    RemAssign, Shl, Shr, Sub, SubAssign,
};

macro_rules! binary {
    ($($trait:ident $method:ident $function:ident;)*) => {$(
        binary!(@array $trait $method $function Array);
        binary!(@array $trait $method $function &Array);
        binary!(@number $trait $method $function i32, Array);
        binary!(@number $trait $method $function i32, &Array);
        binary!(@number $trait $method $function f64, Array);
        binary!(@number $trait $method $function f64, &Array);
    )*};
    (@array $trait:ident $method:ident $function:ident $lhs:ty) => {
        impl<R: ArrayLike> $trait<R> for $lhs {
            type Output = Array;
            #[track_caller]
            fn $method(self, rhs: R) -> Array {
                $function(self, rhs)
            }
        }
    };
    (@number $trait:ident $method:ident $function:ident $lhs:ty, $rhs:ty) => {
        impl $trait<$rhs> for $lhs {
            type Output = Array;
            #[track_caller]
            fn $method(self, rhs: $rhs) -> Array {
                $function(self, rhs)
            }
        }
    };
}

binary!(
    Add add add;
    Sub sub sub;
    Mul mul mul;
    Div div div;
    Rem rem rem;
    BitAnd bitand bitwise_and;
    BitOr bitor bitwise_or;
    BitXor bitxor bitwise_xor;
    Shl shl shift_left;
    Shr shr shift_right;
);

macro_rules! assign {
    ($($trait:ident $method:ident $function:ident;)*) => {$(
        /// Replaces the array by the result, which may have another shape or dtype.
        impl<R: ArrayLike> $trait<R> for Array {
            #[track_caller]
            fn $method(&mut self, rhs: R) {
                *self = $function(&*self, rhs);
            }
        }
    )*};
}

assign!(
    AddAssign add_assign add;
    SubAssign sub_assign sub;
    MulAssign mul_assign mul;
    DivAssign div_assign div;
    RemAssign rem_assign rem;
);

macro_rules! fold {
    ($($trait:ident $method:ident $function:ident $start:literal;)*) => {$(
        /// Combines the arrays from left to right, with broadcasting. Returns a weakly typed scalar
        /// if there are none.
        impl $trait for Array {
            #[track_caller]
            fn $method<I: Iterator<Item = Array>>(mut arrays: I) -> Array {
                let first = arrays.next().unwrap_or_else(|| scalar($start));
                arrays.fold(first, |total, x| $function(total, x))
            }
        }

        impl<'a> $trait<&'a Array> for Array {
            #[track_caller]
            fn $method<I: Iterator<Item = &'a Array>>(arrays: I) -> Array {
                arrays.cloned().$method()
            }
        }
    )*};
}

fold!(
    Sum sum add 0.0;
    Product product mul 1.0;
);

impl Neg for Array {
    type Output = Array;
    #[track_caller]
    fn neg(self) -> Array {
        neg(&self)
    }
}

impl Neg for &Array {
    type Output = Array;
    #[track_caller]
    fn neg(self) -> Array {
        neg(self)
    }
}

impl Not for Array {
    type Output = Array;
    #[track_caller]
    fn not(self) -> Array {
        bitwise_not(&self)
    }
}

impl Not for &Array {
    type Output = Array;
    #[track_caller]
    fn not(self) -> Array {
        bitwise_not(self)
    }
}
