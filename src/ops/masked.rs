//! The softmax family and standardization with masks and other options.

use super::activations::{LogsumexpOptions, log_softmax, log_terms, softmax, stable_max};
use super::axes::{Axes, Reduction};
use crate::core::{Array, DType, Scalar};
use crate::primitives::rules::without_axes;
use crate::primitives::{
    ArrayLike, Like, abs, add, convert_element_type, div, eq, exp, fill_of, full_like, inexact,
    log, mul, reshape, rsqrt, sign, sub, where_, zeros_like,
};

/// Options of [`softmax_with`], [`log_softmax_with`] and [`logmeanexp_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SoftmaxOptions<'a> {
    /// Booleans that broadcast to the operand. Elements at which they are false are ignored: their
    /// softmax is 0 and its logarithm `-inf`.
    #[doc(alias = "where")]
    pub where_: Option<&'a Array>,
}

/// Returns `x` minus its largest unmasked element, 0 at masked elements, and the mask.
#[track_caller]
fn shifted(name: &str, x: &Array, axes: &Axes, mask: &Array) -> (Array, Array) {
    let over = Reduction::from(axes.clone()).where_(mask);
    let mask = over.mask(name, x).expect("the reduction has a mask");
    let lowest = full_like(x, f64::NEG_INFINITY);
    let max = stable_max(name, &where_(&mask, x, lowest), axes);
    (where_(&mask, sub(x, max), zeros_like(x)), mask)
}

/// Returns the softmax of the elements that a mask selects, as [`softmax`]. Masked elements affect
/// neither the others nor their gradients. The result is 0 where all elements are masked.
///
/// ```
/// use oxidax::prelude::*;
/// let mask = array![true, true, false];
/// let options = SoftmaxOptions { where_: Some(&mask) };
/// let p = softmax_with(&array![1.0, 1.0, f32::NAN], -1, options);
/// assert_eq!(p.to_vec::<f32>()?, [0.5, 0.5, 0.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn softmax_with(
    x: impl ArrayLike,
    axes: impl Into<Axes>,
    options: SoftmaxOptions<'_>,
) -> Array {
    let x = &x.to_array();
    let Some(mask) = options.where_ else { return softmax(x, axes) };
    let (x, axes) = (inexact(x), axes.into().keepdims());
    let (shifted, mask) = shifted("softmax", &x, &axes, mask);
    let unnormalized = where_(&mask, exp(&shifted), zeros_like(&shifted));
    let total = unnormalized.sum_axes(axes);
    div(&unnormalized, where_(eq(&total, 0), 1, &total))
}

/// Returns the logarithm of the softmax of the elements that a mask selects, as [`log_softmax`].
/// The result is `-inf` at masked elements.
#[track_caller]
pub fn log_softmax_with(
    x: impl ArrayLike,
    axes: impl Into<Axes>,
    options: SoftmaxOptions<'_>,
) -> Array {
    let x = &x.to_array();
    let Some(mask) = options.where_ else { return log_softmax(x, axes) };
    let (x, axes) = (inexact(x), axes.into().keepdims());
    let (shifted, mask) = shifted("log_softmax", &x, &axes, mask);
    let total = where_(&mask, exp(&shifted), zeros_like(&shifted)).sum_axes(axes);
    let total = log(where_(eq(&total, 0), 1, &total));
    where_(&mask, sub(&shifted, total), full_like(&shifted, f64::NEG_INFINITY))
}

/// Returns `log |Σ b · exp(x)|` along `axes` and the sign of the sum, 1, 0 or -1, where
/// [`logsumexp`](super::logsumexp) is NaN for a negative sum.
#[doc(alias = "return_sign")]
#[track_caller]
pub fn logsumexp_signed(
    x: impl ArrayLike,
    axes: impl Into<Axes>,
    options: LogsumexpOptions<'_>,
) -> (Array, Array) {
    let x = &x.to_array();
    let axes = axes.into();
    let (sum, max) = log_terms(x, &axes, options);
    let size = add(log(abs(&sum)), &max);
    let sign = if sum.dtype().is_complex() {
        let size = convert_element_type(&abs(&sum), sum.dtype());
        div(&sum, where_(eq(&size, 0), 1, &size))
    } else {
        sign(&sum)
    };
    let reduced = |full: &Array| {
        let reduced = reshape(full, without_axes(x.shape(), &axes.resolve("logsumexp", x)));
        axes.restore("logsumexp", x, &reduced)
    };
    (reduced(&size), reduced(&sign))
}

/// Returns `log(mean(exp(x)))` along `axes` over the elements that a mask selects.
#[track_caller]
pub fn logmeanexp_with(
    x: impl ArrayLike,
    axes: impl Into<Axes>,
    options: SoftmaxOptions<'_>,
) -> Array {
    let x = &x.to_array();
    let Some(mask) = options.where_ else { return super::logmeanexp(x, axes) };
    let axes = axes.into();
    let over = Reduction::from(axes.clone()).where_(mask);
    let mask = over.mask("logmeanexp", x).expect("the reduction has a mask");
    let total =
        super::logsumexp_with(x, axes.clone(), LogsumexpOptions { b: None, where_: Some(&mask) });
    let count = convert_element_type(&mask, DType::I32).sum_axes(axes);
    sub(&total, log(convert_element_type(&count, total.dtype())))
}

/// Options of [`standardize_with`].
#[derive(Clone, Copy, Debug)]
pub struct StandardizeOptions<'a> {
    /// The mean, which broadcasts; computed if `None`.
    pub mean: Option<Like<'a>>,
    /// The variance, which broadcasts; computed if `None`.
    pub variance: Option<Like<'a>>,
    /// A number that is added to the variance. The default is 1e-5.
    pub epsilon: f64,
    /// Booleans that select the elements of mean and variance.
    #[doc(alias = "where")]
    pub where_: Option<&'a Array>,
}

impl Default for StandardizeOptions<'_> {
    fn default() -> Self {
        StandardizeOptions { mean: None, variance: None, epsilon: 1e-5, where_: None }
    }
}

/// Shifts and scales `x` along `axes`, as [`standardize`](super::standardize), by a given mean and
/// variance, or by those of the elements that a mask selects.
///
/// ```
/// use oxidax::prelude::*;
/// let options = StandardizeOptions {
///     mean: Some(1.0.like()),
///     variance: Some(4.0.like()),
///     epsilon: 0.0,
///     ..Default::default()
/// };
/// let y = standardize_with(&array![3.0, 1.0], -1, options);
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 0.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn standardize_with(
    x: impl ArrayLike,
    axes: impl Into<Axes>,
    options: StandardizeOptions<'_>,
) -> Array {
    let x = inexact(&x.to_array());
    let axes = axes.into().keepdims();
    let over = || match options.where_ {
        Some(mask) => axes.clone().where_(mask),
        None => Reduction::from(axes.clone()),
    };
    let given = |value: Like<'_>| match value {
        Like::Array(value) => convert_element_type(value, x.dtype()),
        Like::Scalar(value) => fill_of(value, &x.aval().with_shape([])),
    };
    let mean = options.mean.map_or_else(|| x.mean_axes(over()), given);
    let variance = match (options.variance, options.mean) {
        (Some(variance), _) => given(variance),
        (None, None) => x.var_axes(over()),
        // JAX's variance around another mean is the mean square minus the square of that mean.
        (None, Some(_)) => sub(mul(&x, &x).mean_axes(over()), mul(&mean, &mean)),
    };
    let epsilon = fill_of(Scalar::Float(options.epsilon), &variance.aval().with_shape([]));
    mul(sub(&x, &mean), rsqrt(add(variance, epsilon)))
}
