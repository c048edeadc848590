//! Convolutions over one to three (or more) axes, channels last, and their transposes.

use super::fits::{expect_features, promoted};
use super::init;
use crate::core::{Array, DType, RuleError, Shape, throw_operands};
use crate::primitives::{
    ConvDimensionNumbers, ConvGeneralDilated, ConvTranspose as Transposed, Padding,
    conv_general_dilated, conv_transpose, convert_element_type, reshape, zeros,
};
use crate::random::Key;
use crate::tree::Tree;

/// A convolution of `[…, space…, in]` with a kernel, channels last, over as many axes as its window has.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(
///     |key: random::Key, x: Array| {
///         let layer = nn::Conv { strides: vec![2, 2], ..nn::Conv::new(key, &[3, 3], 3, 64) };
///         layer.forward(&x)
///     },
///     (random::Key::of_type(), Aval::new(DType::F32, [8, 224, 224, 3])),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[8,112,112,64]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Dumoulin, Visin: A guide to convolution arithmetic for deep learning (2016).
#[derive(Clone, Debug, Tree)]
pub struct Conv {
    /// The kernel, `[window…, in / groups, out]`.
    pub weight: Array,
    /// The offset, `[out]`.
    pub bias: Option<Array>,
    /// Steps from one place of the window to the next, for each axis; empty for ones.
    #[tree(static)]
    pub strides: Vec<usize>,
    /// What surrounds `x`; `Same` at first.
    #[tree(static)]
    pub padding: Padding,
    /// Steps from one element of the window to the next, for each axis; empty for ones.
    #[tree(static)]
    pub dilation: Vec<usize>,
    /// Into so many groups the channels fall; an output sees the inputs of its own group only.
    #[tree(static)]
    pub groups: usize,
}

impl Conv {
    /// A layer from `n_in` to `n_out` channels in `f32`, its kernel drawn by [`init::lecun_normal`], its bias
    /// zero.
    #[track_caller]
    pub fn new(key: Key, window: &[usize], n_in: usize, n_out: usize) -> Conv {
        Conv::grouped(key, window, n_in, n_out, 1)
    }

    /// The same in so many groups; with `n_in` of them the convolution goes channel by channel (depthwise).
    ///
    /// Throws `Op` (shape) if the groups do not divide both numbers of channels.
    #[track_caller]
    pub fn grouped(key: Key, window: &[usize], n_in: usize, n_out: usize, groups: usize) -> Conv {
        if groups == 0 || !n_in.is_multiple_of(groups) || !n_out.is_multiple_of(groups) {
            let message = format!(
                "{n_in} input and {n_out} output channels are not divisible into {groups} groups"
            );
            throw_operands("Conv", RuleError::shape(message), &[]);
        }
        let shape: Vec<usize> = window.iter().copied().chain([n_in / groups, n_out]).collect();
        Conv { groups, ..Conv::with_weight(init::lecun_normal(key, shape, DType::F32)) }
    }

    /// A layer with this kernel, `[window…, in, out]`, and a zero bias of its dtype.
    ///
    /// Throws `Op` (shape) if the kernel has no axis of a window.
    #[track_caller]
    pub fn with_weight(weight: Array) -> Conv {
        let bias = Some(bias_of("Conv", &weight));
        let (strides, dilation) = (Vec::new(), Vec::new());
        Conv { weight, bias, strides, padding: Padding::Same, dilation, groups: 1 }
    }

    /// The same layer without a bias.
    pub fn without_bias(self) -> Conv {
        Conv { bias: None, ..self }
    }

    /// From `[…, space…, in]` to `[…, space…, out]`; in front of space may stand any number of axes.
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `in`, or the window does not fit.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let n = expect_space("Conv", x, &self.weight);
        let n_in = self.weight.shape()[n] * self.groups;
        expect_features("Conv", x, "weight", &self.weight, n_in);
        expect_entries("Conv", "strides", &self.strides, n);
        expect_entries("Conv", "dilation", &self.dilation, n);
        let last = n + 1;
        let spec = |outer: [usize; 2], first: usize| -> Vec<usize> {
            outer.into_iter().chain(first..first + n).collect()
        };
        let how = ConvGeneralDilated {
            window_strides: self.strides.clone(),
            padding: self.padding.clone(),
            rhs_dilation: self.dilation.clone(),
            dimension_numbers: ConvDimensionNumbers {
                lhs_spec: spec([0, last], 1),
                rhs_spec: spec([last, n], 0),
                out_spec: spec([0, last], 1),
            },
            feature_group_count: self.groups,
            ..ConvGeneralDilated::default()
        };
        by_examples("Conv", x, &self.weight, &self.bias, |x, weight| {
            conv_general_dilated(x, weight, how.clone())
        })
    }
}

