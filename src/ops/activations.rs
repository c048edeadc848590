//! Nonlinearities of neural networks: elementwise ones, and the softmax family along axes.

use super::axes::Axes;
use crate::core::Array;
use crate::primitives::rules::without_axes;
use crate::primitives::{
    ArrayLike, abs, add, div, erfc, exp, expm1, full_like, ge, gt, inexact, integer_pow, is_finite,
    le, log, logaddexp, logistic, lt, mul, ne, neg, promote_inexact, real, reduce_max, reshape,
    rsqrt, stop_gradient, sub, tanh, where_, zeros_like,
};

/// `max(x, 0)`, with derivative 0 at 0. NaN stays NaN.
///
/// # Reference
/// On the derivative at 0: Bertoin et al., "Numerical influence of ReLU'(0) on backpropagation",
/// 2021.
#[track_caller]
pub fn relu(x: &Array) -> Array {
    where_(&le(x, 0), zeros_like(x), x)
}

/// `min(max(x, 0), 6)`, with derivative 0 at both ends.
#[track_caller]
pub fn relu6(x: &Array) -> Array {
    where_(&ge(x, 6), full_like(x, 6), relu(x))
}

/// `x` where it is positive or zero, else `slope * x`.
#[track_caller]
pub fn leaky_relu(x: &Array, slope: f64) -> Array {
    let x = inexact(x);
    where_(&ge(&x, 0), &x, mul(&x, slope))
}

/// `x` where it is positive, else `alpha * (exp(x) - 1)`.
///
/// # Reference
/// Clevert, Unterthiner and Hochreiter, 2015.
#[track_caller]
pub fn elu(x: &Array, alpha: f64) -> Array {
    let x = inexact(x);
    let positive = gt(&x, 0);
    // The exponential of a large positive number would put infinity times zero in the derivative.
    let below = where_(&positive, zeros_like(&x), &x);
    where_(&positive, &x, mul(expm1(&below), alpha))
}

/// [`elu`] scaled so that activations keep mean 0 and variance 1.
///
/// # Reference
/// Klambauer et al., "Self-normalizing neural networks", 2017, equation 2.
#[track_caller]
pub fn selu(x: &Array) -> Array {
    mul(elu(x, 1.673_263_242_354_377_2), 1.050_700_987_355_480_5)
}

/// `x * Φ(x)` for the normal distribution function `Φ`, by the usual approximation with `tanh`:
/// `x/2 * (1 + tanh(√(2/π) * (x + 0.044715 x³)))`. [`gelu_exact`] has no approximation.
///
/// # Reference
/// Hendrycks and Gimpel, "Gaussian error linear units", 2016, section 2.
#[track_caller]
pub fn gelu(x: &Array) -> Array {
    let x = inexact(x);
    let cubic = add(&x, mul(integer_pow(&x, 3), 0.044715));
    let inner = mul(cubic, (2.0 / std::f64::consts::PI).sqrt());
    mul(&x, mul(add(tanh(&inner), 1.0), 0.5))
}

/// `x * Φ(x)` for the normal distribution function `Φ`, written with `erfc` so that it keeps its
/// relative precision for negative `x`.
#[track_caller]
pub fn gelu_exact(x: &Array) -> Array {
    let x = inexact(x);
    let tail = erfc(&mul(neg(&x), std::f64::consts::FRAC_1_SQRT_2));
    mul(mul(&x, 0.5), tail)
}

/// `1 / (1 + exp(-x))`.
#[track_caller]
pub fn sigmoid(x: &Array) -> Array {
    logistic(x)
}

/// `log(sigmoid(x))`, without underflow for negative `x`.
#[track_caller]
pub fn log_sigmoid(x: &Array) -> Array {
    neg(&softplus(&neg(x)))
}

/// `x * sigmoid(x)`.
#[doc(alias = "swish")]
#[track_caller]
pub fn silu(x: &Array) -> Array {
    mul(x, logistic(x))
}

/// `log(1 + exp(x))`, without overflow for large `x`.
#[track_caller]
pub fn softplus(x: &Array) -> Array {
    logaddexp(x, 0.0)
}

/// `x / (1 + |x|)`.
#[track_caller]
pub fn soft_sign(x: &Array) -> Array {
    div(x, add(abs(x), 1))
}

