//! Convolutions and transposed convolutions, channels last.

use super::check::{expect_features, expect_vector, promoted_dtype};
use super::init;
use crate::core::{Array, Loc, RuleError, Scalar, Shape, throw_operands};
use crate::ops::{PadMode, PadOptions, pad_with};
use crate::primitives::{
    ConvDimensionNumbers, ConvGeneralDilated, ConvTransposeOptions, Padding, conv_general_dilated,
    conv_transpose, convert_element_type, reshape, zeros,
};
use crate::random::Key;
use crate::tree::Tree;

/// The values around the spatial axes that a [`Conv`] reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PaddingMode {
    /// Zeros, as many as the layer's `padding` states.
    #[default]
    Zeros,
    /// The elements from the opposite end, so that the axis has no ends.
    #[doc(alias = "CIRCULAR")]
    Circular,
    /// A mirror image that does not repeat the element at the end.
    #[doc(alias = "REFLECT")]
    Reflect,
    /// Zeros before the axis only, so that an output does not depend on later inputs. For one
    /// spatial axis.
    #[doc(alias = "CAUSAL")]
    Causal,
}

/// A convolution of `[…, space…, in]`, channels last, over as many spatial axes as its window has.
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
    /// The bias, `[out]`.
    pub bias: Option<Array>,
    /// The strides of the window along each axis. Empty means 1.
    #[tree(static)]
    pub strides: Vec<usize>,
    /// The padding of `x`. `Same` by default. Modes other than `Zeros` ignore it.
    #[tree(static)]
    pub padding: Padding,
    /// The values of the padding. `Zeros` by default. The other modes pad as `Same` does for
    /// strides of 1: `k - 1` elements for a window of size `k` with its dilation, half of them,
    /// rounded down, before the axis; `Causal` all of them.
    #[tree(static)]
    pub padding_mode: PaddingMode,
    /// The dilation of the kernel along each axis. Empty means 1.
    #[tree(static)]
    pub dilation: Vec<usize>,
    /// The dilation of the input along each axis: `n - 1` zeros between its elements. Empty means
    /// 1. `Same` pads the input with these zeros. Flax takes numbers for the padding only.
    #[tree(static)]
    pub input_dilation: Vec<usize>,
    /// The number of channel groups. An output depends on the inputs of its group only.
    #[tree(static)]
    pub groups: usize,
}

impl Conv {
    /// Creates a layer from `n_in` to `n_out` channels in `f32`, with a kernel drawn by
    /// [`init::lecun_normal`] and a zero bias.
    #[track_caller]
    pub fn new(key: Key, window: &[usize], n_in: usize, n_out: usize) -> Conv {
        Conv::grouped(key, window, n_in, n_out, 1)
    }

    /// Creates a layer with groups of channels. `n_in` groups make a depthwise convolution.
    ///
    /// Throws `Op` (shape) if the groups do not divide both numbers of channels.
    #[track_caller]
    pub fn grouped(key: Key, window: &[usize], n_in: usize, n_out: usize, groups: usize) -> Conv {
        Loc::caller().scope(|| {
        if groups == 0 || !n_in.is_multiple_of(groups) || !n_out.is_multiple_of(groups) {
            let message = format!(
                "{n_in} input and {n_out} output channels are not divisible into {groups} groups"
            );
            throw_operands("Conv", RuleError::shape(message), &[]);
        }
        let shape: Vec<usize> = window.iter().copied().chain([n_in / groups, n_out]).collect();
        Conv { groups, ..Conv::with_weight(init::lecun_normal(key, shape)) }
    })
    }

    /// Creates a layer with this kernel, `[window…, in, out]`, and a zero bias of its dtype.
    ///
    /// Throws `Op` (shape) if the kernel does not have a window axis.
    #[track_caller]
    pub fn with_weight(weight: Array) -> Conv {
        let bias = Some(zero_bias("Conv", &weight));
        Conv {
            weight,
            bias,
            strides: Vec::new(),
            padding: Padding::Same,
            padding_mode: PaddingMode::Zeros,
            dilation: Vec::new(),
            input_dilation: Vec::new(),
            groups: 1,
        }
    }

