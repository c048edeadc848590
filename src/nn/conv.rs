//! Convolutions and transposed convolutions, channels last.

use super::check::{expect_features, expect_vector, promoted_dtype};
use super::init;
use crate::core::{Array, Loc, RuleError, Shape, throw_operands};
use crate::primitives::{
    ConvDimensionNumbers, ConvGeneralDilated, ConvTransposeOptions, Padding, conv_general_dilated,
    conv_transpose, convert_element_type, reshape, zeros,
};
use crate::random::Key;
use crate::tree::Tree;

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
    /// The padding of `x`. `Same` by default.
    #[tree(static)]
    pub padding: Padding,
    /// The dilation of the kernel along each axis. Empty means 1.
    #[tree(static)]
    pub dilation: Vec<usize>,
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
        let (strides, dilation) = (Vec::new(), Vec::new());
        Conv { weight, bias, strides, padding: Padding::Same, dilation, groups: 1 }
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
    /// Throws `Op` (shape) if the last axis of `x` is not `in`, or the window is too large.
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
        let options = ConvGeneralDilated {
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
        flatten_batch("Conv", x, &self.weight, &self.bias, |x, weight| {
            conv_general_dilated(x, weight, options.clone())
        })
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
        let n = expect_space("ConvTranspose", x, &self.weight);
        let n_in = self.weight.shape()[if self.transpose_kernel { n + 1 } else { n }];
        expect_features("ConvTranspose", x, "weight", &self.weight, n_in);
        expect_entries("ConvTranspose", "strides", &self.strides, n);
        expect_entries("ConvTranspose", "dilation", &self.dilation, n);
        let options = ConvTransposeOptions {
            strides: self.strides.clone(),
            padding: self.padding.clone(),
            rhs_dilation: self.dilation.clone(),
            transpose_kernel: self.transpose_kernel,
            ..ConvTransposeOptions::default()
        };
        flatten_batch("ConvTranspose", x, &self.weight, &self.bias, |x, weight| {
            conv_transpose(x, weight, &options)
        })
    }
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