/// `x` between -1 and 1, constant beyond.
#[track_caller]
pub fn hard_tanh(x: &Array) -> Array {
    where_(&gt(x, 1), full_like(x, 1), where_(&lt(x, -1), full_like(x, -1), x))
}

/// The first half of `x` along `axis` times the sigmoid of the second half. Throws `Op` (shape) if
/// the axis has an odd size.
#[track_caller]
pub fn glu(x: &Array, axis: isize) -> Array {
    let halves = super::split(x, 2, axis);
    mul(&halves[0], logistic(&halves[1]))
}

/// The largest element along axes, kept, as a constant to derivatives. A float dtype's lowest value
/// over an empty axis.
#[track_caller]
fn stable_max(name: &str, x: &Array, along: &Axes) -> Array {
    let over = super::axes::signed(&along.resolve(name, x));
    along.restore(name, x, &stop_gradient(&reduce_max(x, &over)))
}

/// `exp(x)` divided by its sum along `along`: non-negative, and 1 in sum. Integers become floats;
/// NaN where a whole group is `-inf`.
///
/// The maximum is subtracted first, so that nothing overflows; derivatives take it for a constant.
///
/// ```
/// use oxidax::prelude::*;
/// let p = eval_shape(|x: Array| softmax(&x, -1), Aval::new(DType::BF16, [8, 10]))?;
/// assert_eq!(p.aval().to_string(), "bf16[8,10]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn softmax(x: &Array, along: impl Into<Axes>) -> Array {
    let (x, along) = (inexact(x), along.into().keepdims());
    let unnormalized = exp(&sub(&x, stable_max("softmax", &x, &along)));
    div(&unnormalized, unnormalized.sum_axes(along))
}

/// The logarithm of [`softmax`], exact where that would round to 0. NaN where a whole group is
/// `-inf`.
#[track_caller]
pub fn log_softmax(x: &Array, along: impl Into<Axes>) -> Array {
    let (x, along) = (inexact(x), along.into().keepdims());
    let shifted = sub(&x, stable_max("log_softmax", &x, &along));
    sub(&shifted, log(&exp(&shifted).sum_axes(along)))
}

/// `log(sum(exp(x)))` along `along`, without overflow: in nats, `-inf` where a whole group is `-inf`
/// or an axis is empty. Integers become floats.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| logsumexp(&x, axes(-1).keepdims()), Aval::new(DType::F32, [8, 10]))?;
/// assert_eq!(y.aval().to_string(), "f32[8,1]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn logsumexp(x: &Array, along: impl Into<Axes>) -> Array {
    let (x, along) = (inexact(x), along.into());
    let kept = along.clone().keepdims();
    let part = if x.dtype().is_complex() { real(&x) } else { x.clone() };
    let top = stable_max("logsumexp", &part, &kept);
    // An infinite maximum would give inf - inf.
    let top = where_(&is_finite(&top), &top, zeros_like(&top));
    let sum = exp(&sub(&x, &top)).sum_axes(kept);
    let full = add(log(&sum), &top);
    let over = along.resolve("logsumexp", &x);
    let reduced = reshape(&full, without_axes(x.shape(), &over));
    along.restore("logsumexp", &x, &reduced)
}

/// `log(Σ weights · exp(x))` along `along`, as [`logsumexp`] with a factor, of any sign, for each
/// element; `weights` broadcasts. NaN where the sum is negative, `-inf` where it is 0. An element of
/// weight 0 does not count, even if it is infinite.
///
/// Throws `Op` for operands that do not broadcast.
#[track_caller]
pub fn logsumexp_weighted(x: &Array, weights: &Array, along: impl Into<Axes>) -> Array {
    let [x, weights] = promote_inexact("logsumexp_weighted", [x.like(), weights.like()]);
    let along = along.into();
    let kept = along.clone().keepdims();
    let lowest = full_like(&x, f64::NEG_INFINITY);
    let x = where_(&ne(&weights, zeros_like(&weights)), &x, lowest);
    let part = if x.dtype().is_complex() { real(&x) } else { x.clone() };
    let top = stable_max("logsumexp_weighted", &part, &kept);
    let top = where_(&is_finite(&top), &top, zeros_like(&top));
    let sum = mul(exp(&sub(&x, &top)), &weights).sum_axes(kept);
    let full = add(log(&sum), &top);
    let over = along.resolve("logsumexp_weighted", &x);
    let reduced = reshape(&full, without_axes(x.shape(), &over));
    along.restore("logsumexp_weighted", &x, &reduced)
}

