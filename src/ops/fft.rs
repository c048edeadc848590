//! Discrete Fourier transforms, as in `jax.numpy.fft`.
//!
//! Real input becomes complex and integers become `f32`; `f16` and `bf16` are rejected. `fft(&x)`
//! transforms the last axis as a whole, and [`fft_with`] takes a length, an axis and a
//! normalization. A signal longer than the length is cut off, and a shorter one is padded with
//! zeros.

use super::axis_slice::expect_axis;
use super::roll;
use crate::core::{Array, Aval, DType, IntoAval, RuleError, throw_operands};
use crate::primitives::{
    self, FftType, concatenate, conj, convert_element_type, inexact, moveaxis, resize_axis,
};

/// Normalization of a transform and its inverse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FftNorm {
    /// The inverse transform is scaled by `1/n`.
    #[default]
    Backward,
    /// Both transforms are scaled by `1/√n`.
    Ortho,
    /// The forward transform is scaled by `1/n`.
    Forward,
}

impl FftNorm {
    /// Exchanges the factors of a transform and its inverse.
    fn swapped(self) -> FftNorm {
        match self {
            FftNorm::Backward => FftNorm::Forward,
            FftNorm::Ortho => FftNorm::Ortho,
            FftNorm::Forward => FftNorm::Backward,
        }
    }

    /// Returns the factor of a transform of `n` elements. An inverse primitive includes `1/n`
    /// already.
    fn factor(self, kind: FftType, n: usize) -> f64 {
        let n = n as f64;
        let is_inverse = matches!(kind, FftType::Ifft | FftType::Irfft);
        match (self, is_inverse) {
            (FftNorm::Backward, _) => 1.0,
            (FftNorm::Ortho, false) => 1.0 / n.sqrt(),
            (FftNorm::Ortho, true) => n.sqrt(),
            (FftNorm::Forward, false) => 1.0 / n,
            (FftNorm::Forward, true) => n,
        }
    }
}

/// Options of transforms along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FftOptions {
    /// Length of the signal; the size of the axis if `None`.
    pub n: Option<usize>,
    /// The axis to transform. The default is -1.
    pub axis: isize,
    /// The normalization. The default is [`FftNorm::Backward`].
    pub norm: FftNorm,
}

impl Default for FftOptions {
    fn default() -> Self {
        FftOptions { n: None, axis: -1, norm: FftNorm::Backward }
    }
}

/// Options of transforms along several axes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FftnOptions {
    /// Lengths of the signal along the axes; their sizes if `None`.
    pub s: Option<Vec<usize>>,
    /// The axes to transform. If `None`, the last ones, as many as there are lengths, or all axes;
    /// the last two for `fft2` and its variants.
    pub axes: Option<Vec<isize>>,
    /// The normalization. The default is [`FftNorm::Backward`].
    pub norm: FftNorm,
}

#[track_caller]
fn to_complex(x: &Array) -> Array {
    let x = inexact(x);
    if x.dtype().is_complex() {
        return x;
    }
    match x.dtype().complex() {
        Some(dtype) => convert_element_type(&x, dtype),
        None => {
            let message = format!("transforms f32, f64, c64 and c128, got {}", x.dtype());
            let error = RuleError::dtype(message).help("convert it with `astype(DType::F32)`");
            throw_operands("fft", error, &[&x])
        }
    }
}

#[track_caller]
fn expect_real(name: &str, x: &Array) -> Array {
    let x = inexact(x);
    if !matches!(x.dtype(), DType::F32 | DType::F64) {
        let error = RuleError::dtype(format!("needs real f32 or f64, got {}", x.dtype()));
        throw_operands(name, error, &[&x]);
    }
    x
}

