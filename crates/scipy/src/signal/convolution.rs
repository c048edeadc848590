//! Convolution and correlation of arrays of any rank.

use crate::operands::{axis_of, common_inexact, throw_shape, throw_value};
use oxidax::core::{Loc, Scalar};
use oxidax::ops::ConvolveMode;
use oxidax::prelude::*;
use oxidax::primitives::{ConvGeneralDilated, Padding};

/// Algorithm of [`convolve_nd_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConvolveMethod {
    /// The direct algorithm, as in JAX.
    #[default]
    Auto,
    /// Sums of products.
    Direct,
    /// Products of Fourier transforms.
    Fft,
}

/// Options of [`convolve_nd_with`] and [`correlate_nd_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConvolveOptions {
    /// The part of the result to compute. The default is [`ConvolveMode::Full`].
    pub mode: ConvolveMode,
    /// The algorithm.
    pub method: ConvolveMethod,
    /// The precision of the products of the direct algorithm.
    pub precision: Precision,
}

/// Values outside of the first operand of [`convolve2d_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConvolveBoundary {
    /// One value. The default is 0.
    #[doc(alias = "fillvalue")]
    Fill(f64),
    /// The elements from the opposite end.
    Wrap,
    /// A mirror image that repeats the element at the edge.
    #[doc(alias = "symm")]
    Symmetric,
}

impl Default for ConvolveBoundary {
    fn default() -> Self {
        ConvolveBoundary::Fill(0.0)
    }
}

/// Options of [`convolve2d_with`] and [`correlate2d_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Convolve2dOptions {
    /// The part of the result to compute. The default is [`ConvolveMode::Full`].
    pub mode: ConvolveMode,
    /// The values outside of the first operand. JAX supports only zeros.
    pub boundary: ConvolveBoundary,
    /// The precision of the products.
    pub precision: Precision,
}

/// Options of [`fftconvolve_with`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FftConvolveOptions {
    /// The part of the result to compute. The default is [`ConvolveMode::Full`].
    pub mode: ConvolveMode,
    /// The axes to convolve along; all axes if `None`. The other axes broadcast.
    pub axes: Option<Vec<isize>>,
}

/// Returns true if no axis of `x` is longer than the axis of `y`.
fn fits(x: &[usize], y: &[usize]) -> bool {
    x.iter().zip(y).all(|(x, y)| x <= y)
}

/// Reverses all axes.
#[track_caller]
fn flipped(x: &Array) -> Array {
    rev(x, &(0..x.rank() as isize).collect::<Vec<_>>())
}

#[track_caller]
fn conjugate(x: &Array) -> Array {
    if x.dtype().is_complex() { conj(x) } else { x.clone() }
}

/// Convolves arrays of one rank by sums of products.
#[track_caller]
fn direct(name: &str, x: &Array, y: &Array, mode: ConvolveMode, precision: Precision) -> Array {
    if x.rank() != y.rank() || x.rank() == 0 {
        let message = format!(
            "takes two arrays of one rank, at least 1, got ranks {} and {}",
            x.rank(),
            y.rank()
        );
        throw_shape(name, message, &[x, y]);
    }
    if x.size() == 0 || y.size() == 0 {
        let message = format!("takes arrays with elements, got {} and {}", x.shape(), y.shape());
        throw_shape(name, message, &[x, y]);
    }
    let [x, y] = common_inexact([x, y]);
    let is_swapped = fits(x.shape(), y.shape());
    if !is_swapped && !fits(y.shape(), x.shape()) {
        let message = format!(
            "one operand must be at least as long as the other along every axis, got {} and {}",
            x.shape(),
            y.shape()
        );
        throw_shape(name, message, &[&x, &y]);
    }
    let second = y.shape().clone();
    let (long, short) = if is_swapped { (&y, &x) } else { (&x, &y) };
    let pads = short.shape().iter().zip(second.iter()).map(|(&short, &second)| {
        let (short, centre) = (short as isize, (second as isize - 1) / 2);
        match mode {
            ConvolveMode::Full => (short - 1, short - 1),
            ConvolveMode::Same => (short - 1 - centre, short - second as isize + centre),
            ConvolveMode::Valid => (0, 0),
        }
    });
    let options = ConvGeneralDilated {
        padding: Padding::Explicit(pads.collect()),
        precision: [precision; 2],
        ..ConvGeneralDilated::default()
    };
    let kernel = expand_dims(&flipped(short), &[0, 1]);
    squeeze(&conv_general_dilated(&expand_dims(long, &[0, 1]), &kernel, options), &[0, 1])
}

