//! Discrete cosine transforms, as in `jax.scipy.fft`.
//!
//! All are transforms of type 2, `Xₖ = 2 Σⱼ xⱼ cos(πk(2j + 1) / 2n)`, and their inverses, computed
//! with one Fourier transform of the same length (Makhoul 1980). Integers become floats. Real and
//! imaginary parts of complex arrays are transformed separately. The transforms of `jax.numpy.fft`
//! are in [`oxidax::ops::fft`].

use crate::operands::{axis_of, common_inexact, counting, part, resized, throw_shape};
use oxidax::core::Loc;
use oxidax::ops::fft::{FftNorm, FftOptions, FftnOptions, fft_with, ifft_with};
use oxidax::prelude::*;
use oxidax::primitives::PaddingDim;
use std::f64::consts::PI;

/// Returns the discrete cosine transform along the last axis.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::fft;
/// let y = fft::dct(&array![1.0, 1.0, 1.0, 1.0]);
/// let close = CloseOptions { atol: 1e-6, ..Default::default() };
/// assert!(allclose_with(&y, array![8.0, 0.0, 0.0, 0.0], close).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn dct(x: &Array) -> Array {
    dct_with(x, FftOptions::default())
}

/// Returns [`dct`] with options: a length, to which the axis is padded with zeros or cut off, an
/// axis, and a normalization.
///
/// With [`FftNorm::Ortho`] the transform is orthonormal. [`FftNorm::Forward`], which JAX does not
/// have, divides by `2n`. Throws `Op` (shape) for an axis out of range or of size 0.
#[track_caller]
pub fn dct_with(x: &Array, options: FftOptions) -> Array {
    by_parts(x, |x| along_axis("dct", x, options, transformed))
}

/// Returns the inverse of [`dct`].
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::fft;
/// let x = array![1.0, -2.0, 0.5];
/// let y = fft::idct(&fft::dct(&x));
/// let close = CloseOptions { atol: 1e-6, ..Default::default() };
/// assert!(allclose_with(&x, &y, close).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn idct(x: &Array) -> Array {
    idct_with(x, FftOptions::default())
}

/// Returns [`idct`] with the options of [`dct_with`].
#[track_caller]
pub fn idct_with(x: &Array, options: FftOptions) -> Array {
    by_parts(x, |x| along_axis("idct", x, options, restored))
}

/// Returns [`dct`] along all axes.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::fft;
/// let y = eval_shape(|x: Array| fft::dctn(&x), Aval::new(DType::I32, [4, 6]))?;
/// assert_eq!(y.aval().to_string(), "f32[4,6]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn dctn(x: &Array) -> Array {
    dctn_with(x, &FftnOptions::default())
}

/// Returns [`dctn`] with options: lengths, axes, and a normalization.
///
/// Throws `Op` (shape) for an axis out of range, and unless there is one length for each axis.
#[track_caller]
pub fn dctn_with(x: &Array, options: &FftnOptions) -> Array {
    let each = per_axis("dctn", x, options);
    each.into_iter().fold(x.clone(), |x, options| dct_with(&x, options))
}

/// Returns the inverse of [`dctn`].
#[track_caller]
pub fn idctn(x: &Array) -> Array {
    idctn_with(x, &FftnOptions::default())
}

/// Returns [`idctn`] with the options of [`dctn_with`].
#[track_caller]
pub fn idctn_with(x: &Array, options: &FftnOptions) -> Array {
    let each = per_axis("idctn", x, options);
    each.into_iter().fold(x.clone(), |x, options| idct_with(&x, options))
}

/// Returns the options of each axis.
#[track_caller]
fn per_axis(name: &str, x: &Array, options: &FftnOptions) -> Vec<FftOptions> {
    let rank = x.rank() as isize;
    let axes: Vec<isize> = match (&options.axes, &options.s) {
        (Some(axes), _) => axes.clone(),
        (None, Some(s)) => (0..s.len() as isize).map(|axis| axis - s.len() as isize).collect(),
        (None, None) => (0..rank).collect(),
    };
    if let Some(s) = &options.s
        && s.len() != axes.len()
    {
        throw_shape(name, format!("{} lengths for {} axes", s.len(), axes.len()), &[x]);
    }
    let length = |index: usize| options.s.as_ref().map(|s| s[index]);
    let axes = axes.into_iter().enumerate();
    axes.map(|(index, axis)| FftOptions { n: length(index), axis, norm: options.norm }).collect()
}

