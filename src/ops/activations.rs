//! Activation functions of neural networks, and the softmax family.

use super::axes::Axes;
use crate::core::Array;
use crate::primitives::rules::without_axes;
use crate::primitives::{
    ArrayLike, abs, add, div, erfc, exp, expm1, full_like, ge, gt, inexact, integer_pow, is_finite,
    le, log, logaddexp, logistic, lt, mul, ne, neg, promote_inexact, real, reduce_max, reshape,
    rsqrt, stop_gradient, sub, tanh, where_, zeros_like,
};

/// Returns `max(x, 0)`, with derivative 0 at 0. NaN stays NaN.
///
/// # Reference
/// For the derivative at 0: Bertoin et al., "Numerical influence of ReLU'(0) on backpropagation",
/// 2021.
#[track_caller]
pub fn relu(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    where_(le(x, 0), zeros_like(x), x)
}

/// Returns `min(max(x, 0), 6)`, with derivative 0 at both ends.
#[track_caller]
pub fn relu6(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    where_(ge(x, 6), full_like(x, 6), relu(x))
}

/// Returns `x` where it is not negative, else `negative_slope * x`. JAX's default slope is 0.01.
#[track_caller]
pub fn leaky_relu(x: impl ArrayLike, negative_slope: f64) -> Array {
    let x = &x.to_array();
    let x = inexact(x);
    where_(ge(&x, 0), &x, mul(&x, negative_slope))
}

/// Returns `x` where it is positive, else `alpha * (exp(x) - 1)`. JAX's default `alpha` is 1.
///
/// # Reference
/// Clevert, Unterthiner and Hochreiter, 2015.
#[track_caller]
pub fn elu(x: impl ArrayLike, alpha: f64) -> Array {
    let x = &x.to_array();
    let x = inexact(x);
    let positive = gt(&x, 0);
    // The exponential of a large positive number would put infinity times zero in the derivative.
    let negative = where_(&positive, zeros_like(&x), &x);
    where_(&positive, &x, mul(expm1(&negative), alpha))
}

/// Returns [`elu`] with the scale at which activations keep mean 0 and variance 1.
///
/// # Reference
/// Klambauer et al., "Self-normalizing neural networks", 2017, equation 2.
#[track_caller]
pub fn selu(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    mul(elu(x, 1.673_263_242_354_377_2), 1.050_700_987_355_480_5)
}

/// Options of [`gelu_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeluOptions {
    /// Approximates the distribution function with `tanh`. The default is true, as in JAX.
    pub approximate: bool,
}

impl Default for GeluOptions {
    fn default() -> Self {
        GeluOptions { approximate: true }
    }
}

/// Returns the Gaussian error linear unit in its approximation with `tanh`:
/// `x/2 * (1 + tanh(√(2/π) * (x + 0.044715 x³)))`. [`gelu_with`] has the exact form.
///
/// # Reference
/// Hendrycks and Gimpel, "Gaussian error linear units", 2016, section 2.
#[track_caller]
pub fn gelu(x: impl ArrayLike) -> Array {
    #[track_caller]
    fn of(x: &Array) -> Array {
        let x = inexact(x);
        let cubic = add(&x, mul(integer_pow(&x, 3), 0.044715));
        let inner = mul(cubic, (2.0 / std::f64::consts::PI).sqrt());
        mul(&x, mul(add(tanh(&inner), 1.0), 0.5))
    }
    of(&x.to_array())
}

/// Returns the Gaussian error linear unit `x * Φ(x)`, where `Φ` is the normal distribution
/// function.
///
/// Without `approximate`, `Φ` is computed with `erfc`, which keeps its relative precision for
/// negative
/// `x`.
#[track_caller]
pub fn gelu_with(x: impl ArrayLike, options: GeluOptions) -> Array {
    let x = &x.to_array();
    if options.approximate {
        return gelu(x);
    }
    let x = inexact(x);
    let tail = erfc(mul(neg(&x), std::f64::consts::FRAC_1_SQRT_2));
    mul(mul(&x, 0.5), tail)
}

/// Returns `1 / (1 + exp(-x))`.
#[track_caller]
pub fn sigmoid(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    logistic(x)
}

/// Returns `log(sigmoid(x))`, without underflow for negative `x`.
#[track_caller]
pub fn log_sigmoid(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    neg(softplus(neg(x)))
}

/// Returns `x * sigmoid(x)`.
#[doc(alias = "swish")]
#[track_caller]
pub fn silu(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    mul(x, logistic(x))
}

/// Returns `log(1 + exp(x))`, without overflow for large `x`.
#[track_caller]
pub fn softplus(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    logaddexp(x, 0.0)
}

/// Returns `x / (1 + |x|)`.
#[track_caller]
pub fn soft_sign(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    div(x, add(abs(x), 1))
}

/// Limits `x` to `-1..=1`.
#[track_caller]
pub fn hard_tanh(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    where_(gt(x, 1), full_like(x, 1), where_(lt(x, -1), full_like(x, -1), x))
}

