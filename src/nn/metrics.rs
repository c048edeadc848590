//! Metrics for reports. They are not differentiable.

use crate::core::{Array, DType, Loc, RuleError, throw_operands};
use crate::ops::{one_hot, take_along_axis};
use crate::primitives::{
    abs, add, broadcasted_iota, convert_element_type, div, eq, full, ge, gt, le, lt, mul,
    reduce_sum, where_, zeros,
};
use crate::tree::Tree;

/// Returns the fraction of examples whose class is among the `k` largest logits: `f32[]`.
///
/// `logits: […, c]`, `labels: int[…]`. Of equal logits the first counts as the largest. Labels out
/// of range count as errors.
///
/// Throws `Op` if the shapes do not match or the labels are not integers.
///
/// ```
/// use oxidax::prelude::*;
/// let logits = Array::from_slice(&[0.1f32, 0.5, 0.4], [1, 3])?;
/// let labels = Array::from_slice(&[2i32], [1])?;
/// assert_eq!(nn::top_k_accuracy(&logits, &labels, 2).item::<f32>()?, 1.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn top_k_accuracy(logits: &Array, labels: &Array, k: usize) -> Array {
    Loc::caller().scope(|| {
        let last = logits.rank().checked_sub(1);
        let shapes_match = last.is_some_and(|last| logits.shape().remove(last) == *labels.shape());
        if !shapes_match || !labels.dtype().is_integer() {
            let message = format!(
                "logits {} take integer classes of their shape without the last axis, got {}",
                logits.aval(),
                labels.aval()
            );
            throw_operands("top_k_accuracy", RuleError::shape(message), &[logits, labels]);
        }
        let n_classes = logits.shape()[logits.rank() - 1];
        let column = labels.expand_dims(-1);
        let label_logit = take_along_axis(logits, &column, -1);
        let classes = broadcasted_iota(labels.dtype(), logits.shape(), logits.rank() - 1);
        let is_ahead = gt(logits, &label_logit) | (eq(logits, &label_logit) & lt(classes, &column));
        let rank = reduce_sum(&convert_element_type(&is_ahead, DType::I32), &[-1]);
        let in_range = ge(labels, 0) & lt(labels, n_classes as i64);
        convert_element_type(&(lt(rank, k as i64) & in_range), DType::F32).mean()
    })
}

/// Counts the predictions of each class for each true class: `i32[n, n]`, with true classes as rows
/// and predictions as columns.
///
/// Pairs with a class of `n` or above are not counted. Throws `Op` unless `predictions` and
/// `labels` are integers of the same shape.
///
/// ```
/// use oxidax::prelude::*;
/// let predictions = Array::from_slice(&[0i32, 1, 1], [3])?;
/// let labels = Array::from_slice(&[0i32, 0, 1], [3])?;
/// let counts = nn::confusion_matrix(&predictions, &labels, 2);
/// assert_eq!(counts.to_vec::<i32>()?, [1, 1, 0, 1]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn confusion_matrix(predictions: &Array, labels: &Array, n_classes: usize) -> Array {
    Loc::caller().scope(|| {
        let are_integers = predictions.dtype().is_integer() && labels.dtype().is_integer();
        if predictions.shape() != labels.shape() || !are_integers {
            let message = format!(
                "predictions and labels must be integers of one shape, got {} and {}",
                predictions.aval(),
                labels.aval()
            );
            throw_operands("confusion_matrix", RuleError::shape(message), &[predictions, labels]);
        }
        let rows = |x: &Array| one_hot(x.reshape([x.size()]), n_classes);
        // Counts are exact in f32 up to 2²⁴ examples at once.
        let counts = rows(labels).t().matmul(&rows(predictions));
        convert_element_type(&counts, DType::I32)
    })
}

/// A running mean over batches. It is a tree, so a compiled step can take and return it.
///
/// ```
/// use oxidax::prelude::*;
/// let mut loss = nn::Average::new();
/// for batch in [[1.0f32, 2.0], [3.0, 6.0]] {
///     loss = loss.update(&Array::from_slice(&batch, [2])?);
/// }
/// assert_eq!(loss.compute().item::<f32>()?, 3.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Average {
    /// The sum of all values, `f32[]`.
    pub total: Array,
    /// The sum of the rounding errors of `total`, `f32[]`.
    pub compensation: Array,
    /// The number of values, `f32[]`, or the sum of their weights.
    pub count: Array,
}

impl Default for Average {
    #[track_caller]
    fn default() -> Average {
        Average::new()
    }
}

impl Average {
    /// Creates an empty mean.
    #[track_caller]
    pub fn new() -> Average {
        let zero = zeros([]);
        Average { total: zero.clone(), compensation: zero.clone(), count: zero }
    }

    /// Adds all elements of `values`.
    #[track_caller]
    pub fn update(&self, values: &Array) -> Average {
        let sum = convert_element_type(values, DType::F32).sum();
        self.add_sum(&sum, &full([], values.size() as f32))
    }

    /// Adds the elements of `values` with their weights. Padding has weight 0.
    ///
    /// Throws `Op` (shape) if the shapes differ.
    #[track_caller]
    pub fn update_weighted(&self, values: &Array, weights: &Array) -> Average {
        if values.shape() != weights.shape() {
            let message =
                format!("values {} and weights {} differ in shape", values.aval(), weights.aval());
            throw_operands("Average", RuleError::shape(message), &[values, weights]);
        }
        let weights = convert_element_type(weights, DType::F32);
        let values = convert_element_type(values, DType::F32);
        self.add_sum(&mul(values, &weights).sum(), &weights.sum())
    }

    /// Combines two means.
    #[track_caller]
    pub fn merge(&self, other: &Average) -> Average {
        self.add_sum(&add(&other.total, &other.compensation), &other.count)
    }

    /// Returns the mean, `f32[]`; NaN if there are no values.
    #[track_caller]
    pub fn compute(&self) -> Array {
        div(&self.total + &self.compensation, &self.count)
    }

    /// Adds to the sum and its compensation, by Neumaier's summation.
    #[track_caller]
    fn add_sum(&self, sum: &Array, count: &Array) -> Average {
        let total = &self.total + sum;
        let sum_is_smaller = le(abs(sum), abs(&self.total));
        let error_of_sum = (&self.total - &total) + sum;
        let error_of_total = (sum - &total) + &self.total;
        let error = where_(&sum_is_smaller, error_of_sum, error_of_total);
        Average { total, compensation: &self.compensation + error, count: &self.count + count }
    }
}