/// Applies `f` to real and imaginary part.
#[track_caller]
fn by_parts(x: &Array, f: impl Fn(&Array) -> Array) -> Array {
    Loc::caller().scope(|| {
        let [x] = common_inexact([x]);
        if x.dtype().is_complex() { complex(f(&real(&x)), f(&imag(&x))) } else { f(&x) }
    })
}

/// Applies a transform of the last axis to another axis, with another length.
#[track_caller]
fn along_axis(
    name: &str,
    x: &Array,
    options: FftOptions,
    transform: fn(&Array, FftNorm) -> Array,
) -> Array {
    let axis = axis_of(name, options.axis, x);
    let n = options.n.unwrap_or(x.shape()[axis]);
    if n == 0 {
        throw_shape(name, format!("axis {axis} has no elements"), &[x]);
    }
    let last = moveaxis(&resized(x, n, axis), axis as isize, -1);
    moveaxis(&transform(&last, options.norm), -1, axis as isize)
}

/// Returns `exp(-πik / 2n)`.
#[track_caller]
fn quarter_turns(n: usize, dtype: DType) -> Array {
    let angle = counting(n, dtype) * (-PI / (2.0 * n as f64));
    complex(cos(&angle), sin(&angle))
}

/// Returns the factors between the sums `2 Σ x cos` and the transform of a norm. The first one
/// differs for the orthonormal transform.
fn factors(n: usize, norm: FftNorm) -> (f64, f64) {
    let n = n as f64;
    match norm {
        FftNorm::Backward => (1.0, 1.0),
        FftNorm::Ortho => (0.5 / n.sqrt(), 1.0 / (2.0 * n).sqrt()),
        FftNorm::Forward => (0.5 / n, 0.5 / n),
    }
}

/// Multiplies the first element of the last axis by one factor and the others by another.
#[track_caller]
fn scaled(x: &Array, first: f64, others: f64) -> Array {
    if first == others {
        return if first == 1.0 { x.clone() } else { x * first };
    }
    let n = x.shape()[x.rank() - 1];
    let factor = |value: f64| full(([], x.dtype()), value);
    x * where_(eq(iota(DType::I32, n), 0), factor(first), factor(others))
}

/// Returns the transform of the last axis.
#[track_caller]
fn transformed(x: &Array, norm: FftNorm) -> Array {
    let last = x.rank() - 1;
    let n = x.shape()[last];
    let steps = |start: usize| slice_in_dim(x, start.min(n) as isize, n as isize, 2, -1);
    let folded = concatenate([steps(0), rev(&steps(1), &[-1])], -1);
    let spectrum = fft_with(&folded, FftOptions::default());
    let sums = real(&(spectrum * quarter_turns(n, x.dtype()))) * 2.0;
    let (first, others) = factors(n, norm);
    scaled(&sums, first, others)
}

/// Returns the inverse transform of the last axis.
#[track_caller]
fn restored(x: &Array, norm: FftNorm) -> Array {
    let last = x.rank() - 1;
    let n = x.shape()[last];
    let (first, others) = factors(n, norm);
    let half = scaled(x, 0.5 / first, 1.0 / others);
    let spectrum = complex(&half, zeros_like(&half)) * conj(quarter_turns(n, x.dtype()));
    let folded = real(ifft_with(&spectrum, FftOptions::default()));
    let middle = n.div_ceil(2);
    let (even, odd) = (part(&folded, 0..middle, last), rev(&part(&folded, middle..n, last), &[-1]));
    spread(&even, 0, n) + spread(&odd, 1, n)
}

/// Returns the elements of the last axis at every second index from `start`, among zeros.
#[track_caller]
fn spread(x: &Array, start: usize, n: usize) -> Array {
    let count = x.shape()[x.rank() - 1];
    if count == 0 {
        let mut shape = x.shape().to_vec();
        shape[x.rank() - 1] = n;
        return zeros((shape, x.dtype()));
    }
    let mut config = vec![PaddingDim { low: 0, high: 0, interior: 0 }; x.rank()];
    let behind = n - start - (2 * count - 1);
    config[x.rank() - 1] = PaddingDim { low: start as isize, high: behind as isize, interior: 1 };
    lax_pad(x, 0.0, &config)
}
