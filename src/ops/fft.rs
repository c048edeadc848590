//! Discrete Fourier transforms, as NumPy names them.
//!
//! Real input becomes complex; `f16` and `bf16` are refused, integers become `f32`. `n` is the length of the
//! signal: it is cut off or padded with zeros at the end.

use super::axis_slice::expect_axis;
use super::roll;
use crate::core::{Array, DType, RuleError, throw_operands};
use crate::primitives::{
    self, FftType, concatenate, conj, convert_element_type, inexact, moveaxis, resize_axis,
};

/// Where the factor of a transform and its inverse stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Norm {
    /// The inverse has `1/n`.
    #[default]
    Backward,
    /// Both have `1/√n`.
    Ortho,
    /// The forward transform has `1/n`.
    Forward,
}

impl Norm {
    /// The factors of a transform and its inverse exchanged.
    fn swapped(self) -> Norm {
        match self {
            Norm::Backward => Norm::Forward,
            Norm::Ortho => Norm::Ortho,
            Norm::Forward => Norm::Backward,
        }
    }

    /// What a transform over `n` elements is multiplied by, beyond the `1/n` that an inverse has of itself.
    fn factor(self, inverse: bool, n: usize) -> f64 {
        let n = n as f64;
        match (self, inverse) {
            (Norm::Backward, _) => 1.0,
            (Norm::Ortho, false) => 1.0 / n.sqrt(),
            (Norm::Ortho, true) => n.sqrt(),
            (Norm::Forward, false) => 1.0 / n,
            (Norm::Forward, true) => n,
        }
    }
}

#[track_caller]
fn complex_of(x: &Array) -> Array {
    let x = inexact(x);
    match x.dtype().is_complex() {
        true => x,
        false => match x.dtype().complex() {
            Some(dtype) => convert_element_type(&x, dtype),
            None => throw_operands("fft", refuse(&x), &[&x]),
        },
    }
}

fn refuse(x: &Array) -> RuleError {
    RuleError::dtype(format!("transforms f32, f64, c64 and c128, got {}", x.dtype()))
        .help("convert it with `astype(DType::F32)`")
}

/// One transform along one axis.
#[track_caller]
fn along(name: &str, x: &Array, kind: FftType, n: Option<usize>, axis: isize, norm: Norm) -> Array {
    let axis = expect_axis(name, axis, x.rank(), x);
    let size = x.shape()[axis];
    let n = n.unwrap_or(match kind {
        FftType::Irfft => 2 * size.saturating_sub(1),
        _ => size,
    });
    if n == 0 {
        let message =
            format!("{name} needs at least one element, got {} along axis {axis}", x.aval());
        throw_operands(name, RuleError::shape(message), &[x]);
    }
    let taken = if kind == FftType::Irfft { n / 2 + 1 } else { n };
    let x = resize_axis(x, axis, taken);
    let last = x.rank() as isize - 1;
    let y = primitives::fft(&moveaxis(&x, axis as isize, last), kind, &[n]);
    let y = moveaxis(&y, last, axis as isize);
    let factor = norm.factor(matches!(kind, FftType::Ifft | FftType::Irfft), n);
    if factor == 1.0 { y } else { y * factor }
}

/// The Fourier transform of `x` along `axis`: `Σⱼ xⱼ exp(−2πi jk/n)`.
///
/// Throws `Op` for an axis that is not there, an empty one, or a 16-bit dtype.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [4])?;
/// let y = fft::fft(&x, None, -1, fft::Norm::Backward);
/// assert_eq!(real(&y).to_vec::<f32>()?, [10.0, -2.0, -2.0, -2.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn fft(x: &Array, n: Option<usize>, axis: isize, norm: Norm) -> Array {
    along("fft", &complex_of(x), FftType::Fft, n, axis, norm)
}

/// The inverse of [`fft()`]: `1/n Σₖ xₖ exp(2πi jk/n)`.
#[track_caller]
pub fn ifft(x: &Array, n: Option<usize>, axis: isize, norm: Norm) -> Array {
    along("ifft", &complex_of(x), FftType::Ifft, n, axis, norm)
}