/// Returns the first half of `x` along `axis` times the sigmoid of the second half. JAX's default
/// axis is -1. Throws `Op` (shape) for an axis of odd size.
#[track_caller]
pub fn glu(x: impl ArrayLike, axis: isize) -> Array {
    let x = &x.to_array();
    let halves = super::split(x, 2, axis);
    mul(&halves[0], logistic(&halves[1]))
}

/// Returns the largest element along axes, without a derivative; over an empty axis, the lowest
/// value of the dtype.
#[track_caller]
pub(super) fn stable_max(name: &str, x: &Array, axes: &Axes) -> Array {
    let resolved = super::axes::signed(&axes.resolve(name, x));
    axes.restore(name, x, &stop_gradient(reduce_max(x, &resolved)))
}

/// Returns `exp(x)` divided by its sum along `axes`. JAX's default axis is -1. Integers become
/// floats. The result is NaN where all elements are `-inf`.
///
/// The maximum is subtracted first, so that nothing overflows. Derivatives treat it as a constant.
///
/// ```
/// use oxidax::prelude::*;
/// let p = eval_shape(|x: Array| softmax(&x, -1), Aval::new(DType::BF16, [8, 10]))?;
/// assert_eq!(p.aval().to_string(), "bf16[8,10]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn softmax(x: impl ArrayLike, axes: impl Into<Axes>) -> Array {
    let x = &x.to_array();
    let (x, axes) = (inexact(x), axes.into().keepdims());
    let unnormalized = exp(sub(&x, stable_max("softmax", &x, &axes)));
    div(&unnormalized, unnormalized.sum_axes(axes))
}

/// Returns the logarithm of [`softmax`], exact where that rounds to 0. The result is NaN where all
/// elements are `-inf`.
#[track_caller]
pub fn log_softmax(x: impl ArrayLike, axes: impl Into<Axes>) -> Array {
    let x = &x.to_array();
    let (x, axes) = (inexact(x), axes.into().keepdims());
    let shifted = sub(&x, stable_max("log_softmax", &x, &axes));
    sub(&shifted, log(exp(&shifted).sum_axes(axes)))
}

/// Returns `log(sum(exp(x)))` along `axes`, without overflow. The result is `-inf` where all
/// elements are `-inf` or an axis is empty. Integers become floats.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| logsumexp(&x, axes(-1).keepdims()), Aval::new(DType::F32, [8,
/// 10]))?; assert_eq!(y.aval().to_string(), "f32[8,1]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logsumexp(x: impl ArrayLike, axes: impl Into<Axes>) -> Array {
    let x = &x.to_array();
    logsumexp_with(x, axes, LogsumexpOptions::default())
}

/// Options of [`logsumexp_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct LogsumexpOptions<'a> {
    /// Factors of the exponentials, of any sign, broadcast against the operand. All are 1 if
    /// `None`. An element with factor 0 is ignored, even if it is infinite.
    pub b: Option<&'a Array>,
    /// Booleans that broadcast to the operand. Elements at which they are false are ignored.
    #[doc(alias = "where")]
    pub where_: Option<&'a Array>,
}

/// Returns `log(Σ b · exp(x))` along `axes`, as [`logsumexp`] with factors. The result is NaN where
/// the sum is negative and `-inf` where it is 0.
///
/// Throws `Op` for factors that do not broadcast.
#[track_caller]
pub fn logsumexp_with(
    x: impl ArrayLike,
    axes: impl Into<Axes>,
    options: LogsumexpOptions<'_>,
) -> Array {
    let (x, axes) = (&x.to_array(), axes.into());
    let (sum, max) = log_terms(x, &axes, options);
    let full = add(log(sum), &max);
    let reduced = reshape(&full, without_axes(x.shape(), &axes.resolve("logsumexp", x)));
    axes.restore("logsumexp", x, &reduced)
}

/// Returns the sum of `b · exp(x - max)` along `axes`, which stay with size 1, and the largest
/// element `max`, or 0 where that is infinite.
#[track_caller]
pub(super) fn log_terms(x: &Array, axes: &Axes, options: LogsumexpOptions<'_>) -> (Array, Array) {
    const NAME: &str = "logsumexp";
    let masked;
    let x = match options.where_ {
        None => x,
        Some(mask) => {
            let x = inexact(x);
            let over = super::axes::Reduction::from(axes.clone()).where_(mask);
            masked = over.masked(NAME, &x, crate::core::Scalar::Float(f64::NEG_INFINITY));
            &masked
        }
    };
    let (x, factors) = match options.b {
        None => (inexact(x), None),
        Some(b) => {
            let [x, b] = promote_inexact(NAME, [x.like(), b.like()]);
            let lowest = full_like(&x, f64::NEG_INFINITY);
            (where_(ne(&b, zeros_like(&b)), &x, lowest), Some(b))
        }
    };
    let keepdims = axes.clone().keepdims();
    let ordered = if x.dtype().is_complex() { real(&x) } else { x.clone() };
    let max = stable_max(NAME, &ordered, &keepdims);
    // An infinite maximum would give inf - inf.
    let max = where_(is_finite(&max), &max, zeros_like(&max));
    let terms = exp(sub(&x, &max));
    let terms = match &factors {
        None => terms,
        Some(factors) => mul(terms, factors),
    };
    (terms.sum_axes(keepdims), max)
}

