//! Layer, root mean square and group normalization.

use super::Number;
use super::check::{expect_features, expect_vector, promoted_dtype, wide};
use super::statistics::{Moments, NormLayerOptions, expect_mask, masked_mean, reduction_axes};
use crate::core::{Array, DType, Loc, RuleError, throw_operands};
use crate::primitives::{convert_element_type, ones, reshape, rsqrt, zeros};
use crate::tree::Tree;

/// Normalizes the features of each example to mean 0 and variance 1, then applies a trained scale
/// and bias.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(
///     |x: Array| nn::LayerNorm { epsilon: 1e-5.into(), ..nn::LayerNorm::new(768) }.forward(&x),
///     Aval::new(DType::F32, [8, 128, 768]),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[8,128,768]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Ba, Kiros, Hinton: Layer normalization (2016).
#[derive(Clone, Debug, Tree)]
pub struct LayerNorm {
    /// The scale, `[features]`.
    pub scale: Option<Array>,
    /// The bias, `[features]`.
    pub bias: Option<Array>,
    /// A constant added to the variance. 1e-6 by default.
    #[tree(static)]
    pub epsilon: Number,
}

impl LayerNorm {
    /// Creates a layer for `n_features` features in `f32`, with scale 1 and bias 0.
    #[track_caller]
    pub fn new(n_features: usize) -> LayerNorm {
        let (scale, bias) = ones_and_zeros(n_features);
        LayerNorm { scale: Some(scale), bias: Some(bias), epsilon: 1e-6.into() }
    }

    /// Creates a layer with this scale, `[features]`, and no bias.
    ///
    /// Throws `Op` (shape) unless the scale has one axis.
    #[track_caller]
    pub fn with_scale(scale: Array) -> LayerNorm {
        let [_] = scale.dims();
        LayerNorm { scale: Some(scale), bias: None, epsilon: 1e-6.into() }
    }

    /// Replaces the bias by this one, `[features]`.
    ///
    /// Throws `Op` (shape) if its size is not that of the scale.
    #[track_caller]
    pub fn with_bias(self, bias: Array) -> LayerNorm {
        if let Some(scale) = &self.scale {
            expect_vector("LayerNorm", "bias", &bias, scale.size(), scale);
        }
        LayerNorm { bias: Some(bias), ..self }
    }

    /// Removes the bias.
    pub fn without_bias(self) -> LayerNorm {
        LayerNorm { bias: None, ..self }
    }

    /// Normalizes `x`, `[…, features]`.
    ///
    /// Statistics are computed in `f32` at least. The result has the dtype that `x` and the leaves
    /// promote to.
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `features`.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        self.forward_with(x, &NormLayerOptions::default())
    }

    /// As [`forward`](Self::forward), with options.
    ///
    /// Throws as `forward` does, `Op` (shape) if the mask does not broadcast to `x`, and `Op`
    /// (value) if a reduction axis is not one of `x`.
    #[track_caller]
    pub fn forward_with(&self, x: &Array, options: &NormLayerOptions) -> Array {
        let dtype = result_dtype("LayerNorm", x, &self.scale, &self.bias);
        expect_mask("LayerNorm", x, options.mask.as_ref());
        let reduced = reduction_axes("LayerNorm", x, options, &[-1]);
        let x = convert_element_type(x, wide(dtype));
        let Moments { centred, variance, .. } =
            Moments::of(&x, options.variance, |x| masked_mean(x, &reduced, options.mask.as_ref()));
        let inverse = rsqrt(&(variance + self.epsilon.get()));
        normalized(&centred, &inverse, &self.scale, &self.bias, dtype)
    }
}

/// Divides the features of each example by their root mean square, then applies a trained scale.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(
///     |x: Array| nn::RmsNorm::new(4096).forward(&x),
///     Aval::new(DType::F32, [8, 4096]),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[8,4096]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Zhang, Sennrich: Root mean square layer normalization (2019).
#[derive(Clone, Debug, Tree)]
#[doc(alias = "RMSNorm")]
pub struct RmsNorm {
    /// The scale, `[features]`.
    pub scale: Option<Array>,
    /// A constant added to the mean square. 1e-6 by default.
    #[tree(static)]
    pub epsilon: Number,
}