    /// Replaces the bias by this one, `[out]`.
    ///
    /// Throws `Op` (shape) if its size does not fit the kernel.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let kernel = ones([3, 3, 1, 2]) / 9.0;
    /// let blur = nn::Conv::with_weight(kernel).with_bias(array![0.0, 1.0]);
    /// assert_eq!(blur.forward(&ones([1, 8, 8, 1])).shape().dims(), [1, 8, 8, 2]);
    /// ```
    #[track_caller]
    pub fn with_bias(self, bias: Array) -> Conv {
        let n_out = self.weight.shape()[self.weight.rank() - 1];
        expect_vector("Conv", "bias", &bias, n_out, &self.weight);
        Conv { bias: Some(bias), ..self }
    }

    /// Removes the bias.
    pub fn without_bias(self) -> Conv {
        Conv { bias: None, ..self }
    }

    /// Applies the convolution, `[…, space…, in] → […, space…, out]`, with any number of batch
    /// axes.
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `in`, the window is too large, an axis is
    /// too short for a mirror image, or `Causal` has several spatial axes.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// // The sum of an element and its neighbours on a ring.
    /// let layer = nn::Conv {
    ///     padding_mode: nn::PaddingMode::Circular,
    ///     ..nn::Conv::with_weight(ones([3, 1, 1]))
    /// };
    /// let x = array![1f32, 2.0, 4.0, 8.0].reshape([1, 4, 1]);
    /// assert_eq!(layer.forward(&x).to_vec::<f32>()?, [11.0, 7.0, 14.0, 13.0]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        self.convolve(x, &self.weight)
    }

    /// Applies the convolution with the kernel times `mask`, of its shape: where the mask is zero,
    /// an output does not depend on the input.
    ///
    /// Throws as [`forward`](Self::forward) does, and `Op` (shape) if the shape of the mask is not
    /// that of the kernel.
    #[doc(alias = "mask")]
    #[track_caller]
    pub fn forward_masked(&self, x: &Array, mask: &Array) -> Array {
        self.convolve(x, &masked_kernel("Conv", &self.weight, mask))
    }

    #[track_caller]
    fn convolve(&self, x: &Array, weight: &Array) -> Array {
        let n = expect_space("Conv", x, weight);
        let n_in = weight.shape()[n] * self.groups;
        expect_features("Conv", x, "weight", weight, n_in);
        expect_entries("Conv", "strides", &self.strides, n);
        expect_entries("Conv", "dilation", &self.dilation, n);
        expect_entries("Conv", "input_dilation", &self.input_dilation, n);
        let last = n + 1;
        let spec = |outer: [usize; 2], first: usize| -> Vec<usize> {
            outer.into_iter().chain(first..first + n).collect()
        };
        let is_padded = self.padding_mode != PaddingMode::Zeros;
        let options = ConvGeneralDilated {
            window_strides: self.strides.clone(),
            padding: if is_padded { Padding::Valid } else { self.padding.clone() },
            lhs_dilation: self.input_dilation.clone(),
            rhs_dilation: self.dilation.clone(),
            dimension_numbers: ConvDimensionNumbers {
                lhs_spec: spec([0, last], 1),
                rhs_spec: spec([last, n], 0),
                out_spec: spec([0, last], 1),
            },
            feature_group_count: self.groups,
            ..ConvGeneralDilated::default()
        };
        let x = &Loc::caller().scope(|| self.padded(x, n));
        flatten_batch("Conv", x, weight, &self.bias, |x, weight| {
            conv_general_dilated(x, weight, options.clone())
        })
    }

    /// Returns `x` with the values around its `n` spatial axes.
    #[track_caller]
    fn padded(&self, x: &Array, n: usize) -> Array {
        let mode = match self.padding_mode {
            PaddingMode::Zeros => return x.clone(),
            PaddingMode::Circular => PadMode::Wrap,
            PaddingMode::Reflect => PadMode::Reflect,
            PaddingMode::Causal => PadMode::Constant(Scalar::Int(0)),
        };
        let is_causal = self.padding_mode == PaddingMode::Causal;
        if is_causal && n != 1 {
            let message = format!("`Causal` needs one spatial axis, the window has {n}");
            throw_operands("Conv", RuleError::shape(message), &[x, &self.weight]);
        }
        let mut widths = vec![(0, 0); x.rank()];
        for axis in 0..n {
            let dilation = self.dilation.get(axis).copied().unwrap_or(1);
            let size = self.weight.shape()[axis].saturating_sub(1).checked_mul(dilation);
            let at = x.rank() - 1 - n + axis;
            let size = size.filter(|&size| size <= 2 * x.shape()[at] || is_causal);
            let Some(size) = size else {
                let message = format!(
                    "the window {:?} with dilation {:?} is too large for {:?} padding",
                    &self.weight.shape()[..n],
                    self.dilation,
                    self.padding_mode
                );
                throw_operands("Conv", RuleError::shape(message), &[x, &self.weight]);
            };
            widths[at] = if is_causal { (size, 0) } else { (size / 2, size - size / 2) };
        }
        pad_with(x, widths, PadOptions { mode })
    }
}

