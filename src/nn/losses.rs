//! Losses. Each gives one number per example or element, in nats or in the units of its operands;
//! take the mean yourself.

use crate::core::{Array, DType, RuleError, throw_operands};
use crate::ops::{log_sigmoid, log_softmax, logsumexp, take_along_axis};
use crate::primitives::{
    abs, argmax, convert_element_type, eq, log, maximum, minimum, mul, reduce_sum, reshape, rsqrt,
    where_,
};

/// The cross entropy, in nats, of the classes in `labels` under `softmax(logits)`, over the last axis.
///
/// `logits: float[…, c]`. `labels` are either classes, `int[…]`, or distributions, `float[…, c]` (one-hot
/// or smoothed). The result is `float[…]` of the logits' dtype: one number per example.
///
/// Computed from the logits directly, so that no probability underflows. A class of `c` or above
/// gives NaN.
///
/// Throws `Op` for other shapes and dtypes.
///
/// ```
/// use oxidax::prelude::*;
/// let loss = eval_shape(
///     |logits: Array, labels: Array| nn::softmax_cross_entropy(&logits, &labels).mean(),
///     (Aval::new(DType::F32, [128, 10]), Aval::new(DType::I32, [128])),
/// )?;
/// assert_eq!(loss.aval().to_string(), "f32[]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "cross_entropy")]
#[doc(alias = "softmax_cross_entropy_with_integer_labels")]
#[track_caller]
pub fn softmax_cross_entropy(logits: &Array, labels: &Array) -> Array {
    expect_float("softmax_cross_entropy", logits, labels);
    let operands = [logits, labels];
    let shape = logits.shape();
    let Some(last) = shape.rank().checked_sub(1) else {
        let error = RuleError::shape("logits need an axis of classes, got []");
        throw_operands("softmax_cross_entropy", error, &operands);
    };
    if labels.dtype().is_integer() {
        let batch = shape.remove(last);
        if *labels.shape() != batch {
            let message =
                format!("logits {shape} take classes of shape {batch}, got {}", labels.aval());
            throw_operands("softmax_cross_entropy", RuleError::shape(message), &operands);
        }
        let column = reshape(labels, batch.insert(last, 1));
        let chosen = reshape(&take_along_axis(logits, &column, -1), &batch);
        return logsumexp(logits, -1) - chosen;
    }
    if !labels.dtype().is_float() {
        let message =
            format!("labels are classes (int) or distributions (float), got {}", labels.aval());
        throw_operands("softmax_cross_entropy", RuleError::dtype(message), &operands);
    }
    expect_alike("softmax_cross_entropy", logits, labels);
    -reduce_sum(&mul(labels, log_softmax(logits, -1)), &[-1])
}

/// The cross entropy, in nats, of classes that are told with a doubt: `1 - alpha` for the class in `labels`,
/// `int[…]`, and `alpha` spread evenly over all. Otherwise as [`softmax_cross_entropy`].
///
/// Throws `Op` as [`softmax_cross_entropy`] does, and (value) unless `alpha` lies in `0..=1`.
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
#[doc(alias = "smooth_labels")]
#[doc(alias = "label_smoothing")]
#[track_caller]
pub fn smoothed_cross_entropy(logits: &Array, labels: &Array, alpha: f64) -> Array {
    let operands = [logits, labels];
    if !(0.0..=1.0).contains(&alpha) {
        let error = RuleError::value(format!("alpha must lie in 0..=1, got {alpha}"));
        throw_operands("smoothed_cross_entropy", error, &operands);
    }
    if !labels.dtype().is_integer() {
        let message = format!("labels must be classes, integers, got {}", labels.aval());
        throw_operands("smoothed_cross_entropy", RuleError::dtype(message), &operands);
    }
    let own = softmax_cross_entropy(logits, labels);
    // The mean over the classes of what each would cost.
    own * (1.0 - alpha) - log_softmax(logits, -1).mean_axes(-1) * alpha
}

/// The cross entropy, in nats, of independent yes-or-no `labels` under `sigmoid(logits)`, element by
/// element.
///
/// `logits: float[…]`; `labels`, of the same shape, are probabilities, 0 and 1, or `bool`. The result has
/// the logits' type. Computed from the logits directly, so that no probability underflows.
///
/// Throws `Op` if the shapes differ or the logits are no floats.
#[doc(alias = "binary_cross_entropy")]
#[track_caller]
pub fn sigmoid_binary_cross_entropy(logits: &Array, labels: &Array) -> Array {
    expect_float("sigmoid_binary_cross_entropy", logits, labels);
    expect_alike("sigmoid_binary_cross_entropy", logits, labels);
    let labels = convert_element_type(labels, logits.dtype());
    let yes = log_sigmoid(logits);
    let no = log_sigmoid(&-logits);
    -&labels * yes - (1.0 - &labels) * no
}