impl RmsNorm {
    /// Creates a layer for `n_features` features in `f32`, with scale 1.
    #[track_caller]
    pub fn new(n_features: usize) -> RmsNorm {
        RmsNorm { scale: Some(ones_and_zeros(n_features).0), epsilon: 1e-6.into() }
    }

    /// Creates a layer with this scale, `[features]`.
    ///
    /// Throws `Op` (shape) unless the scale has one axis.
    #[track_caller]
    pub fn with_scale(scale: Array) -> RmsNorm {
        let [_] = scale.dims();
        RmsNorm { scale: Some(scale), epsilon: 1e-6.into() }
    }

    /// Normalizes `x`, `[…, features]`. Dtypes are as in [`LayerNorm::forward`].
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `features`.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        self.forward_with(x, &NormLayerOptions::default())
    }

    /// As [`forward`](Self::forward), with options.
    ///
    /// Throws as [`LayerNorm::forward_with`] does.
    #[track_caller]
    pub fn forward_with(&self, x: &Array, options: &NormLayerOptions) -> Array {
        let dtype = result_dtype("RmsNorm", x, &self.scale, &None);
        expect_mask("RmsNorm", x, options.mask.as_ref());
        let reduced = reduction_axes("RmsNorm", x, options, &[-1]);
        let x = convert_element_type(x, wide(dtype));
        let square = masked_mean(&(&x * &x), &reduced, options.mask.as_ref());
        normalized(&x, &rsqrt(&(square + self.epsilon.get())), &self.scale, &None, dtype)
    }
}

/// Normalizes groups of channels to mean 0 and variance 1 over the spatial axes, then applies a
/// trained scale and bias per channel.
///
/// With one group per channel this is instance normalization.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(
///     |x: Array| nn::GroupNorm::new(64, 32).forward(&x),
///     Aval::new(DType::F32, [8, 28, 28, 64]),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[8,28,28,64]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Wu, He: Group normalization (2018).
#[derive(Clone, Debug, Tree)]
#[doc(alias = "InstanceNorm")]
pub struct GroupNorm {
    /// The scale, `[channels]`.
    pub scale: Option<Array>,
    /// The bias, `[channels]`.
    pub bias: Option<Array>,
    /// The number of groups.
    #[tree(static)]
    pub groups: usize,
    /// A constant added to the variance. 1e-6 by default.
    #[tree(static)]
    pub epsilon: Number,
}

impl GroupNorm {
    /// Creates a layer for `n_channels` channels in `groups` groups, in `f32`, with scale 1 and
    /// bias 0.
    ///
    /// Throws `Op` (shape) if the groups do not divide the channels.
    #[track_caller]
    pub fn new(n_channels: usize, groups: usize) -> GroupNorm {
        expect_groups(n_channels, groups);
        let (scale, bias) = ones_and_zeros(n_channels);
        GroupNorm { scale: Some(scale), bias: Some(bias), groups, epsilon: 1e-6.into() }
    }

    /// Creates a layer with this scale, `[channels]`, and no bias.
    ///
    /// Throws `Op` (shape) unless the scale has one axis.
    #[track_caller]
    pub fn with_scale(scale: Array, groups: usize) -> GroupNorm {
        let [n_channels] = scale.dims();
        expect_groups(n_channels, groups);
        GroupNorm { scale: Some(scale), bias: None, groups, epsilon: 1e-6.into() }
    }

    /// Replaces the bias by this one, `[channels]`.
    ///
    /// Throws `Op` (shape) if its size is not that of the scale.
    #[track_caller]
    pub fn with_bias(self, bias: Array) -> GroupNorm {
        if let Some(scale) = &self.scale {
            expect_vector("GroupNorm", "bias", &bias, scale.size(), scale);
        }
        GroupNorm { bias: Some(bias), ..self }
    }