/// Returns the convolution of two arrays of one rank along all axes, of size `n + m - 1` along
/// each.
///
/// [`oxidax::ops::convolve`] is that of vectors, as in `jax.numpy`. Integers become floats. Throws
/// `Op` (shape) for empty arrays, and unless one operand is at least
/// as long as the other along every axis.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::signal;
/// let y = signal::convolve_nd(&array![1.0, 2.0, 3.0], &array![0.0, 1.0, 0.5]);
/// assert_eq!(y.to_vec::<f32>()?, [0.0, 1.0, 2.5, 4.0, 1.5]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "convolve")]
#[doc(alias = "jax.scipy.signal.convolve")]
#[track_caller]
pub fn convolve_nd(x: &Array, y: &Array) -> Array {
    convolve_nd_with(x, y, ConvolveOptions::default())
}

/// Returns [`convolve_nd`] with options.
#[track_caller]
pub fn convolve_nd_with(x: &Array, y: &Array, options: ConvolveOptions) -> Array {
    let ConvolveOptions { mode, method, precision } = options;
    match method {
        ConvolveMethod::Fft => fftconvolve_with(x, y, &FftConvolveOptions { mode, axes: None }),
        ConvolveMethod::Auto | ConvolveMethod::Direct => {
            direct("convolve_nd", x, y, mode, precision)
        }
    }
}

/// Returns the correlation `z[k] = Σ x[i + k] conj(y[i])` of two arrays of one rank along all axes,
/// of size `n + m - 1` along each. Throws in the cases of [`convolve_nd`].
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::signal;
/// let y = signal::correlate_nd(&array![1.0, 2.0, 3.0], &array![0.0, 1.0, 0.5]);
/// assert_eq!(y.to_vec::<f32>()?, [0.5, 2.0, 3.5, 3.0, 0.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "correlate")]
#[doc(alias = "jax.scipy.signal.correlate")]
#[track_caller]
pub fn correlate_nd(x: &Array, y: &Array) -> Array {
    correlate_nd_with(x, y, ConvolveOptions::default())
}

/// Returns [`correlate_nd`] with options.
#[track_caller]
pub fn correlate_nd_with(x: &Array, y: &Array, options: ConvolveOptions) -> Array {
    convolve_nd_with(x, &flipped(&conjugate(y)), options)
}

#[track_caller]
fn expect_matrices(name: &str, x: &Array, y: &Array) {
    if x.rank() != 2 || y.rank() != 2 {
        let message = format!("takes two matrices, got ranks {} and {}", x.rank(), y.rank());
        throw_shape(name, message, &[x, y]);
    }
}

/// Returns the convolution of two matrices. Throws in the cases of [`convolve_nd`], and unless both
/// operands are matrices.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::signal;
/// let y = signal::convolve2d(&ones([2, 2]), &ones([2, 2]));
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn convolve2d(x: &Array, y: &Array) -> Array {
    convolve2d_with(x, y, Convolve2dOptions::default())
}

/// Returns [`convolve2d`] with options.
///
/// With a boundary other than zeros, `x` is extended by the size of `y`.
#[track_caller]
pub fn convolve2d_with(x: &Array, y: &Array, options: Convolve2dOptions) -> Array {
    expect_matrices("convolve2d", x, y);
    let Convolve2dOptions { mode, boundary, precision } = options;
    let pad_mode = match boundary {
        _ if mode == ConvolveMode::Valid => None,
        ConvolveBoundary::Fill(0.0) => None,
        ConvolveBoundary::Fill(value) => Some(PadMode::Constant(Scalar::from(value))),
        ConvolveBoundary::Wrap => Some(PadMode::Wrap),
        ConvolveBoundary::Symmetric => Some(PadMode::Symmetric),
    };
    let Some(pad_mode) = pad_mode else {
        return direct("convolve2d", x, y, mode, precision);
    };
    let [x, y] = common_inexact([x, y]);
    let [rows, columns] = y.dims();
    // The valid part of the extended convolution is the full convolution.
    let widths = [rows, columns].map(|size| {
        let all = size.saturating_sub(1);
        if mode == ConvolveMode::Full { (all, all) } else { (all - all / 2, all / 2) }
    });
    let extended = pad_with(&x, widths, PadOptions { mode: pad_mode });
    let whole = direct("convolve2d", &extended, &y, ConvolveMode::Valid, precision);
    if mode == ConvolveMode::Full {
        return whole;
    }
    let [n, m] = x.dims();
    slice(&whole, &[0, 0], &[n, m], &[1, 1])
}

/// Returns the correlation of two matrices. Throws in the cases of [`convolve2d`].
///
/// In the mode [`ConvolveMode::Valid`] a second operand that is larger than the first exchanges the
/// roles of the two, as in SciPy: the result is then conjugated.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::signal;
/// let x = array![[1.0, 2.0], [3.0, 4.0]];
/// let y = signal::correlate2d(&x, &array![[0.0, 1.0]]);
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 0.0, 3.0, 4.0, 0.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn correlate2d(x: &Array, y: &Array) -> Array {
    correlate2d_with(x, y, Convolve2dOptions::default())
}

