//! Elementwise methods of [`Array`].

use super::Axes;
use crate::core::Array;
use crate::ops;
use crate::primitives as p;
use crate::primitives::ArrayLike;

macro_rules! unary {
    ($module:ident: $($(#[$doc:meta])* $name:ident;)*) => {
        /// Elementwise functions, as the free functions of the same names.
        impl Array {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Array {
                $module::$name(self)
            }
        )*}
    };
}

unary!(
    p:
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
    /// Arc sine of each element, in radians; integers become floats.
    asin;
    /// Arc cosine of each element, in radians; integers become floats.
    acos;
    /// Arc tangent of each element, in radians; integers become floats.
    atan;
    /// Hyperbolic sine of each element; integers become floats.
    sinh;
    /// Hyperbolic cosine of each element; integers become floats.
    cosh;
    /// Inverse hyperbolic sine of each element; integers become floats.
    asinh;
    /// Inverse hyperbolic cosine of each element; integers become floats.
    acosh;
    /// Inverse hyperbolic tangent of each element; integers become floats.
    atanh;
    /// Error function of each element; integers become floats.
    erf;
    /// Cube root of each element; integers become floats.
    cbrt;
    /// `2` to the power of each element; integers become floats.
    exp2;
    /// Elements with a derivative of zero, as [`stop_gradient`](p::stop_gradient).
    stop_gradient;
    /// Nearest integer of each element, ties away from zero.
    round_half_away;
    /// Angle of each element in the complex plane, in radians.
    angle;
    /// Complement of the bits of each integer, or negation of each `bool`.
    bitwise_not;
    /// Number of zero bits above the highest one bit of each integer.
    count_leading_zeros;
    /// Number of one bits of each integer.
    population_count;
    /// Derivative of [`lgamma`](Array::lgamma) at each element; integers become floats.
    digamma;
    /// `1 - erf(x)` of each element, exact where that is small; integers become floats.
    erfc;
    /// Inverse of [`erf`](Array::erf) at each element, which is between -1 and 1.
    erf_inv;
    /// Logarithm of the absolute value of the gamma function; integers become floats.
    lgamma;
    /// `exp(-|x|)` times the modified Bessel function I₀ of each element.
    bessel_i0e;
    /// `exp(-|x|)` times the modified Bessel function I₁ of each element.
    bessel_i1e;
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

unary!(
    ops:
    /// `max(x, 0)` of each element.
    relu;
    /// `1 / (1 + exp(-x))` of each element; integers become floats.
    sigmoid;
    /// `x · sigmoid(x)` of each element.
    silu;
    /// Gaussian error linear unit of each element, as [`gelu`](super::gelu).
    gelu;
    /// `log(1 + exp(x))` of each element.
    softplus;
    /// True for each element that is neither infinite nor NaN.
    isfinite;
    /// True for each NaN.
    isnan;
    /// True for each infinite element.
    isinf;
    /// `1 / x` of each element; integers become floats.
    reciprocal;
    /// Logical negation of each element, as `bool`.
    logical_not;
    /// Number of one bits in the absolute value of each integer, as `u8`.
    bitwise_count;
    /// Logarithm to base 2 of each element; integers become floats.
    log2;
    /// Logarithm to base 10 of each element; integers become floats.
    log10;
    /// `log(1 - exp(-x))` of each element, exact near 0 and for large ones.
    log1mexp;
    /// Absolute value of each real element, as a float.
    fabs;
    /// Each element without its fraction.
    trunc;
    /// A copy of each element.
    positive;
    /// Radians of each angle in degrees; integers become floats.
    deg2rad;
    /// Degrees of each angle in radians; integers become floats.
    rad2deg;
    /// `sin(πx) / (πx)` of each element, and 1 at 0.
    sinc;
    /// Distance from each element to the next number further from zero, with its sign.
    spacing;
    /// True for each element with a negative sign, also `-0.0`.
    signbit;
    /// True for each element that is negative infinity.
    isneginf;
    /// True for each element that is positive infinity.
    isposinf;
    /// True for each element without an imaginary part.
    isreal;
    /// True for each element with an imaginary part.
    iscomplex;
    /// NaN as 0, and infinities as the largest and smallest finite numbers.
    nan_to_num;
    /// `min(max(x, 0), 6)` of each element.
    relu6;
    /// Scaled exponential linear unit of each element, as [`selu`](super::selu).
    selu;
    /// `x · tanh(softplus(x))` of each element.
    mish;
    /// `log(sigmoid(x))` of each element.
    log_sigmoid;
    /// `x / (1 + |x|)` of each element.
    soft_sign;
    /// `relu6(x + 3) / 6` of each element.
    hard_sigmoid;
    /// `x · hard_sigmoid(x)` of each element.
    hard_silu;
    /// Each element, limited to `-1..=1`.
    hard_tanh;
    /// 0 up to -1, the element from 1, and `(x + 1)² / 4` between.
    sparse_plus;
    /// 0 up to -1, 1 from 1, and `(x + 1) / 2` between.
    sparse_sigmoid;
);

/// Functions along axes.
impl Array {
    /// Returns `exp(x)` divided by its sum over `axes`, as [`softmax`](super::softmax).
    #[track_caller]
    pub fn softmax(&self, axes: impl Into<Axes>) -> Array {
        super::softmax(self, axes)
    }

    /// Returns the logarithm of the softmax over `axes`, as [`log_softmax`](super::log_softmax).
    #[track_caller]
    pub fn log_softmax(&self, axes: impl Into<Axes>) -> Array {
        super::log_softmax(self, axes)
    }

    /// Returns `log(sum(exp(x)))` over `axes`, as [`logsumexp`](super::logsumexp).
    #[track_caller]
    pub fn logsumexp(&self, axes: impl Into<Axes>) -> Array {
        super::logsumexp(self, axes)
    }

    /// Returns the one-hot encoding of class indices, as [`one_hot`](super::one_hot): a new last
    /// axis of size `num_classes`.
    #[track_caller]
    pub fn one_hot(&self, num_classes: usize) -> Array {
        super::one_hot(self, num_classes)
    }

    /// Returns the Euclidean norm of all elements, as [`norm`](super::linalg::norm).
    #[track_caller]
    pub fn norm(&self) -> Array {
        super::linalg::norm(self)
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