/// A convolution with fractional strides, which enlarges the spatial axes of `[…, space…, in]`.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(
///     |key: random::Key, x: Array| {
///         let layer = nn::ConvTranspose::new(key, &[4, 4], 32, 16);
///         nn::ConvTranspose { strides: vec![2, 2], ..layer }.forward(&x)
///     },
///     (random::Key::of_type(), Aval::new(DType::F32, [8, 7, 7, 32])),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[8,14,14,16]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Dumoulin, Visin: A guide to convolution arithmetic for deep learning (2016), section 4.
#[derive(Clone, Debug, Tree)]
pub struct ConvTranspose {
    /// The kernel, `[window…, in, out]`; with `transpose_kernel` `[window…, out, in]`.
    pub weight: Array,
    /// The offset, `[out]`.
    pub bias: Option<Array>,
    /// By how much each axis grows; empty for ones.
    #[tree(static)]
    pub strides: Vec<usize>,
    /// The padding of the convolution that is undone; `Same` at first.
    #[tree(static)]
    pub padding: Padding,
    /// Steps from one element of the window to the next, for each axis; empty for ones.
    #[tree(static)]
    pub dilation: Vec<usize>,
    /// Whether the kernel is that of the convolution that is undone, turned round when it is used.
    #[tree(static)]
    pub transpose_kernel: bool,
}

impl ConvTranspose {
    /// A layer from `n_in` to `n_out` channels in `f32`, its kernel drawn by [`init::lecun_normal`], its bias
    /// zero.
    #[track_caller]
    pub fn new(key: Key, window: &[usize], n_in: usize, n_out: usize) -> ConvTranspose {
        let shape: Vec<usize> = window.iter().copied().chain([n_in, n_out]).collect();
        ConvTranspose::with_weight(init::lecun_normal(key, shape, DType::F32))
    }

    /// A layer with this kernel, `[window…, in, out]`, and a zero bias of its dtype.
    ///
    /// Throws `Op` (shape) if the kernel has no axis of a window.
    #[track_caller]
    pub fn with_weight(weight: Array) -> ConvTranspose {
        let bias = Some(bias_of("ConvTranspose", &weight));
        let (strides, dilation) = (Vec::new(), Vec::new());
        let padding = Padding::Same;
        ConvTranspose { weight, bias, strides, padding, dilation, transpose_kernel: false }
    }

    /// The same layer without a bias.
    pub fn without_bias(self) -> ConvTranspose {
        ConvTranspose { bias: None, ..self }
    }

    /// From `[…, space…, in]` to `[…, larger space…, out]`; in front of space may stand any number of axes.
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `in`.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        let n = expect_space("ConvTranspose", x, &self.weight);
        let n_in = self.weight.shape()[if self.transpose_kernel { n + 1 } else { n }];
        expect_features("ConvTranspose", x, "weight", &self.weight, n_in);
        expect_entries("ConvTranspose", "strides", &self.strides, n);
        expect_entries("ConvTranspose", "dilation", &self.dilation, n);
        let how = Transposed {
            strides: self.strides.clone(),
            padding: self.padding.clone(),
            rhs_dilation: self.dilation.clone(),
            transpose_kernel: self.transpose_kernel,
            ..Transposed::default()
        };
        by_examples("ConvTranspose", x, &self.weight, &self.bias, |x, weight| {
            conv_transpose(x, weight, &how)
        })
    }
}

/// Zeros for the outputs of a kernel.
#[track_caller]
fn bias_of(layer: &str, weight: &Array) -> Array {
    let [_, .., _, n_out] = *weight.shape().dims() else {
        let message = format!("`weight` needs axes [window…, in, out], got {}", weight.aval());
        throw_operands(layer, RuleError::shape(message), &[weight]);
    };
    zeros(Shape::new(&[n_out]), weight.dtype())
}

/// The number of spatial axes, which `x` must have beside its channels.
#[track_caller]
fn expect_space(layer: &str, x: &Array, weight: &Array) -> usize {
    let n = weight.rank().saturating_sub(2);
    if n == 0 || x.rank() < n + 1 {
        let message = format!(
            "x {} needs axes […, {n} of space, channels] for `weight` {}",
            x.aval(),
            weight.aval()
        );
        throw_operands(layer, RuleError::shape(message), &[x, weight]);
    }
    n
}

#[track_caller]
fn expect_entries(layer: &str, name: &str, list: &[usize], n: usize) {
    if !list.is_empty() && list.len() != n {
        let message = format!("{name} {list:?} has {} entries, the window {n} axes", list.len());
        throw_operands(layer, RuleError::shape(message), &[]);
    }
}

/// What `convolve` makes of `[b, space…, in]`, with the bias, for any number of axes in place of `b`.
#[track_caller]
fn by_examples(
    layer: &str,
    x: &Array,
    weight: &Array,
    bias: &Option<Array>,
    convolve: impl FnOnce(&Array, &Array) -> Array,
) -> Array {
    let mut leaves = vec![("weight", weight)];
    leaves.extend(bias.iter().map(|bias| ("bias", bias)));
    let dtype = promoted(layer, x, &leaves);
    let n_outer = x.rank() + 1 - weight.rank();
    let (outer, inner) = x.shape().dims().split_at(n_outer);
    let examples: usize = outer.iter().product();
    let flat = [&[examples], inner].concat();
    let x = reshape(&convert_element_type(x, dtype), flat);
    let y = convolve(&x, &convert_element_type(weight, dtype));
    let y = match bias {
        Some(bias) => y + convert_element_type(bias, dtype),
        None => y,
    };
    let dims = [outer, &y.shape().dims()[1..]].concat();
    reshape(&y, dims)
}