/// Returns [`correlate2d`] with options.
#[track_caller]
pub fn correlate2d_with(x: &Array, y: &Array, options: Convolve2dOptions) -> Array {
    expect_matrices("correlate2d", x, y);
    match options.mode {
        ConvolveMode::Full => convolve2d_with(x, &flipped(&conjugate(y)), options),
        ConvolveMode::Same => flipped(&convolve2d_with(&flipped(x), &conjugate(y), options)),
        ConvolveMode::Valid => {
            let z = convolve2d_with(x, &flipped(&conjugate(y)), options);
            let is_swapped = fits(x.shape(), y.shape()) && x.shape() != y.shape();
            if is_swapped { conjugate(&z) } else { z }
        }
    }
}

/// Returns the convolution of two arrays of one rank, computed as a product of Fourier transforms.
/// Faster than [`convolve_nd`] for long operands, and less exact.
///
/// Throws `Op` (shape) for ranks that differ.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::signal;
/// let (x, y) = (Aval::new(DType::F32, [100]), Aval::new(DType::F32, [30]));
/// let z = eval_shape(|x: Array, y: Array| signal::fftconvolve(&x, &y), (x, y))?;
/// assert_eq!(z.aval().to_string(), "f32[129]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn fftconvolve(x: &Array, y: &Array) -> Array {
    fftconvolve_with(x, y, &FftConvolveOptions::default())
}

/// Returns [`fftconvolve`] with options.
///
/// Throws `Op` (shape) for an axis out of range, for other axes that do not broadcast, and in the
/// mode [`ConvolveMode::Valid`] unless one operand is at least as long as the other along every
/// axis.
#[track_caller]
pub fn fftconvolve_with(x: &Array, y: &Array, options: &FftConvolveOptions) -> Array {
    const NAME: &str = "fftconvolve";
    if x.rank() != y.rank() {
        let message = format!("takes arrays of one rank, got {} and {}", x.rank(), y.rank());
        throw_shape(NAME, message, &[x, y]);
    }
    let axes: Vec<usize> = match &options.axes {
        Some(axes) => {
            let mut seen = Vec::with_capacity(axes.len());
            for &axis in axes {
                seen.push(axis_of(NAME, axis, x));
            }
            seen.sort_unstable();
            if seen.windows(2).any(|pair| pair[0] == pair[1]) {
                throw_value(NAME, format!("axes {axes:?} name an axis twice"), &[x, y]);
            }
            seen
        }
        None => (0..x.rank()).collect(),
    };
    let [mut x, mut y] = common_inexact([x, y]);
    let along = |x: &Array| -> Vec<usize> { axes.iter().map(|&axis| x.shape()[axis]).collect() };
    let (mut of_x, mut of_y) = (along(&x), along(&y));
    if options.mode == ConvolveMode::Valid && !fits(&of_y, &of_x) {
        if !fits(&of_x, &of_y) {
            let message = format!(
                "one operand must be at least as long as the other along every axis, got {} and {}",
                x.shape(),
                y.shape()
            );
            throw_shape(NAME, message, &[&x, &y]);
        }
        std::mem::swap(&mut x, &mut y);
        std::mem::swap(&mut of_x, &mut of_y);
    }
    let full: Vec<usize> = of_x.iter().zip(&of_y).map(|(n, m)| (n + m).saturating_sub(1)).collect();
    let whole = Loc::caller().scope(|| product_of_transforms(&x, &y, &axes, &full));
    let (mut starts, mut limits) = (vec![0; whole.rank()], whole.shape().to_vec());
    for (index, &axis) in axes.iter().enumerate() {
        let size = match options.mode {
            ConvolveMode::Full => full[index],
            ConvolveMode::Same => of_x[index],
            ConvolveMode::Valid => of_x[index] + 1 - of_y[index],
        };
        starts[axis] = (full[index] - size) / 2;
        limits[axis] = starts[axis] + size;
    }
    slice(&whole, &starts, &limits, &vec![1; whole.rank()])
}

/// Returns the convolution along `axes`, of the sizes `full`.
#[track_caller]
fn product_of_transforms(x: &Array, y: &Array, axes: &[usize], full: &[usize]) -> Array {
    if axes.iter().all(|&axis| x.shape()[axis] == 1 || y.shape()[axis] == 1) {
        return x * y;
    }
    let options = fft::FftnOptions {
        s: Some(full.to_vec()),
        axes: Some(axes.iter().map(|&axis| axis as isize).collect()),
        ..fft::FftnOptions::default()
    };
    if x.dtype().is_complex() {
        fft::ifftn_with(&(fft::fftn_with(x, &options) * fft::fftn_with(y, &options)), &options)
    } else {
        fft::irfftn_with(&(fft::rfftn_with(x, &options) * fft::rfftn_with(y, &options)), &options)
    }
}
