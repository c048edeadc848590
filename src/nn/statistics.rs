//! Statistics of normalization layers: masks, axes and the formula of the variance.

use crate::core::{Array, Loc, RuleError, throw_operands};
use crate::ops::axes;
use crate::primitives::maximum;

/// The formula by which a layer computes a variance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[doc(alias = "use_fast_variance")]
pub enum VarianceFormula {
    /// The mean of the squared differences from the mean, in two passes. It does not cancel.
    #[default]
    TwoPass,
    /// The mean of the squares minus the squared mean, at least 0. Both means take one pass, but
    /// the difference cancels if the mean is large compared with the standard deviation. The
    /// default of Flax.
    Fast,
}

/// Options of `forward_with` of [`LayerNorm`](super::LayerNorm), [`RmsNorm`](super::RmsNorm) and
/// [`GroupNorm`](super::GroupNorm).
///
/// ```
/// use oxidax::prelude::*;
/// // The statistics of a padded batch leave the padding out.
/// let x = array![[1f32, 3.0, 100.0]];
/// let options = nn::NormLayerOptions {
///     mask: Some(array![[true, true, false]]),
///     ..nn::NormLayerOptions::default()
/// };
/// let layer = nn::LayerNorm { epsilon: 0.0.into(), ..nn::LayerNorm::new(3) };
/// assert_eq!(layer.forward_with(&x, &options).to_vec::<f32>()?, [-1.0, 1.0, 98.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct NormLayerOptions {
    /// The elements that the statistics are computed from, as `bool` that broadcasts to `x`. All
    /// by default. Elements without it are normalized too.
    pub mask: Option<Array>,
    /// The axes that the statistics are computed over. By default the last one for `LayerNorm` and
    /// `RmsNorm`, and all but the first for `GroupNorm`, which needs the last among them.
    pub reduction_axes: Option<Vec<isize>>,
    /// The formula of the variance. `RmsNorm` does not subtract a mean and ignores it.
    pub variance: VarianceFormula,
}

/// Options of [`BatchNorm::forward_train_with`](super::BatchNorm::forward_train_with).
#[derive(Clone, Debug, Default)]
pub struct BatchNormOptions {
    /// The elements that the statistics are computed from, as `bool` that broadcasts to `x`. All
    /// by default.
    pub mask: Option<Array>,
    /// The formula of the variance.
    pub variance: VarianceFormula,
}

/// The first two moments of an array.
pub(super) struct Moments {
    pub(super) mean: Array,
    /// The elements minus their mean.
    pub(super) centred: Array,
    pub(super) variance: Array,
}

impl Moments {
    /// Computes both moments with a mean over some axes, whose result broadcasts to `x`.
    #[track_caller]
    pub(super) fn of(
        x: &Array,
        formula: VarianceFormula,
        mean_of: impl Fn(&Array) -> Array,
    ) -> Moments {
        Loc::caller().scope(|| {
            let mean = mean_of(x);
            let centred = x - &mean;
            let variance = match formula {
                VarianceFormula::TwoPass => mean_of(&(&centred * &centred)),
                VarianceFormula::Fast => maximum(&(mean_of(&(x * x)) - &mean * &mean), 0.0),
            };
            Moments { mean, centred, variance }
        })
    }
}

/// Returns the mean over some axes, which stay with size 1, of the elements that `mask` selects.
#[track_caller]
pub(super) fn masked_mean(x: &Array, reduced: &[isize], mask: Option<&Array>) -> Array {
    let over = axes(reduced.to_vec()).keepdims();
    match mask {
        Some(mask) => x.mean_axes(over.where_(mask)),
        None => x.mean_axes(over),
    }
}

/// Throws unless `mask` broadcasts to `x`.
#[track_caller]
pub(super) fn expect_mask(layer: &str, x: &Array, mask: Option<&Array>) {
    let Some(mask) = mask else { return };
    let (dims, sizes) = (x.shape().dims(), mask.shape().dims());
    let pairs = dims.iter().rev().zip(sizes.iter().rev());
    if sizes.len() > dims.len() || pairs.clone().any(|(n, size)| *size != 1 && size != n) {
        let message = format!("mask {} does not broadcast to x {}", mask.aval(), x.aval());
        throw_operands(layer, RuleError::shape(message), &[x, mask]);
    }
}

/// Returns the axes that are reduced, from 0, sorted. Throws for an axis that `x` does not have.
#[track_caller]
pub(super) fn reduction_axes(
    layer: &str,
    x: &Array,
    options: &NormLayerOptions,
    default: &[isize],
) -> Vec<isize> {
    let rank = x.rank() as isize;
    let list = options.reduction_axes.as_deref().unwrap_or(default);
    let mut positive: Vec<isize> =
        list.iter().map(|&axis| if axis < 0 { axis + rank } else { axis }).collect();
    positive.sort_unstable();
    positive.dedup();
    let is_outside = |axis: &isize| !(0..rank).contains(axis);
    if positive.len() != list.len() || positive.is_empty() || positive.iter().any(is_outside) {
        let message = format!("reduction_axes {list:?} must be distinct axes of x {}", x.aval());
        throw_operands(layer, RuleError::value(message), &[x]);
    }
    positive
}