/// The first `n/2 + 1` elements of the transform of real `x`; the others are their conjugates.
///
/// Throws `Op` if `x` is complex, besides what [`fft()`] throws.
#[track_caller]
pub fn rfft(x: &Array, n: Option<usize>, axis: isize, norm: Norm) -> Array {
    along("rfft", &real_of("rfft", x), FftType::Rfft, n, axis, norm)
}

#[track_caller]
fn real_of(name: &str, x: &Array) -> Array {
    let x = inexact(x);
    if !matches!(x.dtype(), DType::F32 | DType::F64) {
        let error = RuleError::dtype(format!("needs real f32 or f64, got {}", x.dtype()));
        throw_operands(name, error, &[&x]);
    }
    x
}

/// The inverse of [`rfft`]: `n` real elements, `2 (m − 1)` of `m` without `n`.
#[track_caller]
pub fn irfft(x: &Array, n: Option<usize>, axis: isize, norm: Norm) -> Array {
    along("irfft", &complex_of(x), FftType::Irfft, n, axis, norm)
}

/// The real transform of a signal that equals its own conjugate reversed, of which `x` is the first half.
#[track_caller]
pub fn hfft(x: &Array, n: Option<usize>, axis: isize, norm: Norm) -> Array {
    let at = expect_axis("hfft", axis, x.rank(), x);
    let n = n.unwrap_or(2 * x.shape()[at].saturating_sub(1));
    irfft(&conj(&complex_of(x)), Some(n), axis, norm.swapped())
}

/// The inverse of [`hfft`].
#[track_caller]
pub fn ihfft(x: &Array, n: Option<usize>, axis: isize, norm: Norm) -> Array {
    conj(&rfft(x, n, axis, norm.swapped()))
}

/// The axes of a transform of several, and its sizes along them.
#[track_caller]
fn several(
    name: &str,
    x: &Array,
    s: Option<&[usize]>,
    axes: &[isize],
) -> (Vec<isize>, Vec<Option<usize>>) {
    let axes: Vec<isize> = match (axes, s) {
        ([], Some(s)) => (0..s.len() as isize).map(|at| at - s.len() as isize).collect(),
        ([], None) => (0..x.rank() as isize).collect(),
        (axes, _) => axes.to_vec(),
    };
    let sizes = match s {
        Some(s) if s.len() != axes.len() => {
            let message = format!("{} sizes for {} axes", s.len(), axes.len());
            throw_operands(name, RuleError::shape(message), &[x])
        }
        Some(s) => s.iter().copied().map(Some).collect(),
        None => vec![None; axes.len()],
    };
    (axes, sizes)
}

/// [`fft()`] along several axes: all of them if `axes` is empty; `s` are the lengths.
#[track_caller]
pub fn fftn(x: &Array, s: Option<&[usize]>, axes: &[isize], norm: Norm) -> Array {
    let (axes, sizes) = several("fftn", x, s, axes);
    let steps = axes.iter().zip(sizes).rev();
    steps.fold(complex_of(x), |x, (&axis, n)| along("fftn", &x, FftType::Fft, n, axis, norm))
}

/// [`ifft`] along several axes.
#[track_caller]
pub fn ifftn(x: &Array, s: Option<&[usize]>, axes: &[isize], norm: Norm) -> Array {
    let (axes, sizes) = several("ifftn", x, s, axes);
    let steps = axes.iter().zip(sizes).rev();
    steps.fold(complex_of(x), |x, (&axis, n)| along("ifftn", &x, FftType::Ifft, n, axis, norm))
}

/// [`rfft`] along the last of several axes, then [`fft()`] along the others.
#[track_caller]
pub fn rfftn(x: &Array, s: Option<&[usize]>, axes: &[isize], norm: Norm) -> Array {
    let (axes, sizes) = several("rfftn", x, s, axes);
    let Some((&last, others)) = axes.split_last() else {
        throw_operands("rfftn", RuleError::shape("needs at least one axis"), &[x]);
    };
    let half = rfft(x, sizes[others.len()], last, norm);
    let steps = others.iter().zip(&sizes).rev();
    steps.fold(half, |x, (&axis, &n)| along("rfftn", &x, FftType::Fft, n, axis, norm))
}

