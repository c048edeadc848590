//! Power spectra, averaged over segments of a signal.

use super::detrend::{DetrendOptions, DetrendType, detrend_with};
use super::windows::SpectralWindow;
use crate::operands::{
    axis_of, common_inexact, constant_vector, counting, part, resized, throw_shape, throw_value,
};
use oxidax::core::Loc;
use oxidax::prelude::*;

/// Trend that is removed from each segment.
#[derive(Clone, Copy, Debug, Default)]
pub enum SegmentDetrend {
    /// No trend is removed.
    None,
    /// The mean.
    #[default]
    Constant,
    /// The line of least squares.
    Linear,
    /// A function of segments, which are rows along the last axis.
    Function(fn(&Array) -> Array),
}

/// Frequencies of a spectrum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpectrumSides {
    /// Frequencies from 0 up, with the power of the negative ones added. Complex signals have
    /// [`SpectrumSides::TwoSided`] spectra instead.
    #[default]
    OneSided,
    /// All frequencies, in the order of [`fftfreq`](oxidax::ops::fft::fftfreq).
    TwoSided,
}

/// Unit of a spectrum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpectralScaling {
    /// Power per frequency: V²/Hz for a signal in V.
    #[default]
    Density,
    /// Power: V² for a signal in V.
    Spectrum,
}

/// Average over segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentAverage {
    /// The mean.
    #[default]
    Mean,
    /// The median, corrected for its bias (Allen et al. 2012, appendix B).
    Median,
}

/// Options of [`csd_with`] and [`welch_with`].
#[derive(Clone, Debug)]
pub struct SpectralOptions {
    /// Samples per unit of time. The default is 1.
    pub fs: f64,
    /// The window of segments. The default is [`SpectralWindow::Hann`].
    pub window: SpectralWindow,
    /// The length of segments; that of the window's weights or of the signal if `None`.
    pub nperseg: Option<usize>,
    /// The number of samples that neighbouring segments share; half of a segment if `None`.
    pub noverlap: Option<usize>,
    /// The length of the transforms, at least that of segments, which is the default.
    pub nfft: Option<usize>,
    /// The trend that is removed. The default is the mean.
    pub detrend: SegmentDetrend,
    /// The frequencies. JAX's name is `return_onesided`.
    #[doc(alias = "return_onesided")]
    pub sides: SpectrumSides,
    /// The unit.
    pub scaling: SpectralScaling,
    /// The axis of time. The default is -1.
    pub axis: isize,
    /// The average over segments.
    pub average: SegmentAverage,
}

impl Default for SpectralOptions {
    fn default() -> Self {
        SpectralOptions {
            fs: 1.0,
            window: SpectralWindow::Hann,
            nperseg: None,
            noverlap: None,
            nfft: None,
            detrend: SegmentDetrend::Constant,
            sides: SpectrumSides::OneSided,
            scaling: SpectralScaling::Density,
            axis: -1,
            average: SegmentAverage::Mean,
        }
    }
}

/// Lengths and window of segments, checked.
pub(super) struct Segments {
    pub(super) window: Array,
    pub(super) nperseg: usize,
    pub(super) noverlap: usize,
    pub(super) nfft: usize,
}

impl Segments {
    /// Returns the segments of a signal of `n` samples.
    #[track_caller]
    pub(super) fn of(name: &str, options: &SpectralOptions, n: usize, dtype: DType) -> Segments {
        let nperseg = match (&options.window, options.nperseg) {
            (SpectralWindow::Weights(weights), None) => weights.size(),
            (SpectralWindow::Weights(_), Some(nperseg)) => nperseg,
            (_, nperseg) => nperseg.unwrap_or(n).min(n),
        };
        if nperseg == 0 || nperseg > n {
            let message =
                format!("segments of {nperseg} samples do not fit a signal of {n} samples");
            throw_value(name, message, &[]);
        }
        let window = options.window.weights(name, nperseg, dtype);
        let noverlap = options.noverlap.unwrap_or(nperseg / 2);
        let nfft = options.nfft.unwrap_or(nperseg);
        check_lengths(name, nperseg, noverlap, nfft);
        Segments { window, nperseg, noverlap, nfft }
    }
}

