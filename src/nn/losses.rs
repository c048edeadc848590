//! Losses, by Optax's names.
//!
//! A loss returns one number per example or element, in nats or in the units of its operands. Take
//! the mean yourself.

use crate::core::{Array, DType, RuleError, throw_operands};
use crate::ops::{log_sigmoid, log_softmax, logsumexp, take_along_axis};
use crate::primitives::{
    abs, argmax, convert_element_type, eq, log, maximum, minimum, mul, reduce_sum, reshape, rsqrt,
    where_,
};

/// Returns the cross entropy, in nats, of distributions under `softmax(logits)`, over the last
/// axis.
///
/// `logits` and `labels` are `float[…, c]`. Labels are one-hot or smoothed distributions. The
/// result is `float[…]`, one number per example. It is computed from the logits directly, so no
/// probability underflows.
///
/// For classes use [`softmax_cross_entropy_with_integer_labels`].
///
/// Throws `Op` for other shapes and dtypes.
///
/// ```
/// use oxidax::prelude::*;
/// let logits = Aval::new(DType::F32, [128, 10]);
/// let loss = eval_shape(
///     |logits: Array, labels: Array| nn::softmax_cross_entropy(&logits, &labels).mean(),
///     (logits.clone(), logits),
/// )?;
/// assert_eq!(loss.aval().to_string(), "f32[]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn softmax_cross_entropy(logits: &Array, labels: &Array) -> Array {
    const NAME: &str = "softmax_cross_entropy";
    expect_logits(NAME, logits, labels);
    if !labels.dtype().is_float() {
        let message = format!("labels must be distributions, floats, got {}", labels.aval());
        let error = RuleError::dtype(message)
            .help("classes go to `softmax_cross_entropy_with_integer_labels`");
        throw_operands(NAME, error, &[logits, labels]);
    }
    expect_same_shape(NAME, logits, labels);
    -reduce_sum(&mul(labels, log_softmax(logits, -1)), &[-1])
}

/// Returns the cross entropy, in nats, of classes under `softmax(logits)`, over the last axis.
///
/// `logits` are `float[…, c]`, `labels` are `int[…]`. The result is `float[…]` of the logits'
/// dtype, one number per example. It is computed from the logits directly, so no probability
/// underflows. A class of `c` or above gives NaN, and a negative one counts from the last class, as
/// in Optax; [`debug::check_labels`](crate::debug::check_labels) reports both.
///
/// Throws `Op` for other shapes and dtypes.
///
/// ```
/// use oxidax::prelude::*;
/// let loss = eval_shape(
///     |logits: Array, labels: Array| {
///         nn::softmax_cross_entropy_with_integer_labels(&logits, &labels).mean()
///     },
///     (Aval::new(DType::F32, [128, 10]), Aval::new(DType::I32, [128])),
/// )?;
/// assert_eq!(loss.aval().to_string(), "f32[]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "cross_entropy")]
#[track_caller]
pub fn softmax_cross_entropy_with_integer_labels(logits: &Array, labels: &Array) -> Array {
    const NAME: &str = "softmax_cross_entropy_with_integer_labels";
    let last = expect_logits(NAME, logits, labels);
    expect_integers(NAME, logits, labels);
    let shape = logits.shape();
    let batch = shape.remove(last);
    if *labels.shape() != batch {
        let message =
            format!("logits {shape} take classes of shape {batch}, got {}", labels.aval());
        throw_operands(NAME, RuleError::shape(message), &[logits, labels]);
    }
    let column = reshape(labels, batch.insert(last, 1));
    let label_logits = reshape(&take_along_axis(logits, &column, -1), &batch);
    logsumexp(logits, -1) - label_logits
}

/// Returns the cross entropy, in nats, of classes smoothed by `alpha`.
///
/// The class in `labels`, `int[…]`, has the weight `1 - alpha`, and all classes share `alpha`
/// evenly. Otherwise as [`softmax_cross_entropy_with_integer_labels`], whose shapes it has. It does
/// not build the one-hot labels of [`smooth_labels`].
///
/// Throws `Op` for other shapes and dtypes, and (value) unless `alpha` is in `0..=1`.
///
/// ```
/// use oxidax::prelude::*;
/// let loss = eval_shape(
///     |logits: Array, labels: Array| nn::smoothed_cross_entropy(&logits, &labels, 0.1),
///     (Aval::new(DType::F32, [128, 10]), Aval::new(DType::I32, [128])),
/// )?;
/// assert_eq!(loss.aval().to_string(), "f32[128]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Szegedy et al., "Rethinking the inception architecture for computer vision" (2015), section 7.
#[doc(alias = "label_smoothing")]
#[track_caller]
pub fn smoothed_cross_entropy(logits: &Array, labels: &Array, alpha: f64) -> Array {
    const NAME: &str = "smoothed_cross_entropy";
    expect_alpha(NAME, alpha, &[logits, labels]);
    expect_integers(NAME, logits, labels);
    let cross_entropy = softmax_cross_entropy_with_integer_labels(logits, labels);
    let mean_over_classes = log_softmax(logits, -1).mean_axes(-1);
    cross_entropy * (1.0 - alpha) - mean_over_classes * alpha
}