/// The inverse of [`rfftn`].
#[track_caller]
pub fn irfftn(x: &Array, s: Option<&[usize]>, axes: &[isize], norm: Norm) -> Array {
    let (axes, sizes) = several("irfftn", x, s, axes);
    let Some((&last, others)) = axes.split_last() else {
        throw_operands("irfftn", RuleError::shape("needs at least one axis"), &[x]);
    };
    let steps = others.iter().zip(&sizes);
    let x = steps
        .fold(complex_of(x), |x, (&axis, &n)| along("irfftn", &x, FftType::Ifft, n, axis, norm));
    irfft(&x, sizes[others.len()], last, norm)
}

/// [`fftn`] along the last two axes.
#[track_caller]
pub fn fft2(x: &Array, s: Option<[usize; 2]>, norm: Norm) -> Array {
    fftn(x, s.as_ref().map(|s| &s[..]), &[-2, -1], norm)
}

/// [`ifftn`] along the last two axes.
#[track_caller]
pub fn ifft2(x: &Array, s: Option<[usize; 2]>, norm: Norm) -> Array {
    ifftn(x, s.as_ref().map(|s| &s[..]), &[-2, -1], norm)
}

/// [`rfftn`] along the last two axes.
#[track_caller]
pub fn rfft2(x: &Array, s: Option<[usize; 2]>, norm: Norm) -> Array {
    rfftn(x, s.as_ref().map(|s| &s[..]), &[-2, -1], norm)
}

/// [`irfftn`] along the last two axes.
#[track_caller]
pub fn irfft2(x: &Array, s: Option<[usize; 2]>, norm: Norm) -> Array {
    irfftn(x, s.as_ref().map(|s| &s[..]), &[-2, -1], norm)
}

/// The frequencies of [`fft()`]'s results, in cycles per unit of the spacing `d`: `[0, 1, …, −1] / (n d)`.
///
/// ```no_run
/// use oxidax::prelude::*;
/// assert_eq!(fft::fftfreq(4, 0.5, DType::F32).to_vec::<f32>()?, [0.0, 0.5, -1.0, -0.5]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn fftfreq(n: usize, d: f64, dtype: DType) -> Array {
    let positive = convert_element_type(&primitives::iota(DType::I32, n.div_ceil(2)), dtype);
    let negative = convert_element_type(&primitives::iota(DType::I32, n / 2), dtype);
    concatenate(&[positive, negative - (n / 2) as f64], 0) * (1.0 / (n as f64 * d))
}

/// The frequencies of [`rfft`]'s results, in cycles per unit of the spacing `d`: `[0, 1, …, n/2] / (n d)`.
#[track_caller]
pub fn rfftfreq(n: usize, d: f64, dtype: DType) -> Array {
    convert_element_type(&primitives::iota(DType::I32, n / 2 + 1), dtype) * (1.0 / (n as f64 * d))
}

/// Frequency 0 moved to the middle, along `axes`, all if empty.
#[track_caller]
pub fn fftshift(x: &Array, axes: &[isize]) -> Array {
    rolled("fftshift", x, axes, |n| n / 2)
}

/// The inverse of [`fftshift`].
#[track_caller]
pub fn ifftshift(x: &Array, axes: &[isize]) -> Array {
    rolled("ifftshift", x, axes, |n| n - n / 2)
}

#[track_caller]
fn rolled(name: &str, x: &Array, axes: &[isize], by: impl Fn(usize) -> usize) -> Array {
    let all: Vec<isize> = (0..x.rank() as isize).collect();
    let axes = if axes.is_empty() { &all } else { axes };
    axes.iter().fold(x.clone(), |y, &axis| {
        let size = x.shape()[expect_axis(name, axis, x.rank(), x)];
        roll(&y, by(size) as isize, axis)
    })
}
