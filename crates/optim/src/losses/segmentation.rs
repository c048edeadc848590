//! Losses of overlapping regions.

use crate::check::{expect_same_shape, last_size};
use oxidax::prelude::*;

/// The values that [`dice_loss_with`] takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "apply_softmax")]
pub enum Predictions {
    /// Logits. One class has a sigmoid, several have a softmax over the last axis.
    #[default]
    Logits,
    /// Probabilities.
    Probabilities,
}

/// The reduction over classes of [`dice_loss_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiceReduction {
    /// The mean.
    #[default]
    Mean,
    /// The sum.
    Sum,
    /// One number per class.
    None,
}

/// The treatment of class 0 by [`dice_loss_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "ignore_background")]
pub enum Background {
    /// It counts as the other classes.
    #[default]
    Counts,
    /// It does not count if there are other classes.
    Ignored,
}

/// Options of [`dice_loss_with`].
#[derive(Clone, Debug)]
pub struct DiceOptions {
    /// A factor of the loss of each class: `float[c]`. None by default.
    pub class_weights: Option<Array>,
    /// A constant added to numerator and denominator. 1 by default.
    pub smooth: f64,
    /// The weight of false positives. 0.5 by default.
    pub alpha: f64,
    /// The weight of false negatives. 0.5 by default.
    pub beta: f64,
    /// The values that are given.
    pub predictions: Predictions,
    /// The reduction over classes.
    pub reduction: DiceReduction,
    /// The treatment of class 0.
    pub background: Background,
    /// The axes of positions. All but the first and the last by default.
    pub axes: Option<Vec<isize>>,
}

impl Default for DiceOptions {
    fn default() -> DiceOptions {
        DiceOptions {
            class_weights: None,
            smooth: 1.0,
            alpha: 0.5,
            beta: 0.5,
            predictions: Predictions::Logits,
            reduction: DiceReduction::Mean,
            background: Background::Counts,
            axes: None,
        }
    }
}

/// Returns one minus the Dice coefficient of predicted and true regions, the mean over classes: one
/// number per example.
///
/// `predictions` and `targets` are `float[b, …, c]`.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::losses::dice_loss;
/// let targets = one_hot(array![[0i32, 1, 1]], 2);
/// let loss = dice_loss(&(&targets * 20.0), &targets);
/// assert!(loss.max().item::<f32>()? < 1e-3);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Throws `Op` (shape) if the shapes differ.
///
/// # Reference
/// Milletari, Navab, Ahmadi: V-Net (2016), equation 2. Salehi, Erdogmus, Gholipour: Tversky loss
/// function for image segmentation (2017), equation 3, for `alpha` and `beta`.
#[track_caller]
pub fn dice_loss(predictions: &Array, targets: &Array) -> Array {
    dice_loss_with(predictions, targets, &DiceOptions::default())
}

/// Returns one minus the Dice coefficient, with options.
///
/// Throws `Op` (shape) if the shapes differ.
#[track_caller]
pub fn dice_loss_with(predictions: &Array, targets: &Array, options: &DiceOptions) -> Array {
    expect_same_shape("dice_loss", predictions, targets);
    let n_classes = last_size("dice_loss", predictions);
    let probabilities = match options.predictions {
        Predictions::Probabilities => predictions.clone(),
        Predictions::Logits if n_classes == 1 => sigmoid(predictions),
        Predictions::Logits => softmax(predictions, -1),
    };
    let axes = match &options.axes {
        Some(axes) => axes.clone(),
        None => (1..predictions.rank() as isize - 1).collect(),
    };
    let common = reduce_sum(&(&probabilities * targets), &axes);
    let predicted = reduce_sum(&probabilities, &axes);
    let wanted = reduce_sum(targets, &axes);
    let denominator = &common
        + (predicted - &common) * options.alpha
        + (wanted - &common) * options.beta
        + options.smooth;
    let mut loss = 1.0 - (&common + options.smooth) / denominator;
    if let Some(weights) = &options.class_weights {
        loss *= weights;
    }
    if options.background == Background::Ignored && n_classes > 1 {
        loss = slice_in_dim(&loss, 1, n_classes as isize, 1, -1);
    }
    match options.reduction {
        DiceReduction::Mean => loss.mean_axes(-1),
        DiceReduction::Sum => reduce_sum(&loss, &[-1]),
        DiceReduction::None => loss,
    }
}

/// Returns the mean Dice loss with classes weighted by the inverse of their squared frequencies: a
/// scalar.
///
/// Throws `Op` (shape) if the shapes differ.
///
/// # Reference
/// Sudre et al.: Generalised Dice overlap as a deep learning loss function for highly unbalanced
/// segmentations (2017).
#[track_caller]
pub fn multiclass_generalized_dice_loss(predictions: &Array, targets: &Array) -> Array {
    let positions: Vec<isize> = (0..targets.rank() as isize - 1).collect();
    let frequencies = reduce_sum(targets, &positions);
    let weights = 1.0 / (frequencies.square() + 1e-7);
    let weights = &weights / weights.sum() * weights.size() as f64;
    let options = DiceOptions {
        class_weights: Some(weights),
        reduction: DiceReduction::None,
        ..DiceOptions::default()
    };
    dice_loss_with(predictions, targets, &options).mean()
}

/// Returns the Dice loss of one class: one number per example.
///
/// `predictions` are logits. They and `targets` are `float[b, …]`, with or without a last axis of
/// size 1.
///
/// Throws `Op` (shape) if the shapes differ.
#[track_caller]
pub fn binary_dice_loss(predictions: &Array, targets: &Array) -> Array {
    let with_class = |x: &Array| match x.shape().last() {
        Some(1) => x.clone(),
        _ => expand_dims(x, &[-1]),
    };
    dice_loss(&with_class(predictions), &with_class(targets))
}
