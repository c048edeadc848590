//! Losses of classes.

use super::LossOptions;
use crate::check::{expect_same_shape, expect_value, last_size};
use crate::projections::unit_simplex;
use oxidax::prelude::*;

/// Returns `max(0, 1 - prediction · target)`, element-wise. Targets are -1 and 1.
///
/// # Reference
/// Cortes, Vapnik: Support-vector networks (1995).
#[track_caller]
pub fn hinge_loss(predictions: &Array, targets: &Array) -> Array {
    let margin = 1.0 - predictions * targets;
    maximum(&margin, zeros_like(&margin))
}

/// Returns `max(0, -prediction · target)`, element-wise. Targets are -1 and 1.
///
/// Throws `Op` (shape) if the shapes differ.
///
/// # Reference
/// Rosenblatt: The perceptron (1958).
#[track_caller]
pub fn perceptron_loss(predictions: &Array, targets: &Array) -> Array {
    expect_same_shape("perceptron_loss", predictions, targets);
    let loss = -(predictions * targets);
    maximum(&loss, zeros_like(&loss))
}

/// Returns the binary sparsemax loss, element-wise. Labels are 0 and 1, or `bool`.
///
/// # Reference
/// Blondel, Martins, Niculae: Learning with Fenchel-Young losses (2020), table 1.
#[doc(alias = "binary_sparsemax_loss")]
#[track_caller]
pub fn sparsemax_loss(logits: &Array, labels: &Array) -> Array {
    sparse_plus(where_(ne(labels, 0), -logits, logits))
}

/// Returns the one-hot form of classes, and the score of each class, `[…]`.
fn of_labels(scores: &Array, labels: &Array) -> (Array, Array) {
    let n_classes = last_size("multiclass_hinge_loss", scores);
    let one_hot = one_hot(labels, n_classes).astype(scores.dtype());
    let of_label = reduce_sum(&(scores * &one_hot), &[-1]);
    (one_hot, of_label)
}

/// Returns the multiclass hinge loss. `scores: float[…, c]`, `labels: int[…]`.
///
/// # Reference
/// Crammer, Singer: On the algorithmic implementation of multiclass kernel-based vector machines
/// (2001).
#[track_caller]
pub fn multiclass_hinge_loss(scores: &Array, labels: &Array) -> Array {
    let (one_hot, of_label) = of_labels(scores, labels);
    reduce_max(&(scores + 1.0 - one_hot), &[-1]) - of_label
}

/// Returns the multiclass perceptron loss. `scores: float[…, c]`, `labels: int[…]`.
///
/// # Reference
/// Collins: Discriminative training methods for hidden Markov models (2002).
#[track_caller]
pub fn multiclass_perceptron_loss(scores: &Array, labels: &Array) -> Array {
    let (_, of_label) = of_labels(scores, labels);
    reduce_max(scores, &[-1]) - of_label
}

/// Returns the multiclass sparsemax loss. `scores: float[b, c]`, `labels: int[b]`.
///
/// # Reference
/// Martins, Astudillo: From softmax to sparsemax (2016), equation 20.
#[track_caller]
pub fn multiclass_sparsemax_loss(scores: &Array, labels: &Array) -> Array {
    let (_, of_label) = of_labels(scores, labels);
    let probabilities = vmap(|scores: Array| unit_simplex(&scores)).apply(scores);
    let gaps = scores - expand_dims(&of_label, &[-1]);
    let square = reduce_sum(&probabilities.square(), &[-1]);
    reduce_sum(&(probabilities * gaps), &[-1]) + (1.0 - square) * 0.5
}

/// Returns the cross entropy, in nats, of distributions under `softmax(logits)`, with classes along
/// any axes, of which a mask selects some.
///
/// `logits` and `labels` have one shape. [`nn::softmax_cross_entropy`] has the last axis.
#[doc(alias = "softmax_cross_entropy")]
#[track_caller]
pub fn softmax_cross_entropy_with(logits: &Array, labels: &Array, options: &LossOptions) -> Array {
    -options.sum(&(labels * options.log_softmax(logits)))
}

/// Returns the cross entropy, in nats, of classes under `softmax(logits)`, with classes along one
/// axis, of which a mask selects some. Examples without a selected class have loss 0.
///
/// `labels` have the shape of the logits without the axis.
///
/// Throws `Op` (value) unless there is one axis.
#[doc(alias = "softmax_cross_entropy_with_integer_labels")]
#[track_caller]
pub fn softmax_cross_entropy_with_integer_labels_with(
    logits: &Array,
    labels: &Array,
    options: &LossOptions,
) -> Array {
    expect_value(options.axes.len() == 1, "softmax_cross_entropy_with_integer_labels", || {
        format!("classes have one axis, got {:?}", options.axes)
    });
    let axis = options.axes[0];
    let index = expand_dims(labels, &[axis]);
    let of_label = squeeze(&take_along_axis(logits, &index, axis), &[axis]);
    let loss = squeeze(&options.log_sum_exp(logits), &[axis]) - of_label;
    match options.mask_of(logits) {
        None => loss,
        Some(mask) => {
            let exists = reduce_or(&broadcast_to(&mask, logits.shape()), &[axis]);
            where_(exists, &loss, zeros_like(&loss))
        }
    }
}

