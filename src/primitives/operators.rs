//! Rust operators for arrays and numbers.
//!
//! The right-hand side is any [`ArrayLike`]: one generic implementation per operator, so that the
//! type of `&x * 2.0` is known before the type of `2.0`. On the left only `i32` and `f64` are
//! literals: with more, `(2.0 * &x).sum()` would be ambiguous.

use super::arithmetic::{add, div, mul, neg, rem, sub};
use super::logic::{bitwise_and, bitwise_not, bitwise_or, bitwise_xor, shift_left, shift_right};
use super::promote::ArrayLike;
use crate::core::Array;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

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
