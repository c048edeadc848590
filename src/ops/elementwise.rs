//! Elementwise functions as methods of [`Array`].

use crate::core::Array;
use crate::primitives as p;
use crate::primitives::ArrayLike;

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        /// Elementwise functions; each is the free function of the same name.
        impl Array {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Array {
                p::$name(self)
            }
        )*}
    };
}

unary!(
    /// `exp(x)` of each element; integers become floats.
    exp;
    /// `exp(x) - 1` of each element, exact near 0; integers become floats.
    expm1;
    /// Natural logarithm of each element; integers become floats.
    log;
    /// `log(1 + x)` of each element, exact near 0; integers become floats.
    log1p;
    /// Square root of each element; integers become floats.
    sqrt;
    /// `1 / sqrt(x)` of each element; integers become floats.
    rsqrt;
    /// Sine of each element, in radians; integers become floats.
    sin;
    /// Cosine of each element, in radians; integers become floats.
    cos;
    /// Tangent of each element, in radians; integers become floats.
    tan;
    /// Hyperbolic tangent of each element; integers become floats.
    tanh;
    /// Absolute value of each element; real for complex ones.
    abs;
    /// Sign of each element: -1, 0 or 1.
    sign;
    /// Largest whole number that is not larger, of each element.
    floor;
    /// Smallest whole number that is not smaller, of each element.
    ceil;
    /// Real part of each element.
    real;
    /// Imaginary part of each element; 0 for real ones.
    imag;
    /// Complex conjugate of each element.
    conj;
);

/// Elementwise functions with a parameter.
impl Array {
    /// Each element times itself.
    #[track_caller]
    pub fn square(&self) -> Array {
        p::mul(self, self)
    }

    /// Each element to the integer power `exponent`, by multiplication.
    #[track_caller]
    pub fn powi(&self, exponent: i32) -> Array {
        p::integer_pow(self, exponent)
    }

    /// Each element to the real power `exponent`; integers become floats. NaN for a negative
    /// element and an exponent that is not whole.
    #[track_caller]
    pub fn powf(&self, exponent: f64) -> Array {
        p::pow(p::inexact(self), exponent)
    }

    /// Each element to the power `exponent`, as [`power`](super::power).
    #[track_caller]
    pub fn pow(&self, exponent: impl ArrayLike) -> Array {
        super::power(self, exponent)
    }

    /// Each element between `low` and `high`, as [`clip`](super::clip).
    #[doc(alias = "clamp")]
    #[track_caller]
    pub fn clip(&self, low: impl ArrayLike, high: impl ArrayLike) -> Array {
        super::clip(self, low, high)
    }

    /// The larger of each element and that of `other`, with promotion and broadcasting; NaN if one
    /// is.
    #[track_caller]
    pub fn maximum(&self, other: impl ArrayLike) -> Array {
        p::maximum(self, other)
    }

    /// The smaller of each element and that of `other`, with promotion and broadcasting; NaN if one
    /// is.
    #[track_caller]
    pub fn minimum(&self, other: impl ArrayLike) -> Array {
        p::minimum(self, other)
    }
}

macro_rules! compare {
    ($($(#[$doc:meta])* $name:ident = $function:ident;)*) => {
        /// Comparisons, with promotion and broadcasting. They are methods and not operators because
        /// Rust's `==` and `<` give one `bool`.
        impl Array {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, other: impl ArrayLike) -> Array {
                p::$function(self, other)
            }
        )*}
    };
}

compare!(
    /// `self == other`, element by element, as `bool`.
    equal = eq;
    /// `self != other`, element by element, as `bool`.
    not_equal = ne;
    /// `self < other`, element by element, as `bool`.
    less = lt;
    /// `self <= other`, element by element, as `bool`.
    less_equal = le;
    /// `self > other`, element by element, as `bool`.
    greater = gt;
    /// `self >= other`, element by element, as `bool`.
    greater_equal = ge;
);
