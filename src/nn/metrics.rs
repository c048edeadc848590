//! Metrics: numbers that a person reads. None has a derivative.

use crate::core::{Array, DType, RuleError, throw_operands};
use crate::ops::{one_hot, take_along_axis};
use crate::primitives::{
    add, convert_element_type, div, eq, full, ge, gt, le, lt, mul, reduce_sum, where_, zeros,
};
use crate::tree::Tree;

/// The fraction of examples whose class is among the `k` with the largest logits: `f32[]`.
///
/// `logits: […, c]`, `labels: int[…]`. Of equal logits those in front count as larger; a class that does not
/// exist is never found.
///
/// Throws `Op` if the shapes do not fit or the labels are no integers.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let logits = Array::from_slice(&[0.1f32, 0.5, 0.4], [1, 3])?;
/// let labels = Array::from_slice(&[2i32], [1])?;
/// assert_eq!(nn::top_k_accuracy(&logits, &labels, 2).item::<f32>()?, 1.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn top_k_accuracy(logits: &Array, labels: &Array, k: usize) -> Array {
    let last = logits.rank().checked_sub(1);
    let fits = last.is_some_and(|last| logits.shape().remove(last) == *labels.shape());
    if !fits || !labels.dtype().is_integer() {
        let message = format!(
            "logits {} take integer classes of their shape without the last axis, got {}",
            logits.aval(),
            labels.aval()
        );
        throw_operands("top_k_accuracy", RuleError::shape(message), &[logits, labels]);
    }
    let n_classes = logits.shape()[logits.rank() - 1];
    let column = labels.expand_dims(-1);
    let own = take_along_axis(logits, &column, -1);
    let places =
        crate::primitives::broadcasted_iota(labels.dtype(), logits.shape(), logits.rank() - 1);
    let larger = gt(logits, &own) | (eq(logits, &own) & lt(places, &column));
    let ahead = reduce_sum(&convert_element_type(&larger, DType::I32), &[-1]);
    let exists = ge(labels, 0) & lt(labels, n_classes as i64);
    convert_element_type(&(lt(ahead, k as i64) & exists), DType::F32).mean()
}

/// How often each class was taken for each: `i32[n, n]`, the true class along the rows, the guess along the
/// columns. Pairs with a class beyond `n` are left out.
///
/// `guesses` and `labels` are integers of one shape. Throws `Op` otherwise.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let guesses = Array::from_slice(&[0i32, 1, 1], [3])?;
/// let labels = Array::from_slice(&[0i32, 0, 1], [3])?;
/// let counts = nn::confusion_matrix(&guesses, &labels, 2);
/// assert_eq!(counts.to_vec::<i32>()?, [1, 1, 0, 1]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn confusion_matrix(guesses: &Array, labels: &Array, n_classes: usize) -> Array {
    let integers = guesses.dtype().is_integer() && labels.dtype().is_integer();
    if guesses.shape() != labels.shape() || !integers {
        let message = format!(
            "guesses and labels must be integers of one shape, got {} and {}",
            guesses.aval(),
            labels.aval()
        );
        throw_operands("confusion_matrix", RuleError::shape(message), &[guesses, labels]);
    }
    let rows = |x: &Array| one_hot(&x.reshape([x.size()]), n_classes);
    // Counts are exact in f32 up to 2²⁴ examples at once.
    let counts = rows(labels).t().matmul(&rows(guesses));
    convert_element_type(&counts, DType::I32)
}

/// A mean that grows batch by batch: a tree, which a step takes and gives back.
///
/// ```no_run
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
    /// What the rounding of `total` has lost so far, `f32[]`.
    pub lost: Array,
    /// How many values there were, `f32[]`, or the sum of their weights.
    pub count: Array,
}

impl Default for Average {
    #[track_caller]
    fn default() -> Average {
        Average::new()
    }
}

impl Average {
    /// The mean of nothing yet.
    #[track_caller]
    pub fn new() -> Average {
        let zero = zeros([], DType::F32);
        Average { total: zero.clone(), lost: zero.clone(), count: zero }
    }

    /// With all elements of `values` besides.
    #[track_caller]
    pub fn update(&self, values: &Array) -> Average {
        let sum = convert_element_type(values, DType::F32).sum();
        self.with(&sum, &full([], values.size() as f32))
    }

    /// With the elements of `values` besides, each counting as much as its weight: 0 for padding.
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
        self.with(&mul(values, &weights).sum(), &weights.sum())
    }

    /// The mean of what both have seen.
    #[track_caller]
    pub fn merge(&self, other: &Average) -> Average {
        self.with(&add(&other.total, &other.lost), &other.count)
    }

    /// The mean, `f32[]`: NaN if there was no value.
    #[track_caller]
    pub fn compute(&self) -> Array {
        div(&self.total + &self.lost, &self.count)
    }

    /// A sum that keeps what rounding takes from it (Neumaier's).
    #[track_caller]
    fn with(&self, sum: &Array, count: &Array) -> Average {
        let total = &self.total + sum;
        let smaller = le(crate::primitives::abs(sum), crate::primitives::abs(&self.total));
        let of_sum = (&self.total - &total) + sum;
        let of_total = (sum - &total) + &self.total;
        let lost = &self.lost + where_(&smaller, of_sum, of_total);
        Average { total, lost, count: &self.count + count }
    }
}