/// Transforms `x` along one axis.
#[track_caller]
fn transform(name: &str, x: &Array, kind: FftType, options: FftOptions) -> Array {
    let axis = expect_axis(name, options.axis, x.rank(), x);
    let size = x.shape()[axis];
    let n = options.n.unwrap_or(match kind {
        FftType::Irfft => 2 * size.saturating_sub(1),
        _ => size,
    });
    if n == 0 {
        let message =
            format!("{name} needs at least one element, got {} along axis {axis}", x.aval());
        throw_operands(name, RuleError::shape(message), &[x]);
    }
    let used = if kind == FftType::Irfft { n / 2 + 1 } else { n };
    let x = resize_axis(x, axis, used);
    let last = x.rank() as isize - 1;
    let y = primitives::fft(&moveaxis(&x, axis as isize, last), kind, &[n]);
    let y = moveaxis(&y, last, axis as isize);
    let factor = options.norm.factor(kind, n);
    if factor == 1.0 { y } else { y * factor }
}

/// Returns the Fourier transform of `x` along the last axis: `Σⱼ xⱼ exp(−2πi jk/n)`.
///
/// Throws `Op` for an empty axis, an axis out of range, or a 16-bit dtype.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [4])?;
/// assert_eq!(real(&fft::fft(&x)).to_vec::<f32>()?, [10.0, -2.0, -2.0, -2.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn fft(x: &Array) -> Array {
    fft_with(x, FftOptions::default())
}

/// Returns [`fft()`] with options.
///
/// ```
/// use oxidax::prelude::*;
/// let first = fft::FftOptions { axis: 0, ..Default::default() };
/// let y = eval_shape(move |x: Array| fft::fft_with(&x, first), Aval::new(DType::F32, [4, 3]))?;
/// assert_eq!(y.aval().to_string(), "c64[4,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn fft_with(x: &Array, options: FftOptions) -> Array {
    transform("fft", &to_complex(x), FftType::Fft, options)
}

/// Returns the inverse of [`fft()`]: `1/n Σₖ xₖ exp(2πi jk/n)`.
#[track_caller]
pub fn ifft(x: &Array) -> Array {
    ifft_with(x, FftOptions::default())
}

/// Returns [`ifft`] with options.
#[track_caller]
pub fn ifft_with(x: &Array, options: FftOptions) -> Array {
    transform("ifft", &to_complex(x), FftType::Ifft, options)
}

/// Returns the first `n/2 + 1` elements of the transform of real `x`. The others are their
/// conjugates.
///
/// Throws `Op` if `x` is complex, and in the cases of [`fft()`].
#[track_caller]
pub fn rfft(x: &Array) -> Array {
    rfft_with(x, FftOptions::default())
}

/// Returns [`rfft`] with options.
#[track_caller]
pub fn rfft_with(x: &Array, options: FftOptions) -> Array {
    transform("rfft", &expect_real("rfft", x), FftType::Rfft, options)
}

/// Returns the inverse of [`rfft`]: `2 (m − 1)` real elements for `m` complex ones.
#[track_caller]
pub fn irfft(x: &Array) -> Array {
    irfft_with(x, FftOptions::default())
}

/// Returns [`irfft`] with options. `n` is the length of the result.
#[track_caller]
pub fn irfft_with(x: &Array, options: FftOptions) -> Array {
    transform("irfft", &to_complex(x), FftType::Irfft, options)
}

/// Returns the real transform of a Hermitian signal, of which `x` is the first half.
#[track_caller]
pub fn hfft(x: &Array) -> Array {
    hfft_with(x, FftOptions::default())
}

/// Returns [`hfft`] with options. `n` is the length of the result.
#[track_caller]
pub fn hfft_with(x: &Array, options: FftOptions) -> Array {
    let axis = expect_axis("hfft", options.axis, x.rank(), x);
    let n = options.n.unwrap_or(2 * x.shape()[axis].saturating_sub(1));
    let swapped = FftOptions { n: Some(n), norm: options.norm.swapped(), ..options };
    irfft_with(&conj(to_complex(x)), swapped)
}