    /// Normalizes `x`, `[b, space…, channels]`. Dtypes are as in [`LayerNorm::forward`].
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `channels`, or `x` has no batch axis.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        self.forward_with(x, &NormLayerOptions::default())
    }

    /// As [`forward`](Self::forward), with options. A mask with one channel stands for all.
    ///
    /// Throws as `forward` does, `Op` (shape) if the mask does not broadcast to `x`, and `Op`
    /// (value) if a reduction axis is not one of `x` or the last axis is not among them.
    #[track_caller]
    pub fn forward_with(&self, x: &Array, options: &NormLayerOptions) -> Array {
        let dtype = result_dtype("GroupNorm", x, &self.scale, &self.bias);
        let Some((&n_channels, [_, ..])) = x.shape().dims().split_last() else {
            let message = format!("x {} needs axes [b, space…, channels]", x.aval());
            throw_operands("GroupNorm", RuleError::shape(message), &[x]);
        };
        expect_groups(n_channels, self.groups);
        expect_mask("GroupNorm", x, options.mask.as_ref());
        let (last, size) = (x.rank() as isize - 1, n_channels / self.groups);
        let default: Vec<isize> = (1..=last).collect();
        let mut reduced = reduction_axes("GroupNorm", x, options, &default);
        if reduced.pop() != Some(last) {
            let message = "reduction_axes must include the last axis, the channels";
            throw_operands("GroupNorm", RuleError::value(message), &[x]);
        }
        // The channels of a group.
        reduced.push(last + 1);
        let split = |x: &Array, inner: [usize; 2]| {
            reshape(x, [&x.shape().dims()[..x.rank() - 1], &inner].concat())
        };
        let mask = options.mask.as_ref().map(|mask| match mask.shape().last() {
            None => mask.clone(),
            Some(1) => split(mask, [1, 1]),
            Some(_) => split(mask, [self.groups, size]),
        });
        let grouped = split(&convert_element_type(x, wide(dtype)), [self.groups, size]);
        let Moments { centred, variance, .. } =
            Moments::of(&grouped, options.variance, |x| masked_mean(x, &reduced, mask.as_ref()));
        let unit = centred * rsqrt(&(variance + self.epsilon.get()));
        let unit = reshape(&unit, x.shape());
        scaled(&unit, &self.scale, &self.bias, dtype)
    }
}

#[track_caller]
fn expect_groups(n_channels: usize, groups: usize) {
    Loc::caller().scope(|| {
        if groups == 0 || !n_channels.is_multiple_of(groups) {
            let message = format!("{n_channels} channels are not divisible into {groups} groups");
            throw_operands("GroupNorm", RuleError::shape(message), &[]);
        }
    })
}

/// Returns the initial scale and bias: ones and zeros.
#[track_caller]
pub(super) fn ones_and_zeros(n_features: usize) -> (Array, Array) {
    (ones([n_features]), zeros([n_features]))
}

/// Returns the dtype of the result. Throws if the sizes of scale and bias do not match `x`.
#[track_caller]
pub(super) fn result_dtype(
    layer: &str,
    x: &Array,
    scale: &Option<Array>,
    bias: &Option<Array>,
) -> DType {
    let leaves = [("scale", scale), ("bias", bias)];
    let leaves: Vec<(&str, &Array)> =
        leaves.iter().filter_map(|(name, leaf)| leaf.as_ref().map(|leaf| (*name, leaf))).collect();
    for (name, leaf) in &leaves {
        let [n_features] = leaf.dims();
        expect_features(layer, x, name, leaf, n_features);
    }
    if x.rank() == 0 {
        let message = format!("x {} has no axis of features", x.aval());
        throw_operands(layer, RuleError::shape(message), &[x]);
    }
    promoted_dtype(layer, x, &leaves)
}

/// Returns `centred · (inverse · scale) + bias`, rounded to `dtype` once.
#[track_caller]
pub(super) fn normalized(
    centred: &Array,
    inverse: &Array,
    scale: &Option<Array>,
    bias: &Option<Array>,
    dtype: DType,
) -> Array {
    let factor = match scale {
        Some(scale) => {
            let scale = convert_element_type(scale, centred.dtype());
            Loc::caller().scope(|| inverse * scale)
        }
        None => inverse.clone(),
    };
    let unit = Loc::caller().scope(|| centred * factor);
    scaled(&unit, &None, bias, dtype)
}

#[track_caller]
fn scaled(y: &Array, scale: &Option<Array>, bias: &Option<Array>, dtype: DType) -> Array {
    Loc::caller().scope(|| {
        let y = match scale {
            Some(scale) => y * convert_element_type(scale, y.dtype()),
            None => y.clone(),
        };
        let y = match bias {
            Some(bias) => &y + convert_element_type(bias, y.dtype()),
            None => y,
        };
        convert_element_type(&y, dtype)
    })
}