/// Returns the cross entropy, in nats, of distributions under `softmax(logits)`, over the last
/// axis, where labels of 0 contribute 0 even if a logit is infinite.
///
/// `logits` and `labels` are `float[…, c]`.
#[track_caller]
pub fn safe_softmax_cross_entropy(logits: &Array, labels: &Array) -> Array {
    let is_zero = eq(labels, 0.0);
    let log_probabilities = log_softmax(logits, -1);
    // The product 0 · -∞ would be NaN.
    let safe = where_(&is_zero, zeros_like(&log_probabilities), &log_probabilities);
    -reduce_sum(&(labels * safe), &[-1])
}

/// Options of [`poly_loss_cross_entropy_with`].
#[derive(Clone, Debug)]
pub struct PolyLossOptions {
    /// The factor of the first polynomial. 2 by default.
    pub epsilon: f64,
    /// The axes of the classes, and the classes that count.
    pub reduction: LossOptions,
}

impl Default for PolyLossOptions {
    fn default() -> PolyLossOptions {
        PolyLossOptions { epsilon: 2.0, reduction: LossOptions::default() }
    }
}

/// Returns the cross entropy plus `epsilon` times one minus the probability of the labels.
///
/// # Reference
/// Leng et al.: PolyLoss: a polynomial expansion perspective of classification loss functions
/// (2022), equation 6.
#[track_caller]
pub fn poly_loss_cross_entropy(logits: &Array, labels: &Array) -> Array {
    poly_loss_cross_entropy_with(logits, labels, &PolyLossOptions::default())
}

/// Returns the polynomial loss with options.
#[track_caller]
pub fn poly_loss_cross_entropy_with(
    logits: &Array,
    labels: &Array,
    options: &PolyLossOptions,
) -> Array {
    let log_probabilities = options.reduction.log_softmax(logits);
    let missing = options.reduction.sum(&(labels * (1.0 - exp(&log_probabilities))));
    let cross_entropy = -options.reduction.sum(&(labels * log_probabilities));
    cross_entropy + missing * options.epsilon
}

/// Options of [`sigmoid_focal_loss_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FocalLossOptions {
    /// The weight of positive examples; negative ones have `1 - alpha`. None by default.
    pub alpha: Option<f64>,
    /// The exponent of the probability of the wrong class. 2 by default.
    pub gamma: f64,
}

impl Default for FocalLossOptions {
    fn default() -> FocalLossOptions {
        FocalLossOptions { alpha: None, gamma: 2.0 }
    }
}

/// Returns the focal loss, element-wise: the binary cross entropy, weighted by a power of the
/// probability of the wrong class. Labels are 0 and 1.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::losses::sigmoid_focal_loss;
/// let loss = sigmoid_focal_loss(&zeros([1]), &ones([1]));
/// assert!((loss.item::<f32>()? - 0.25 * 2f32.ln()).abs() < 1e-6);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Lin et al.: Focal loss for dense object detection (2017), equation 5.
#[track_caller]
pub fn sigmoid_focal_loss(logits: &Array, labels: &Array) -> Array {
    sigmoid_focal_loss_with(logits, labels, FocalLossOptions::default())
}

/// Returns the focal loss, element-wise, with options.
#[track_caller]
pub fn sigmoid_focal_loss_with(logits: &Array, labels: &Array, options: FocalLossOptions) -> Array {
    let labels = labels.astype(logits.dtype());
    let (log_p, log_q) = (log_sigmoid(logits), log_sigmoid(-logits));
    let cross_entropy = -(&labels * &log_p) - (1.0 - &labels) * &log_q;
    // The logarithm of the probability of the wrong class, without underflow.
    let largest = stop_gradient(maximum(&log_p, &log_q));
    let wrong = (1.0 - &labels) * exp(&log_p - &largest) + &labels * exp(&log_q - &largest);
    let weight = exp((log(&wrong) + &largest) * options.gamma);
    let loss = cross_entropy * weight;
    match options.alpha {
        None => loss,
        Some(alpha) => (&labels * alpha + (1.0 - &labels) * (1.0 - alpha)) * loss,
    }
}

/// Returns the listwise softmax loss of a ranking: the cross entropy of relevance `labels` under
/// `softmax(logits)`, over the last axis. One number per list.
///
/// Items outside of `mask` do not count; a list without items has loss 0. Optax returns the mean by
/// default, and multiplies the labels by its `weights`.
///
/// # Reference
/// Cao et al.: Learning to rank: from pairwise approach to listwise approach (2007), section 4.
#[track_caller]
pub fn ranking_softmax_loss(logits: &Array, labels: &Array, mask: Option<&Array>) -> Array {
    let options = LossOptions { mask: mask.cloned(), ..LossOptions::default() };
    let labels = labels.astype(logits.dtype());
    let loss = softmax_cross_entropy_with(logits, &labels, &options);
    match mask {
        None => loss,
        Some(mask) => where_(reduce_or(mask, &[-1]), &loss, zeros_like(&loss)),
    }
}

/// Returns the Fenchel-Young loss of a convex function of scores, such as [`logsumexp`]:
/// `(scores, targets) ↦ f(scores) - ⟨targets, scores⟩`, over the last axis.
///
/// `max_fun` reduces the last axis.
///
/// # Reference
/// Blondel, Martins, Niculae: Learning with Fenchel-Young losses (2020), definition 2.
pub fn make_fenchel_young_loss(
    max_fun: impl Fn(&Array) -> Array,
) -> impl Fn(&Array, &Array) -> Array {
    move |scores, targets| max_fun(scores) - reduce_sum(&(targets * scores), &[-1])
}