/// The squared difference, element by element.
///
/// Throws `Op` (shape) if the shapes differ: broadcasting a loss is hardly ever meant.
#[doc(alias = "l2_loss")]
#[track_caller]
pub fn squared_error(predictions: &Array, targets: &Array) -> Array {
    expect_alike("squared_error", predictions, targets);
    let error = predictions - targets;
    &error * &error
}

/// The mean of the squared difference over all elements, a scalar.
///
/// Throws `Op` (shape) if the shapes differ.
#[doc(alias = "mean_squared_error")]
#[track_caller]
pub fn mse(predictions: &Array, targets: &Array) -> Array {
    squared_error(predictions, targets).mean()
}

/// The absolute difference, element by element. Its derivative at 0 is 0.
///
/// Throws `Op` (shape) if the shapes differ.
#[doc(alias = "l1_loss")]
#[doc(alias = "mae")]
#[track_caller]
pub fn absolute_error(predictions: &Array, targets: &Array) -> Array {
    expect_alike("absolute_error", predictions, targets);
    abs(&(predictions - targets))
}

/// Huber's loss, element by element: half the square of the difference up to `delta`, in whose units it
/// is measured, and linear beyond.
///
/// Throws `Op` (shape) if the shapes differ.
///
/// # Reference
/// Huber: Robust estimation of a location parameter (1964).
#[track_caller]
pub fn huber(predictions: &Array, targets: &Array, delta: f64) -> Array {
    expect_alike("huber", predictions, targets);
    let error = abs(&(predictions - targets));
    let quadratic = minimum(&error, delta);
    // Written as a difference, the two parts share one derivative at `delta`.
    let linear = &error - &quadratic;
    (&quadratic * &quadratic) * 0.5 + linear * delta
}

/// How far, in nats, `targets` are from the distributions that `log_predictions` are the logarithms of, over
/// the last axis: `sum(targets · (log(targets) - log_predictions))`, 0 where they are equal. Nothing is lost
/// where a target is 0.
///
/// Throws `Op` (shape) if the shapes differ, or there is no axis.
///
/// # Reference
/// Kullback, Leibler: On information and sufficiency (1951).
#[track_caller]
pub fn kl_divergence(log_predictions: &Array, targets: &Array) -> Array {
    expect_alike("kl_divergence", log_predictions, targets);
    expect_axis("kl_divergence", log_predictions, targets);
    let none = eq(targets, 0);
    // The logarithm is taken of something else there, so that its derivative is not NaN.
    let log_targets = where_(&none, 0, log(&where_(&none, 1, targets)));
    reduce_sum(&mul(targets, log_targets - log_predictions), &[-1])
}

/// The cosine of the angle between two vectors, over the last axis. Where the squared length of a vector is less than
/// `epsilon`, that stands in its place, as in Optax.
///
/// Throws `Op` (shape) if the shapes differ, or there is no axis.
#[track_caller]
pub fn cosine_similarity(predictions: &Array, targets: &Array, epsilon: f64) -> Array {
    expect_alike("cosine_similarity", predictions, targets);
    expect_axis("cosine_similarity", predictions, targets);
    let unit = |x: &Array| {
        let square = reduce_sum(&mul(x, x), &[-1]).expand_dims(-1);
        // The derivative of the root at 0 would be infinite.
        let safe = maximum(square, epsilon);
        mul(x, rsqrt(&safe))
    };
    reduce_sum(&mul(unit(predictions), unit(targets)), &[-1])
}

/// One minus the cosine of the angle between two vectors, over the last axis: 0 if they point the same way, 2 if
/// opposite ways. As [`cosine_similarity`].
///
/// Throws `Op` (shape) if the shapes differ, or there is no axis.
#[track_caller]
pub fn cosine_distance(predictions: &Array, targets: &Array, epsilon: f64) -> Array {
    1.0 - cosine_similarity(predictions, targets, epsilon)
}

/// The fraction of examples whose largest logit is that of their class: `f32[]`.
///
/// `logits: […, c]`, `labels: int[…]`. Not differentiable.
///
/// Throws `Op` if the shapes do not fit.
#[track_caller]
pub fn accuracy(logits: &Array, labels: &Array) -> Array {
    let guesses = argmax(logits, -1);
    expect_alike("accuracy", &guesses, labels);
    let guesses = convert_element_type(&guesses, labels.dtype());
    convert_element_type(&eq(guesses, labels), DType::F32).mean()
}

#[track_caller]
fn expect_float(name: &str, logits: &Array, labels: &Array) {
    if !logits.dtype().is_float() {
        let error = RuleError::dtype(format!("logits must be floats, got {}", logits.aval()));
        throw_operands(name, error, &[logits, labels]);
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
fn expect_alike(name: &str, x: &Array, y: &Array) {
    if x.shape() != y.shape() {
        let message = format!("operands must have one shape, got {} and {}", x.shape(), y.shape());
        throw_operands(name, RuleError::shape(message), &[x, y]);
    }
}
