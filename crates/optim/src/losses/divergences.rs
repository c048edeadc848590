//! Divergences of distributions, distances of vectors, and regression.

use super::LossOptions;
use oxidax::prelude::*;

/// Returns the Kullback-Leibler divergence, in nats, of predicted distributions from `targets`,
/// with axes and a mask. Targets of 0 contribute 0.
///
/// [`nn::kl_divergence`] has the last axis.
#[doc(alias = "kl_divergence")]
#[track_caller]
pub fn kl_divergence_with(
    log_predictions: &Array,
    targets: &Array,
    options: &LossOptions,
) -> Array {
    let is_zero = eq(targets, 0.0);
    // The argument of the logarithm is 1 there, so that the derivative is not NaN.
    let safe = where_(&is_zero, ones_like(targets), targets);
    let log_targets = where_(&is_zero, zeros_like(targets), log(&safe));
    options.sum(&(targets * (log_targets - log_predictions)))
}

/// Returns the Kullback-Leibler divergence, in nats, of two distributions given by their
/// logarithms, over the last axis.
#[track_caller]
pub fn kl_divergence_with_log_targets(log_predictions: &Array, log_targets: &Array) -> Array {
    kl_divergence_with_log_targets_with(log_predictions, log_targets, &LossOptions::default())
}

/// Returns the Kullback-Leibler divergence of logarithms, with options.
#[track_caller]
pub fn kl_divergence_with_log_targets_with(
    log_predictions: &Array,
    log_targets: &Array,
    options: &LossOptions,
) -> Array {
    options.sum(&(exp(log_targets) * (log_targets - log_predictions)))
}

/// Returns the Kullback-Leibler divergence of positive measures, over the last axis: for measures
/// whose sums are not 1, the difference of the sums is added.
#[track_caller]
pub fn generalized_kl_divergence(log_predictions: &Array, targets: &Array) -> Array {
    generalized_kl_divergence_with(log_predictions, targets, &LossOptions::default())
}

/// Returns the Kullback-Leibler divergence of positive measures, with options.
#[track_caller]
pub fn generalized_kl_divergence_with(
    log_predictions: &Array,
    targets: &Array,
    options: &LossOptions,
) -> Array {
    kl_divergence_with(log_predictions, targets, options)
        + options.sum(&(exp(log_predictions) - targets))
}

/// Returns [`generalized_kl_divergence`], by its older name.
#[track_caller]
pub fn convex_kl_divergence(log_predictions: &Array, targets: &Array) -> Array {
    generalized_kl_divergence(log_predictions, targets)
}

/// Returns the cosine of the angle between two vectors, with axes and a mask. Squared lengths are
/// at least `epsilon`.
#[doc(alias = "cosine_similarity")]
#[track_caller]
pub fn cosine_similarity_with_axes(
    predictions: &Array,
    targets: &Array,
    epsilon: f64,
    options: &LossOptions,
) -> Array {
    let unit = |x: &Array| {
        let square = expand_dims(&options.sum(&x.square()), &options.axes);
        x / sqrt(maximum(&square, full_like(&square, epsilon)))
    };
    options.sum(&(unit(predictions) * unit(targets)))
}

/// Returns one minus the cosine of the angle between two vectors, with axes and a mask.
#[doc(alias = "cosine_distance")]
#[track_caller]
pub fn cosine_distance_with_axes(
    predictions: &Array,
    targets: &Array,
    epsilon: f64,
    options: &LossOptions,
) -> Array {
    1.0 - cosine_similarity_with_axes(predictions, targets, epsilon, options)
}

/// Returns `log(cosh(prediction - target))`, element-wise: half of the squared difference near 0,
/// the absolute difference less `log(2)` far from it.
///
/// # Reference
/// Chen et al.: Log hyperbolic cosine loss improves variational auto-encoder (2019).
#[track_caller]
pub fn log_cosh(predictions: &Array, targets: &Array) -> Array {
    let error = predictions - targets;
    logaddexp(&error, -&error) - std::f64::consts::LN_2
}
