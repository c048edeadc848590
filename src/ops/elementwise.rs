//! Elementwise methods of [`Array`].

use crate::core::Array;
use crate::primitives as p;
use crate::primitives::ArrayLike;

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        /// Elementwise functions, as the free functions of the same names.
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
    /// Largest integer less than or equal to each element.
    floor;
    /// Smallest integer greater than or equal to each element.
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
    /// Squares each element.
    #[track_caller]
    pub fn square(&self) -> Array {
        p::mul(self, self)
    }

    /// Raises each element to an integer power by repeated multiplication.
    #[track_caller]
    pub fn powi(&self, exponent: i32) -> Array {
        p::integer_pow(self, exponent)
    }

    /// Raises each element to a real power; integers become floats. NaN for a negative element and
    /// an exponent that is not an integer.
    #[track_caller]
    pub fn powf(&self, exponent: f64) -> Array {
        p::pow(p::inexact(self), exponent)
    }

    /// Raises each element to the power `exponent`, as [`power`](super::power).
    #[track_caller]
    pub fn pow(&self, exponent: impl ArrayLike) -> Array {
        super::power(self, exponent)
    }

    /// Limits each element to `low..=high`, as [`clip`](super::clip).
    #[doc(alias = "clamp")]
    #[track_caller]
    pub fn clip(&self, low: impl ArrayLike, high: impl ArrayLike) -> Array {
        super::clip(self, low, high)
    }

    /// Returns the elementwise maximum, with promotion and broadcasting; NaN if either element is.
    #[track_caller]
    pub fn maximum(&self, other: impl ArrayLike) -> Array {
        p::maximum(self, other)
    }

    /// Returns the elementwise minimum, with promotion and broadcasting; NaN if either element is.
    #[track_caller]
    pub fn minimum(&self, other: impl ArrayLike) -> Array {
        p::minimum(self, other)
    }
}

macro_rules! compare {
    ($($(#[$doc:meta])* $name:ident = $function:ident;)*) => {
        /// Comparisons, with promotion and broadcasting. They are methods because Rust's operators
        /// `==` and `<` return one `bool`.
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
    /// `self == other`, elementwise, as `bool`.
    equal = eq;
    /// `self != other`, elementwise, as `bool`.
    not_equal = ne;
    /// `self < other`, elementwise, as `bool`.
    less = lt;
    /// `self <= other`, elementwise, as `bool`.
    less_equal = le;
    /// `self > other`, elementwise, as `bool`.
    greater = gt;
    /// `self >= other`, elementwise, as `bool`.
    greater_equal = ge;
);