/// A transposed convolution, which enlarges the spatial axes of `[…, space…, in]`.
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
    /// The kernel, `[window…, in, out]`, or `[window…, out, in]` with `transpose_kernel`.
    pub weight: Array,
    /// The bias, `[out]`.
    pub bias: Option<Array>,
    /// The factor by which each axis grows. Empty means 1.
    #[tree(static)]
    pub strides: Vec<usize>,
    /// The padding of the convolution that is transposed. `Same` by default.
    #[tree(static)]
    pub padding: Padding,
    /// The dilation of the kernel along each axis. Empty means 1.
    #[tree(static)]
    pub dilation: Vec<usize>,
    /// Takes the kernel of the convolution that is transposed, and flips it.
    #[tree(static)]
    pub transpose_kernel: bool,
}

impl ConvTranspose {
    /// Creates a layer from `n_in` to `n_out` channels in `f32`, with a kernel drawn by
    /// [`init::lecun_normal`] and a zero bias.
    #[track_caller]
    pub fn new(key: Key, window: &[usize], n_in: usize, n_out: usize) -> ConvTranspose {
        let shape: Vec<usize> = window.iter().copied().chain([n_in, n_out]).collect();
        ConvTranspose::with_weight(init::lecun_normal(key, shape))
    }

    /// Creates a layer with this kernel, `[window…, in, out]`, and a zero bias of its dtype.
    ///
    /// Throws `Op` (shape) if the kernel does not have a window axis.
    #[track_caller]
    pub fn with_weight(weight: Array) -> ConvTranspose {
        let bias = Some(zero_bias("ConvTranspose", &weight));
        let (strides, dilation) = (Vec::new(), Vec::new());
        let padding = Padding::Same;
        ConvTranspose { weight, bias, strides, padding, dilation, transpose_kernel: false }
    }

    /// Replaces the bias by this one, `[out]`.
    ///
    /// Throws `Op` (shape) if its size does not fit the kernel.
    #[track_caller]
    pub fn with_bias(self, bias: Array) -> ConvTranspose {
        let n_out =
            self.weight.shape()[self.weight.rank() - if self.transpose_kernel { 2 } else { 1 }];
        expect_vector("ConvTranspose", "bias", &bias, n_out, &self.weight);
        ConvTranspose { bias: Some(bias), ..self }
    }

    /// Removes the bias.
    pub fn without_bias(self) -> ConvTranspose {
        ConvTranspose { bias: None, ..self }
    }