/// Checks the lengths of segments, of their overlap and of the transforms.
#[track_caller]
pub(super) fn check_lengths(name: &str, nperseg: usize, noverlap: usize, nfft: usize) {
    if nfft < nperseg {
        let message = format!("nfft {nfft} is less than the length of segments, {nperseg}");
        throw_value(name, message, &[]);
    }
    if noverlap >= nperseg {
        let message = format!("noverlap {noverlap} must be less than the segments' {nperseg}");
        throw_value(name, message, &[]);
    }
}

/// Returns the Fourier transforms of the windowed segments of `x`, whose last axis is time:
/// `[…, n_segments, n_frequencies]`.
#[track_caller]
pub(super) fn transforms_of_segments(
    x: &Array,
    segments: &Segments,
    detrend: SegmentDetrend,
    sides: SpectrumSides,
) -> Array {
    let &Segments { ref window, nperseg, noverlap, nfft } = segments;
    let (n, step) = (x.shape()[x.rank() - 1], nperseg - noverlap);
    let count = (n - nperseg) / step + 1;
    let starts = (iota(DType::I32, count) * step as i32).reshape([count, 1]);
    let rows = take(x, &(starts + iota(DType::I32, nperseg)), -1);
    let trend = |trend| DetrendOptions { trend, ..DetrendOptions::default() };
    let rows = match detrend {
        SegmentDetrend::None => rows,
        SegmentDetrend::Constant => detrend_with(&rows, &trend(DetrendType::Constant)),
        SegmentDetrend::Linear => detrend_with(&rows, &trend(DetrendType::Linear)),
        SegmentDetrend::Function(f) => f(&rows),
    };
    let options = fft::FftOptions { n: Some(nfft), ..fft::FftOptions::default() };
    match sides {
        SpectrumSides::TwoSided => fft::fft_with(&(rows * window), options),
        SpectrumSides::OneSided => fft::rfft_with(&(rows * window), options),
    }
}

/// Returns the frequencies of a spectrum.
#[track_caller]
pub(super) fn frequencies(nfft: usize, fs: f64, sides: SpectrumSides, dtype: DType) -> Array {
    match sides {
        SpectrumSides::TwoSided => fft::fftfreq((nfft, dtype), 1.0 / fs),
        SpectrumSides::OneSided => fft::rfftfreq((nfft, dtype), 1.0 / fs),
    }
}

/// Returns the sides that a spectrum of signals of the dtype has.
pub(super) fn sides_for(dtype: DType, sides: SpectrumSides) -> SpectrumSides {
    if dtype.is_complex() { SpectrumSides::TwoSided } else { sides }
}

/// Doubles the power of the frequencies that stand for a positive and a negative one.
#[track_caller]
fn doubled(power: &Array, nfft: usize, dtype: DType) -> Array {
    let count = nfft / 2 + 1;
    let is_alone = |index: usize| index == 0 || (nfft.is_multiple_of(2) && index == count - 1);
    let factors: Vec<f64> =
        (0..count).map(|index| if is_alone(index) { 1.0 } else { 2.0 }).collect();
    power * constant_vector(&factors, dtype)
}

/// Returns frequencies and the spectrum of `x`, or the cross spectrum of `x` and `y`.
#[track_caller]
fn spectrum(name: &str, x: &Array, y: Option<&Array>, options: &SpectralOptions) -> (Array, Array) {
    let axis = axis_of(name, options.axis, x);
    let (x, y) = match y {
        Some(y) => {
            if y.rank() != x.rank() {
                let message =
                    format!("takes signals of one rank, got {} and {}", x.rank(), y.rank());
                throw_shape(name, message, &[x, y]);
            }
            let [x, y] = common_inexact([x, y]);
            (x, Some(y))
        }
        None => (common_inexact([x])[0].clone(), None),
    };
    let segments = Segments::of(name, options, x.shape()[axis], x.dtype());
    let sides = sides_for(x.dtype(), options.sides);
    let real_dtype = x.dtype().real();
    let longest = y.as_ref().map_or(0, |y| y.shape()[axis]).max(x.shape()[axis]);
    let transformed = |x: &Array| {
        let x = moveaxis(&resized(x, longest, axis), axis as isize, -1);
        transforms_of_segments(&x, &segments, options.detrend, sides)
    };
    let first = transformed(&x);
    let power = match &y {
        Some(y) => conj(&first) * transformed(y),
        None => real(&first).square() + imag(&first).square(),
    };
    let window = &segments.window;
    let scale = match options.scaling {
        SpectralScaling::Density => div(1.0, window.square().sum() * options.fs),
        SpectralScaling::Spectrum => div(1.0, window.sum().square()),
    };
    let mut power = power * scale;
    if sides == SpectrumSides::OneSided {
        power = doubled(&power, segments.nfft, real_dtype);
    }
    // Complex weights make the scale complex.
    let is_real = y.is_none() && power.dtype().is_complex();
    let power = if is_real { real(&power) } else { power };
    let averaged = match options.average {
        SegmentAverage::Mean => power.mean_axes(-2),
        SegmentAverage::Median => median_of_segments(&power),
    };
    let freqs = frequencies(segments.nfft, options.fs, sides, real_dtype);
    (freqs, moveaxis(&averaged, -1, axis as isize))
}

