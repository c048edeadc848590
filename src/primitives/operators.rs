//! Rust's operators on arrays and numbers, in every mix of values and references.

use super::arithmetic::{add, div, mul, neg, sub};
use crate::core::Array;
use std::ops::{Add, Div, Mul, Neg, Sub};

macro_rules! binary {
    ($($trait:ident $method:ident $function:ident;)*) => {$(
        binary!(@pair $trait $method $function Array, Array);
        binary!(@pair $trait $method $function Array, &Array);
        binary!(@pair $trait $method $function &Array, Array);
        binary!(@pair $trait $method $function &Array, &Array);
        binary!(@numbers $trait $method $function i32 i64 u32 usize f32 f64);
    )*};
    (@numbers $trait:ident $method:ident $function:ident $($number:ty)*) => {$(
        binary!(@pair $trait $method $function Array, $number);
        binary!(@pair $trait $method $function &Array, $number);
        binary!(@pair $trait $method $function $number, Array);
        binary!(@pair $trait $method $function $number, &Array);
    )*};
    (@pair $trait:ident $method:ident $function:ident $lhs:ty, $rhs:ty) => {
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