/// Returns the inverse of [`hfft`].
#[track_caller]
pub fn ihfft(x: &Array) -> Array {
    ihfft_with(x, FftOptions::default())
}

/// Returns [`ihfft`] with options.
#[track_caller]
pub fn ihfft_with(x: &Array, options: FftOptions) -> Array {
    conj(rfft_with(x, FftOptions { norm: options.norm.swapped(), ..options }))
}

/// Returns the options of each axis of a transform along several.
#[track_caller]
fn per_axis(name: &str, x: &Array, options: &FftnOptions) -> Vec<FftOptions> {
    let axes: Vec<isize> = match (&options.axes, &options.s) {
        (Some(axes), _) => axes.clone(),
        (None, Some(s)) => (0..s.len() as isize).map(|axis| axis - s.len() as isize).collect(),
        (None, None) => (0..x.rank() as isize).collect(),
    };
    if let Some(s) = &options.s
        && s.len() != axes.len()
    {
        let message = format!("{} lengths for {} axes", s.len(), axes.len());
        throw_operands(name, RuleError::shape(message), &[x]);
    }
    let length = |index: usize| options.s.as_ref().map(|s| s[index]);
    let axes = axes.into_iter().enumerate();
    axes.map(|(index, axis)| FftOptions { n: length(index), axis, norm: options.norm }).collect()
}

/// Transforms `x` along each axis in turn.
#[track_caller]
fn transform_all<'a>(
    name: &str,
    x: Array,
    kind: FftType,
    axes: impl Iterator<Item = &'a FftOptions>,
) -> Array {
    let mut x = x;
    for &options in axes {
        x = transform(name, &x, kind, options);
    }
    x
}

#[track_caller]
fn expect_last<'a>(
    name: &str,
    x: &Array,
    axes: &'a [FftOptions],
) -> (&'a FftOptions, &'a [FftOptions]) {
    match axes.split_last() {
        Some(last) => last,
        None => throw_operands(name, RuleError::shape("needs at least one axis"), &[x]),
    }
}

/// Returns [`fft()`] along all axes.
#[track_caller]
pub fn fftn(x: &Array) -> Array {
    fftn_with(x, &FftnOptions::default())
}

/// Returns [`fftn`] with options.
#[track_caller]
pub fn fftn_with(x: &Array, options: &FftnOptions) -> Array {
    let axes = per_axis("fftn", x, options);
    transform_all("fftn", to_complex(x), FftType::Fft, axes.iter().rev())
}

/// Returns [`ifft`] along all axes.
#[track_caller]
pub fn ifftn(x: &Array) -> Array {
    ifftn_with(x, &FftnOptions::default())
}

/// Returns [`ifftn`] with options.
#[track_caller]
pub fn ifftn_with(x: &Array, options: &FftnOptions) -> Array {
    let axes = per_axis("ifftn", x, options);
    transform_all("ifftn", to_complex(x), FftType::Ifft, axes.iter().rev())
}

/// Returns [`rfft`] along the last axis, then [`fft()`] along the other axes.
#[track_caller]
pub fn rfftn(x: &Array) -> Array {
    rfftn_with(x, &FftnOptions::default())
}

/// Returns [`rfftn`] with options.
#[track_caller]
pub fn rfftn_with(x: &Array, options: &FftnOptions) -> Array {
    let axes = per_axis("rfftn", x, options);
    let (&last, others) = expect_last("rfftn", x, &axes);
    let half = rfft_with(x, last);
    transform_all("rfftn", half, FftType::Fft, others.iter().rev())
}

/// Returns the inverse of [`rfftn`].
#[track_caller]
pub fn irfftn(x: &Array) -> Array {
    irfftn_with(x, &FftnOptions::default())
}