/// Smooths one-hot `labels`, `float[…, c]`: `labels · (1 - alpha) + alpha / c`.
///
/// Throws `Op` if the labels are not floats with an axis of classes, or `alpha` is not in `0..=1`.
#[track_caller]
pub fn smooth_labels(labels: &Array, alpha: f64) -> Array {
    const NAME: &str = "smooth_labels";
    expect_alpha(NAME, alpha, &[labels]);
    let Some(&n_classes) = labels.shape().last().filter(|_| labels.dtype().is_float()) else {
        let message = format!("labels must be floats [..., classes], got {}", labels.aval());
        throw_operands(NAME, RuleError::shape(message), &[labels]);
    };
    labels * (1.0 - alpha) + alpha / n_classes as f64
}

/// Returns the cross entropy, in nats, of independent binary `labels` under `sigmoid(logits)`,
/// element-wise.
///
/// `labels` have the shape of `logits` and are probabilities, 0 and 1, or `bool`. The result has
/// the logits' dtype. It is computed from the logits directly, so no probability underflows.
///
/// Throws `Op` if the shapes differ or the logits are not floats.
#[doc(alias = "binary_cross_entropy")]
#[track_caller]
pub fn sigmoid_binary_cross_entropy(logits: &Array, labels: &Array) -> Array {
    expect_float("sigmoid_binary_cross_entropy", logits, labels);
    expect_same_shape("sigmoid_binary_cross_entropy", logits, labels);
    let labels = convert_element_type(labels, logits.dtype());
    let log_p = log_sigmoid(logits);
    let log_not_p = log_sigmoid(&-logits);
    -&labels * log_p - (1.0 - &labels) * log_not_p
}

/// Returns the squared difference, element-wise.
///
/// Throws `Op` (shape) if the shapes differ; losses do not broadcast.
#[track_caller]
pub fn squared_error(predictions: &Array, targets: &Array) -> Array {
    expect_same_shape("squared_error", predictions, targets);
    let error = predictions - targets;
    &error * &error
}

/// Returns half of the squared difference, element-wise.
///
/// Throws `Op` (shape) if the shapes differ.
#[track_caller]
pub fn l2_loss(predictions: &Array, targets: &Array) -> Array {
    expect_same_shape("l2_loss", predictions, targets);
    squared_error(predictions, targets) * 0.5
}

/// Returns the mean of the squared difference over all elements, a scalar.
///
/// Throws `Op` (shape) if the shapes differ.
#[doc(alias = "mse")]
#[track_caller]
pub fn mean_squared_error(predictions: &Array, targets: &Array) -> Array {
    squared_error(predictions, targets).mean()
}

/// Returns the absolute difference, element-wise. Its derivative at 0 is 0.
///
/// Throws `Op` (shape) if the shapes differ.
#[doc(alias = "l1_loss")]
#[doc(alias = "mae")]
#[track_caller]
pub fn absolute_error(predictions: &Array, targets: &Array) -> Array {
    expect_same_shape("absolute_error", predictions, targets);
    abs(&(predictions - targets))
}

/// Options of [`huber_loss_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HuberLossOptions {
    /// The difference at which the loss becomes linear. 1 by default.
    pub delta: f64,
}

impl Default for HuberLossOptions {
    fn default() -> HuberLossOptions {
        HuberLossOptions { delta: 1.0 }
    }
}

/// Returns the Huber loss, element-wise: half of the squared difference up to 1, linear beyond.
///
/// Throws `Op` (shape) if the shapes differ.
///
/// # Reference
/// Huber: Robust estimation of a location parameter (1964).
#[track_caller]
pub fn huber_loss(predictions: &Array, targets: &Array) -> Array {
    huber_loss_with(predictions, targets, HuberLossOptions::default())
}

/// Returns the Huber loss, element-wise, with options.
///
/// Throws `Op` (shape) if the shapes differ.
#[track_caller]
pub fn huber_loss_with(predictions: &Array, targets: &Array, options: HuberLossOptions) -> Array {
    expect_same_shape("huber_loss", predictions, targets);
    let error = abs(&(predictions - targets));
    let quadratic = minimum(&error, options.delta);
    // Written as a difference, so that both parts have one derivative at `delta`.
    let linear = &error - &quadratic;
    (&quadratic * &quadratic) * 0.5 + linear * options.delta
}

/// Returns the Kullback-Leibler divergence, in nats, of predicted distributions from `targets`,
/// over the last axis: `sum(targets · (log(targets) - log_predictions))`.
///
/// Targets of 0 contribute 0.
///
/// Throws `Op` (shape) if the shapes differ, or are scalar.
///
/// # Reference
/// Kullback, Leibler: On information and sufficiency (1951).
#[track_caller]
pub fn kl_divergence(log_predictions: &Array, targets: &Array) -> Array {
    expect_same_shape("kl_divergence", log_predictions, targets);
    expect_axis("kl_divergence", log_predictions, targets);
    let is_zero = eq(targets, 0);
    // The argument of the logarithm is 1 there, so that the derivative is not NaN.
    let log_targets = where_(&is_zero, 0, log(where_(&is_zero, 1, targets)));
    reduce_sum(&mul(targets, log_targets - log_predictions), &[-1])
}