/// Returns the median over axis -2, divided by its bias for exponentially distributed powers.
#[track_caller]
fn median_of_segments(power: &Array) -> Array {
    let count = power.shape()[power.rank() - 2];
    if count == 1 {
        return squeeze(&part(power, 0..1, power.rank() - 2), &[-2]);
    }
    let terms = (2..count).step_by(2).map(|k| 1.0 / (k as f64 + 1.0) - 1.0 / k as f64);
    let bias = 1.0 + terms.sum::<f64>();
    let middle = if power.dtype().is_complex() {
        complex(median(&real(power), -2), median(&imag(power), -2))
    } else {
        median(power, -2)
    };
    middle / bias
}

/// Estimates the cross spectral density of two signals along the last axis by Welch's method
/// (1967): the average of `conj(X) Y` over overlapping windowed segments. Returns the frequencies
/// and the density, which is complex.
///
/// The shorter signal is padded with zeros. Integers become floats.
///
/// Throws `Op` (shape) for signals of different ranks, and `Op` (value) for segments longer than
/// `x`.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::signal;
/// let x = Aval::new(DType::F32, [64]);
/// let (freqs, pxy) = eval_shape(|x: Array, y: Array| signal::csd(&x, &y), (x.clone(), x))?;
/// assert_eq!(freqs.aval().to_string(), "f32[33]");
/// assert_eq!(pxy.aval().to_string(), "c64[33]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn csd(x: &Array, y: &Array) -> (Array, Array) {
    csd_with(x, y, &SpectralOptions::default())
}

/// Returns [`csd`] with options.
#[track_caller]
pub fn csd_with(x: &Array, y: &Array, options: &SpectralOptions) -> (Array, Array) {
    Loc::caller().scope(|| spectrum("csd", x, Some(y), options))
}

/// Estimates the power spectral density of a signal along the last axis by Welch's method (1967):
/// the average of `|X|²` over overlapping windowed segments. Returns the frequencies and the
/// density.
///
/// By default the signal is one segment; set [`SpectralOptions::nperseg`]. Throws in the cases of
/// [`csd`].
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::signal::{self, SpectralOptions};
/// let x = sin(&(arange(1024.0) * 0.5));
/// let options = SpectralOptions { nperseg: Some(256), ..Default::default() };
/// let (freqs, power) = signal::welch_with(&x, &options);
/// let peak = freqs.take(&power.argmax(), 0).item::<f32>()?;
/// assert!((peak - 0.5 / std::f32::consts::TAU).abs() < 1.0 / 256.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn welch(x: &Array) -> (Array, Array) {
    welch_with(x, &SpectralOptions::default())
}

/// Returns [`welch`] with options.
#[track_caller]
pub fn welch_with(x: &Array, options: &SpectralOptions) -> (Array, Array) {
    Loc::caller().scope(|| spectrum("welch", x, None, options))
}

/// Returns the times of the centres of segments of a signal of `n` samples.
#[track_caller]
pub(super) fn centres(segments: &Segments, n: usize, fs: f64, dtype: DType) -> Array {
    let step = segments.nperseg - segments.noverlap;
    let count = (n - segments.nperseg) / step + 1;
    (counting(count, dtype) * step as f64 + segments.nperseg as f64 / 2.0) / fs
}