/// Returns [`irfftn`] with options.
#[track_caller]
pub fn irfftn_with(x: &Array, options: &FftnOptions) -> Array {
    let axes = per_axis("irfftn", x, options);
    let (&last, others) = expect_last("irfftn", x, &axes);
    let x = transform_all("irfftn", to_complex(x), FftType::Ifft, others.iter());
    irfft_with(&x, last)
}

/// Returns options for the last two axes.
fn last_two() -> FftnOptions {
    FftnOptions { axes: Some(vec![-2, -1]), ..FftnOptions::default() }
}

/// Returns [`fftn`] along the last two axes.
#[track_caller]
pub fn fft2(x: &Array) -> Array {
    fftn_with(x, &last_two())
}

/// Returns [`ifftn`] along the last two axes.
#[track_caller]
pub fn ifft2(x: &Array) -> Array {
    ifftn_with(x, &last_two())
}

/// Returns [`rfftn`] along the last two axes.
#[track_caller]
pub fn rfft2(x: &Array) -> Array {
    rfftn_with(x, &last_two())
}

/// Returns [`irfftn`] along the last two axes.
#[track_caller]
pub fn irfft2(x: &Array) -> Array {
    irfftn_with(x, &last_two())
}

/// Returns the frequencies of the elements of [`fft()`], in cycles per unit of the sample spacing
/// `d`:
/// `[0, 1, …, −1] / (n d)`.
///
/// `n` is a length, or a length and a dtype: `(n, DType::F64)`. The default is `f32`.
///
/// Throws `Op` (shape) for more than one length.
///
/// ```
/// use oxidax::prelude::*;
/// assert_eq!(fft::fftfreq(4, 0.5).to_vec::<f32>()?, [0.0, 0.5, -1.0, -0.5]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn fftfreq(n: impl IntoAval, d: f64) -> Array {
    let (n, dtype) = length("fftfreq", n.into_aval(DType::F32));
    let positive = convert_element_type(&primitives::iota(DType::I32, n.div_ceil(2)), dtype);
    let negative = convert_element_type(&primitives::iota(DType::I32, n / 2), dtype);
    concatenate(&[positive, negative - (n / 2) as f64], 0) * (1.0 / (n as f64 * d))
}

/// Returns the frequencies of the elements of [`rfft`], in cycles per unit of the sample spacing
/// `d`:
/// `[0, 1, …, n/2] / (n d)`. The length `n` of the signal, its dtype and errors are those of
/// [`fftfreq`].
#[track_caller]
pub fn rfftfreq(n: impl IntoAval, d: f64) -> Array {
    let (n, dtype) = length("rfftfreq", n.into_aval(DType::F32));
    convert_element_type(&primitives::iota(DType::I32, n / 2 + 1), dtype) * (1.0 / (n as f64 * d))
}

/// Returns the only size and the dtype.
#[track_caller]
fn length(name: &str, aval: Aval) -> (usize, DType) {
    let &[n] = aval.shape.dims() else {
        let message = format!("takes one length, got {}", aval.shape);
        throw_operands(name, RuleError::shape(message), &[]);
    };
    (n, aval.dtype)
}

/// Moves frequency 0 to the middle along `axes`, or along all axes if there are none.
#[track_caller]
pub fn fftshift(x: &Array, axes: &[isize]) -> Array {
    shifted("fftshift", x, axes, |n| n / 2)
}

/// Returns the inverse of [`fftshift`].
#[track_caller]
pub fn ifftshift(x: &Array, axes: &[isize]) -> Array {
    shifted("ifftshift", x, axes, |n| n - n / 2)
}

#[track_caller]
fn shifted(name: &str, x: &Array, axes: &[isize], shift: impl Fn(usize) -> usize) -> Array {
    let all: Vec<isize> = (0..x.rank() as isize).collect();
    let axes = if axes.is_empty() { &all } else { axes };
    let mut y = x.clone();
    for &axis in axes {
        let size = x.shape()[expect_axis(name, axis, x.rank(), x)];
        y = roll(&y, shift(size) as isize, axis);
    }
    y
}