/// Options of [`cosine_similarity_with`] and [`cosine_distance_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CosineOptions {
    /// The least squared length of a vector; smaller ones are replaced by it. 0 by default.
    pub epsilon: f64,
}

/// Returns the cosine of the angle between two vectors, over the last axis.
///
/// Throws `Op` (shape) if the shapes differ, or are scalar.
#[track_caller]
pub fn cosine_similarity(predictions: &Array, targets: &Array) -> Array {
    cosine_similarity_with(predictions, targets, CosineOptions::default())
}

/// Returns the cosine of the angle between two vectors, over the last axis, with options.
///
/// Throws `Op` (shape) if the shapes differ, or are scalar.
#[track_caller]
pub fn cosine_similarity_with(
    predictions: &Array,
    targets: &Array,
    options: CosineOptions,
) -> Array {
    expect_same_shape("cosine_similarity", predictions, targets);
    expect_axis("cosine_similarity", predictions, targets);
    let normalize = |x: &Array| {
        let square = reduce_sum(&mul(x, x), &[-1]).expand_dims(-1);
        // The derivative of the root at 0 would be infinite.
        let safe = maximum(square, options.epsilon);
        mul(x, rsqrt(&safe))
    };
    reduce_sum(&mul(normalize(predictions), normalize(targets)), &[-1])
}

/// Returns one minus the cosine of the angle between two vectors, over the last axis.
///
/// Throws `Op` (shape) if the shapes differ, or are scalar.
#[track_caller]
pub fn cosine_distance(predictions: &Array, targets: &Array) -> Array {
    cosine_distance_with(predictions, targets, CosineOptions::default())
}

/// Returns one minus the cosine of the angle between two vectors, over the last axis, with options.
///
/// Throws `Op` (shape) if the shapes differ, or are scalar.
#[track_caller]
pub fn cosine_distance_with(predictions: &Array, targets: &Array, options: CosineOptions) -> Array {
    1.0 - cosine_similarity_with(predictions, targets, options)
}

/// Returns the fraction of examples whose largest logit is that of their class: `f32[]`.
///
/// `logits: […, c]`, `labels: int[…]`. Not differentiable.
///
/// Throws `Op` if the shapes do not match.
#[track_caller]
pub fn accuracy(logits: &Array, labels: &Array) -> Array {
    let predictions = argmax(logits, -1);
    if labels.dtype().is_inexact() {
        expect_integers("accuracy", logits, labels);
    }
    expect_same_shape("accuracy", &predictions, labels);
    let predictions = convert_element_type(&predictions, labels.dtype());
    convert_element_type(&eq(predictions, labels), DType::F32).mean()
}

/// Throws unless logits are floats with an axis of classes. Returns that axis.
#[track_caller]
fn expect_logits(name: &str, logits: &Array, labels: &Array) -> usize {
    expect_float(name, logits, labels);
    let Some(last) = logits.rank().checked_sub(1) else {
        let error = RuleError::shape("logits need an axis of classes, got []");
        throw_operands(name, error, &[logits, labels]);
    };
    last
}

#[track_caller]
fn expect_float(name: &str, logits: &Array, labels: &Array) {
    if !logits.dtype().is_float() {
        let error = RuleError::dtype(format!("logits must be floats, got {}", logits.aval()));
        throw_operands(name, error, &[logits, labels]);
    }
}

#[track_caller]
fn expect_integers(name: &str, logits: &Array, labels: &Array) {
    if !labels.dtype().is_integer() {
        let message = format!("labels must be classes, integers, got {}", labels.aval());
        let error = RuleError::dtype(message).help(
            "convert classes with `astype(DType::I32)`, and one-hot labels with `argmax(labels, \
             -1)`; `softmax_cross_entropy` takes distributions",
        );
        throw_operands(name, error, &[logits, labels]);
    }
}

#[track_caller]
fn expect_alpha(name: &str, alpha: f64, operands: &[&Array]) {
    if !(0.0..=1.0).contains(&alpha) {
        let error = RuleError::value(format!("alpha must be in 0..=1, got {alpha}"));
        throw_operands(name, error, operands);
    }
}

#[track_caller]
fn expect_axis(name: &str, x: &Array, y: &Array) {
    if x.rank() == 0 {
        let error = RuleError::shape("operands need an axis of features, got []");
        throw_operands(name, error, &[x, y]);
    }
}

#[track_caller]
fn expect_same_shape(name: &str, x: &Array, y: &Array) {
    if x.shape() != y.shape() {
        let message = format!("operands must have one shape, got {} and {}", x.shape(), y.shape());
        throw_operands(name, RuleError::shape(message), &[x, y]);
    }
}