/// Shifts and scales `x` along `axes` to mean 0 and variance 1. `epsilon`, 1e-5 by default in JAX,
/// is added to the variance.
#[track_caller]
pub fn standardize(x: impl ArrayLike, axes: impl Into<Axes>, epsilon: f64) -> Array {
    let x = &x.to_array();
    let (x, axes) = (inexact(x), axes.into().keepdims());
    let centred = sub(&x, x.mean_axes(axes.clone()));
    let variance = x.var_axes(axes);
    mul(&centred, rsqrt(add(variance, epsilon)))
}

/// Returns `x` where it is positive, else `alpha * (exp(x / alpha) - 1)`. Unlike [`elu`], its
/// derivative at 0 is 1 for every `alpha`. JAX's default `alpha` is 1.
///
/// # Reference
/// Barron, "Continuously differentiable exponential linear units", 2017.
#[track_caller]
pub fn celu(x: impl ArrayLike, alpha: f64) -> Array {
    let x = &x.to_array();
    let x = inexact(x);
    let positive = gt(&x, 0);
    let negative = where_(&positive, zeros_like(&x), &x);
    where_(&positive, &x, mul(expm1(div(negative, alpha)), alpha))
}

/// Returns `relu6(x + 3) / 6`, a piecewise linear sigmoid.
#[track_caller]
pub fn hard_sigmoid(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    div(relu6(add(inexact(x), 3)), 6)
}

/// Returns `x * hard_sigmoid(x)`.
///
/// # Reference
/// Howard et al., "Searching for MobileNetV3", 2019, section 5.2.
#[doc(alias = "hard_swish")]
#[track_caller]
pub fn hard_silu(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    mul(x, hard_sigmoid(x))
}

/// Returns `x * tanh(softplus(x))`.
///
/// # Reference
/// Misra, "Mish: a self regularized non-monotonic activation function", 2019.
#[track_caller]
pub fn mish(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    let x = inexact(x);
    mul(&x, tanh(softplus(&x)))
}

/// Returns `(x + sqrt(x² + b)) / 2`, a smooth [`relu`]. JAX's default `b` is 4.
///
/// # Reference
/// Barron, "Squareplus: a softplus-like algebraic rectifier", 2021.
#[track_caller]
pub fn squareplus(x: impl ArrayLike, b: f64) -> Array {
    let x = &x.to_array();
    let x = inexact(x);
    mul(add(&x, crate::primitives::sqrt(add(mul(&x, &x), b))), 0.5)
}

/// Returns 0 below -1, `x` above 1, and `(x + 1)² / 4` in between: a smooth [`relu`].
#[track_caller]
pub fn sparse_plus(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    let x = inexact(x);
    let between = mul(integer_pow(&add(&x, 1.0), 2), 0.25);
    where_(le(&x, -1.0), zeros_like(&x), where_(ge(&x, 1.0), &x, between))
}

/// Returns 0 below -1, 1 above 1, and `(x + 1) / 2` in between: the derivative of [`sparse_plus`].
#[track_caller]
pub fn sparse_sigmoid(x: impl ArrayLike) -> Array {
    let x = &x.to_array();
    mul(super::clip(&add(inexact(x), 1.0), 0.0, 2.0), 0.5)
}

/// Returns `log(1 - exp(-x))` for positive `x`, exact for small and large `x`; NaN for negative
/// `x`.
///
/// # Reference
/// Mächler, "Accurately computing log(1 - exp(-|a|))", 2012, equation 7.
#[track_caller]
pub fn log1mexp(x: impl ArrayLike) -> Array {
    #[track_caller]
    fn of(x: &Array) -> Array {
        let x = inexact(x);
        let small = lt(&x, std::f64::consts::LN_2);
        // Each branch gets operands at which its derivative is finite.
        let (low, high) =
            (where_(&small, &x, full_like(&x, 0.5)), where_(&small, full_like(&x, 1), &x));
        let near = log(neg(expm1(neg(&low))));
        where_(&small, near, crate::primitives::log1p(neg(exp(neg(&high)))))
    }
    of(&x.to_array())
}

/// Returns `log(mean(exp(x)))` along `axes`, without overflow. Integers become floats.
#[track_caller]
pub fn logmeanexp(x: impl ArrayLike, axes: impl Into<Axes>) -> Array {
    let x = &x.to_array();
    let axes = axes.into();
    let n: usize = axes.resolve("logmeanexp", x).iter().map(|&axis| x.shape()[axis]).product();
    sub(logsumexp(x, axes), (n as f64).ln())
}