/// `x` shifted and scaled along `along` to mean 0 and variance 1; `epsilon` is added to the
/// variance.
#[track_caller]
pub fn standardize(x: &Array, along: impl Into<Axes>, epsilon: f64) -> Array {
    let (x, along) = (inexact(x), along.into().keepdims());
    let centred = sub(&x, x.mean_axes(along.clone()));
    let variance = x.var_axes(along);
    mul(&centred, rsqrt(&add(variance, epsilon)))
}

/// `x` where it is positive, else `alpha * (exp(x / alpha) - 1)`: [`elu`] whose derivative at 0 is 1 for
/// every `alpha`.
///
/// # Reference
/// Barron, "Continuously differentiable exponential linear units", 2017.
#[track_caller]
pub fn celu(x: &Array, alpha: f64) -> Array {
    let x = inexact(x);
    let positive = gt(&x, 0);
    let below = where_(&positive, zeros_like(&x), &x);
    where_(&positive, &x, mul(expm1(&div(below, alpha)), alpha))
}

/// `relu6(x + 3) / 6`: a sigmoid of straight lines.
#[track_caller]
pub fn hard_sigmoid(x: &Array) -> Array {
    div(relu6(&add(inexact(x), 3)), 6)
}

/// `x * hard_sigmoid(x)`.
///
/// # Reference
/// Howard et al., "Searching for MobileNetV3", 2019, section 5.2.
#[doc(alias = "hard_swish")]
#[track_caller]
pub fn hard_silu(x: &Array) -> Array {
    mul(x, hard_sigmoid(x))
}

/// `x * tanh(softplus(x))`.
///
/// # Reference
/// Misra, "Mish: a self regularized non-monotonic activation function", 2019.
#[track_caller]
pub fn mish(x: &Array) -> Array {
    let x = inexact(x);
    mul(&x, tanh(&softplus(&x)))
}

/// `(x + sqrt(x² + b)) / 2`, a smooth [`relu`]; `b` is 4 in JAX unless told otherwise.
///
/// # Reference
/// Barron, "Squareplus: a softplus-like algebraic rectifier", 2021.
#[track_caller]
pub fn squareplus(x: &Array, b: f64) -> Array {
    let x = inexact(x);
    mul(add(&x, crate::primitives::sqrt(&add(mul(&x, &x), b))), 0.5)
}

/// 0 below -1, `x` above 1, and `(x + 1)² / 4` between: a smooth [`relu`] that is 0 exactly.
#[track_caller]
pub fn sparse_plus(x: &Array) -> Array {
    let x = inexact(x);
    let between = mul(integer_pow(&add(&x, 1.0), 2), 0.25);
    where_(&le(&x, -1.0), zeros_like(&x), where_(&ge(&x, 1.0), &x, between))
}

/// 0 below -1, 1 above 1, and a straight line between: the derivative of [`sparse_plus`].
#[track_caller]
pub fn sparse_sigmoid(x: &Array) -> Array {
    mul(super::clip(&add(inexact(x), 1.0), 0.0, 2.0), 0.5)
}

/// `log(1 - exp(-x))` for positive `x`, exact for small and for large ones; NaN for negative `x`.
///
/// # Reference
/// Mächler, "Accurately computing log(1 - exp(-|a|))", 2012, equation 7.
#[track_caller]
pub fn log1mexp(x: &Array) -> Array {
    let x = inexact(x);
    let small = lt(&x, std::f64::consts::LN_2);
    // Each branch gets numbers at which its derivative is finite.
    let (low, high) =
        (where_(&small, &x, full_like(&x, 0.5)), where_(&small, full_like(&x, 1), &x));
    let near = log(&neg(&expm1(&neg(&low))));
    where_(&small, near, crate::primitives::log1p(&neg(&exp(&neg(&high)))))
}

/// `log(mean(exp(x)))` along `along`, without overflow, in nats. Integers become floats.
#[track_caller]
pub fn logmeanexp(x: &Array, along: impl Into<Axes>) -> Array {
    let along = along.into();
    let n: usize = along.resolve("logmeanexp", x).iter().map(|&axis| x.shape()[axis]).product();
    sub(logsumexp(x, along), (n as f64).ln())
}