    /// Applies the transposed convolution, `[…, space…, in] → […, larger space…, out]`, with any
    /// number of batch axes.
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `in`.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        self.convolve(x, &self.weight)
    }

    /// Applies the transposed convolution with the kernel times `mask`, of its shape.
    ///
    /// Throws as [`forward`](Self::forward) does, and `Op` (shape) if the shape of the mask is not
    /// that of the kernel.
    #[doc(alias = "mask")]
    #[track_caller]
    pub fn forward_masked(&self, x: &Array, mask: &Array) -> Array {
        self.convolve(x, &masked_kernel("ConvTranspose", &self.weight, mask))
    }

    #[track_caller]
    fn convolve(&self, x: &Array, weight: &Array) -> Array {
        let n = expect_space("ConvTranspose", x, weight);
        let n_in = weight.shape()[if self.transpose_kernel { n + 1 } else { n }];
        expect_features("ConvTranspose", x, "weight", weight, n_in);
        expect_entries("ConvTranspose", "strides", &self.strides, n);
        expect_entries("ConvTranspose", "dilation", &self.dilation, n);
        let options = ConvTransposeOptions {
            strides: self.strides.clone(),
            padding: self.padding.clone(),
            rhs_dilation: self.dilation.clone(),
            transpose_kernel: self.transpose_kernel,
            ..ConvTransposeOptions::default()
        };
        flatten_batch("ConvTranspose", x, weight, &self.bias, |x, weight| {
            conv_transpose(x, weight, &options)
        })
    }
}

/// Returns the kernel times a mask of its shape, in the dtype of the kernel.
#[track_caller]
fn masked_kernel(layer: &str, weight: &Array, mask: &Array) -> Array {
    if mask.shape() != weight.shape() {
        let message = format!("mask {} needs the shape of {}", mask.aval(), weight.aval());
        throw_operands(layer, RuleError::shape(message), &[mask, weight]);
    }
    Loc::caller().scope(|| weight * convert_element_type(mask, weight.dtype()))
}

/// Returns a zero bias for the outputs of a kernel.
#[track_caller]
fn zero_bias(layer: &str, weight: &Array) -> Array {
    let [_, .., _, n_out] = *weight.shape().dims() else {
        let message = format!("`weight` needs axes [window…, in, out], got {}", weight.aval());
        throw_operands(layer, RuleError::shape(message), &[weight]);
    };
    zeros((Shape::new(&[n_out]), weight.dtype()))
}

/// Returns the number of spatial axes. Throws if `x` has fewer.
#[track_caller]
fn expect_space(layer: &str, x: &Array, weight: &Array) -> usize {
    Loc::caller().scope(|| {
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
    })
}

#[track_caller]
fn expect_entries(layer: &str, name: &str, list: &[usize], n: usize) {
    if !list.is_empty() && list.len() != n {
        let message = format!("{name} {list:?} has {} entries, the window {n} axes", list.len());
        throw_operands(layer, RuleError::shape(message), &[]);
    }
}

/// Flattens the batch axes of `x` to one, applies `convolve` and the bias, and restores the axes.
#[track_caller]
fn flatten_batch(
    layer: &str,
    x: &Array,
    weight: &Array,
    bias: &Option<Array>,
    convolve: impl FnOnce(&Array, &Array) -> Array,
) -> Array {
    let mut leaves = vec![("weight", weight)];
    leaves.extend(bias.iter().map(|bias| ("bias", bias)));
    let dtype = promoted_dtype(layer, x, &leaves);
    let n_outer = x.rank() + 1 - weight.rank();
    let (outer, inner) = x.shape().dims().split_at(n_outer);
    let examples: usize = outer.iter().product();
    let flat = [&[examples], inner].concat();
    let x = reshape(&convert_element_type(x, dtype), flat);
    let weight = convert_element_type(weight, dtype);
    let y = Loc::caller().scope(|| convolve(&x, &weight));
    let y = Loc::caller().scope(|| match bias {
        Some(bias) => y + convert_element_type(bias, dtype),
        None => y,
    });
    let dims = [outer, &y.shape().dims()[1..]].concat();
    reshape(&y, dims)
}
