//! Losses beyond those of [`oxidax::nn`], and these with axes and masks.
//!
//! A loss returns one number per example or element. Take the mean yourself.

mod classification;
mod ctc;
mod divergences;
mod segmentation;
mod self_supervised;

pub use classification::{
    FocalLossOptions, PolyLossOptions, hinge_loss, make_fenchel_young_loss, multiclass_hinge_loss,
    multiclass_perceptron_loss, multiclass_sparsemax_loss, perceptron_loss,
    poly_loss_cross_entropy, poly_loss_cross_entropy_with, ranking_softmax_loss,
    safe_softmax_cross_entropy, sigmoid_focal_loss, sigmoid_focal_loss_with,
    softmax_cross_entropy_with, softmax_cross_entropy_with_integer_labels_with, sparsemax_loss,
};
pub use ctc::{CtcForward, CtcOptions, ctc_loss_with_forward_probs, ctc_loss_with_paddings};
pub use divergences::{
    convex_kl_divergence, cosine_distance_with_axes, cosine_similarity_with_axes,
    generalized_kl_divergence, generalized_kl_divergence_with, kl_divergence_with,
    kl_divergence_with_log_targets, kl_divergence_with_log_targets_with, log_cosh,
};
pub use segmentation::{
    Background, DiceOptions, DiceReduction, Predictions, binary_dice_loss, dice_loss,
    dice_loss_with, multiclass_generalized_dice_loss,
};
pub use self_supervised::{
    NtxentOptions, TripletOptions, ntxent, ntxent_with, triplet_margin_loss,
    triplet_margin_loss_with,
};

use oxidax::prelude::*;

/// Smooths one-hot labels, `labels · (1 - alpha) + alpha / c`, with the axes of the `c` classes and
/// the classes that count.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::losses::{LossOptions, smooth_labels_with};
/// let labels = array![[1f32, 0.0, 0.0], [0.0, 1.0, 0.0]];
/// let columns = LossOptions { axes: vec![0], ..LossOptions::default() };
/// let smooth = smooth_labels_with(&labels, 0.5, &columns);
/// assert_eq!(smooth.to_vec::<f32>()?[..3], [0.75, 0.25, 0.25]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn smooth_labels_with(labels: &Array, alpha: f64, options: &LossOptions) -> Array {
    let n_classes = match options.mask_of(labels) {
        Some(mask) => {
            let mask = broadcast_to(&mask, labels.shape()).astype(labels.dtype());
            expand_dims(&reduce_sum(&mask, &options.axes), &options.axes)
        }
        None => {
            let sizes = options.axes.iter().map(|axis| {
                labels.shape()[(axis + labels.rank() as isize) as usize % labels.rank()]
            });
            full(([], labels.dtype()), sizes.product::<usize>() as f64)
        }
    };
    labels * (1.0 - alpha) + alpha / n_classes
}

/// The axes of a loss, and the elements that count.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::losses::{LossOptions, kl_divergence_with};
/// let targets = array![[0.5f32, 0.5], [1.0, 0.0]];
/// let log_predictions = full([2, 2], 0.5f32.ln());
/// let options = LossOptions { axes: vec![0], ..LossOptions::default() };
/// let divergence = kl_divergence_with(&log_predictions, &targets, &options);
/// assert_eq!(divergence.shape().dims(), [2]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LossOptions {
    /// The axes of classes or features, over which a loss sums. The last one by default.
    #[doc(alias = "axis")]
    pub axes: Vec<isize>,
    /// The elements that count, `bool`: in the shape of the predictions, or without the axes. All
    /// by default.
    #[doc(alias = "where")]
    pub mask: Option<Array>,
}

impl Default for LossOptions {
    fn default() -> LossOptions {
        LossOptions { axes: vec![-1], mask: None }
    }
}

impl LossOptions {
    /// Returns the mask in a shape that broadcasts against `x`.
    fn mask_of(&self, x: &Array) -> Option<Array> {
        let mask = self.mask.as_ref()?;
        if mask.rank() == x.rank() {
            Some(mask.clone())
        } else {
            Some(expand_dims(mask, &self.axes))
        }
    }

    /// Adds over the axes.
    fn sum(&self, x: &Array) -> Array {
        let kept = match self.mask_of(x) {
            Some(mask) => where_(mask, x, zeros_like(x)),
            None => x.clone(),
        };
        reduce_sum(&kept, &self.axes)
    }

    /// Returns `log(sum(exp(x)))` over the axes, which stay with size 1.
    fn log_sum_exp(&self, x: &Array) -> Array {
        let kept = match self.mask_of(x) {
            Some(mask) => where_(mask, x, full_like(x, f64::NEG_INFINITY)),
            None => x.clone(),
        };
        expand_dims(&logsumexp(&kept, self.axes.clone()), &self.axes)
    }

    fn log_softmax(&self, x: &Array) -> Array {
        x - self.log_sum_exp(x)
    }
}
