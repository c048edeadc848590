//! Normalization of an example by itself: layer, root mean square, group.

use super::Number;
use super::fits::{expect_features, promoted, wide};
use crate::core::{Array, DType, RuleError, throw_operands};
use crate::ops::axes;
use crate::primitives::{convert_element_type, ones, reshape, rsqrt, zeros};
use crate::tree::Tree;

/// Each example's features shifted to mean 0 and scaled to variance 1, then by a trained scale and offset.
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
    /// The offset, `[features]`.
    pub bias: Option<Array>,
    /// Added to the variance; 1e-6 at first.
    #[tree(static)]
    pub epsilon: Number,
}

impl LayerNorm {
    /// A layer for so many features in `f32`: scale one, offset zero.
    #[track_caller]
    pub fn new(n_features: usize) -> LayerNorm {
        let (scale, bias) = affine(n_features);
        LayerNorm { scale: Some(scale), bias: Some(bias), epsilon: 1e-6.into() }
    }

    /// The same layer without an offset.
    pub fn without_bias(self) -> LayerNorm {
        LayerNorm { bias: None, ..self }
    }

    /// The normalized `x`, `[…, features]`, in the dtype that it and the leaves promote to; statistics are
    /// computed in `f32` at least.
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `features`.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let dtype = checked("LayerNorm", x, &self.scale, &self.bias);
        let x = convert_element_type(x, wide(dtype));
        let centred = &x - x.mean_axes(axes(-1).keepdims());
        let variance = (&centred * &centred).mean_axes(axes(-1).keepdims());
        let inverse = rsqrt(&(variance + self.epsilon.get()));
        finished(&centred, &inverse, &self.scale, &self.bias, dtype)
    }
}

/// Each example's features divided by the root of their mean square, then scaled by a trained scale.
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
    /// Added to the mean square; 1e-6 at first.
    #[tree(static)]
    pub epsilon: Number,
}

impl RmsNorm {
    /// A layer for so many features in `f32`: scale one.
    #[track_caller]
    pub fn new(n_features: usize) -> RmsNorm {
        RmsNorm { scale: Some(affine(n_features).0), epsilon: 1e-6.into() }
    }

    /// The scaled `x`, `[…, features]`; dtypes as in [`LayerNorm::forward`].
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `features`.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let dtype = checked("RmsNorm", x, &self.scale, &None);
        let x = convert_element_type(x, wide(dtype));
        let square = (&x * &x).mean_axes(axes(-1).keepdims());
        finished(&x, &rsqrt(&(square + self.epsilon.get())), &self.scale, &None, dtype)
    }
}

/// Groups of channels, each over all of space, shifted to mean 0 and scaled to variance 1, then by a trained
/// scale and offset per channel.
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
    /// The offset, `[channels]`.
    pub bias: Option<Array>,
    /// How many groups there are.
    #[tree(static)]
    pub groups: usize,
    /// Added to the variance; 1e-6 at first.
    #[tree(static)]
    pub epsilon: Number,
}

impl GroupNorm {
    /// A layer for so many channels in `groups` groups, in `f32`: scale one, offset zero.
    ///
    /// Throws `Op` (shape) if the groups do not divide the channels.
    #[track_caller]
    pub fn new(n_channels: usize, groups: usize) -> GroupNorm {
        expect_groups(n_channels, groups);
        let (scale, bias) = affine(n_channels);
        GroupNorm { scale: Some(scale), bias: Some(bias), groups, epsilon: 1e-6.into() }
    }

    /// The normalized `x`, `[b, space…, channels]`; dtypes as in [`LayerNorm::forward`].
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `channels`, or `x` has no batch axis.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let dtype = checked("GroupNorm", x, &self.scale, &self.bias);
        let Some((&n_channels, [_, ..])) = x.shape().dims().split_last() else {
            let message = format!("x {} needs axes [b, space…, channels]", x.aval());
            throw_operands("GroupNorm", RuleError::shape(message), &[x]);
        };
        expect_groups(n_channels, self.groups);
        let mut dims = x.shape().dims().to_vec();
        dims.pop();
        dims.extend([self.groups, n_channels / self.groups]);
        // Space and the channels of a group.
        let mut within: Vec<isize> = (1..x.rank() as isize - 1).collect();
        within.push(x.rank() as isize);
        let grouped = reshape(&convert_element_type(x, wide(dtype)), dims);
        let centred = &grouped - grouped.mean_axes(axes(within.clone()).keepdims());
        let variance = (&centred * &centred).mean_axes(axes(within).keepdims());
        let unit = centred * rsqrt(&(variance + self.epsilon.get()));
        let unit = reshape(&unit, x.shape());
        scaled(&unit, &self.scale, &self.bias, dtype)
    }
}

#[track_caller]
fn expect_groups(n_channels: usize, groups: usize) {
    if groups == 0 || !n_channels.is_multiple_of(groups) {
        let message = format!("{n_channels} channels are not divisible into {groups} groups");
        throw_operands("GroupNorm", RuleError::shape(message), &[]);
    }
}

/// Ones and zeros.
#[track_caller]
pub(super) fn affine(n_features: usize) -> (Array, Array) {
    (ones([n_features], DType::F32), zeros([n_features], DType::F32))
}

/// The dtype of the result, after scale and offset were found to fit.
#[track_caller]
pub(super) fn checked(
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
    promoted(layer, x, &leaves)
}

/// `centred · (inverse · scale) + bias`, rounded once.
#[track_caller]
pub(super) fn finished(
    centred: &Array,
    inverse: &Array,
    scale: &Option<Array>,
    bias: &Option<Array>,
    dtype: DType,
) -> Array {
    let factor = match scale {
        Some(scale) => inverse * convert_element_type(scale, centred.dtype()),
        None => inverse.clone(),
    };
    scaled(&(centred * factor), &None, bias, dtype)
}

#[track_caller]
fn scaled(y: &Array, scale: &Option<Array>, bias: &Option<Array>, dtype: DType) -> Array {
    let y = match scale {
        Some(scale) => y * convert_element_type(scale, y.dtype()),
        None => y.clone(),
    };
    let y = match bias {
        Some(bias) => &y + convert_element_type(bias, y.dtype()),
        None => y,
    };
    convert_element_type(&y, dtype)
}
