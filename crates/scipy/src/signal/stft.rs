//! The short-time Fourier transform and its inverse.

use super::spectrum::{
    SegmentDetrend, Segments, SpectralOptions, SpectrumSides, centres, check_lengths, frequencies,
    sides_for, transforms_of_segments,
};
use super::windows::SpectralWindow;
use crate::operands::{axis_of, common_inexact, counting, part, resized, throw_shape, throw_value};
use oxidax::core::Loc;
use oxidax::prelude::*;

/// Extension of a signal by half a segment at both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentBoundary {
    /// No extension.
    None,
    /// Zeros.
    #[default]
    Zeros,
    /// The sample at the end.
    Constant,
    /// A mirror image that does not repeat the sample at the end.
    Even,
    /// A mirror image, turned about the sample at the end.
    Odd,
}

/// Options of [`stft_with`].
#[derive(Clone, Debug)]
pub struct StftOptions {
    /// Samples per unit of time. The default is 1.
    pub fs: f64,
    /// The window of segments. The default is [`SpectralWindow::Hann`].
    pub window: SpectralWindow,
    /// The length of segments, at most that of the signal. The default is 256.
    pub nperseg: usize,
    /// The number of samples that neighbouring segments share; half of a segment if `None`.
    pub noverlap: Option<usize>,
    /// The length of the transforms, at least that of segments, which is the default.
    pub nfft: Option<usize>,
    /// The trend that is removed. By default none is.
    pub detrend: SegmentDetrend,
    /// The frequencies. JAX's name is `return_onesided`.
    #[doc(alias = "return_onesided")]
    pub sides: SpectrumSides,
    /// The extension of the signal. The default is [`SegmentBoundary::Zeros`].
    pub boundary: SegmentBoundary,
    /// Pads the signal with zeros behind, so that segments cover all of it. The default is true.
    pub padded: bool,
    /// The axis of time. The default is -1.
    pub axis: isize,
}

impl Default for StftOptions {
    fn default() -> Self {
        StftOptions {
            fs: 1.0,
            window: SpectralWindow::Hann,
            nperseg: 256,
            noverlap: None,
            nfft: None,
            detrend: SegmentDetrend::None,
            sides: SpectrumSides::OneSided,
            boundary: SegmentBoundary::Zeros,
            padded: true,
            axis: -1,
        }
    }
}

/// Options of [`istft_with`].
#[derive(Clone, Debug)]
pub struct IstftOptions {
    /// Samples per unit of time. The default is 1.
    pub fs: f64,
    /// The window of segments. The default is [`SpectralWindow::Hann`].
    pub window: SpectralWindow,
    /// The length of segments; `2 (m - 1)` for `m` frequencies of one side, or `m` if `None`.
    pub nperseg: Option<usize>,
    /// The number of samples that neighbouring segments share; half of a segment if `None`.
    pub noverlap: Option<usize>,
    /// The length of the transforms.
    pub nfft: Option<usize>,
    /// The frequencies of the operand. JAX's name is `input_onesided`.
    #[doc(alias = "input_onesided")]
    pub sides: SpectrumSides,
    /// The signal was extended by half a segment at both ends, which are cut off. The default is
    /// true.
    pub boundary: bool,
    /// The axis of segments. The default is -1.
    pub time_axis: isize,
    /// The axis of frequencies. The default is -2.
    pub freq_axis: isize,
}

impl Default for IstftOptions {
    fn default() -> Self {
        IstftOptions {
            fs: 1.0,
            window: SpectralWindow::Hann,
            nperseg: None,
            noverlap: None,
            nfft: None,
            sides: SpectrumSides::OneSided,
            boundary: true,
            time_axis: -1,
            freq_axis: -2,
        }
    }
}

/// Extends the last axis of `x` by `n` samples at both ends.
#[track_caller]
fn extended(x: &Array, n: usize, boundary: SegmentBoundary) -> Array {
    let last = x.rank() - 1;
    let size = x.shape()[last];
    let mirrors = [SegmentBoundary::Even, SegmentBoundary::Odd];
    if n >= size && mirrors.contains(&boundary) {
        let message =
            format!("{n} mirrored samples need a signal of {} samples, got {size}", n + 1);
        throw_value("stft", message, &[x]);
    }
    let mut widths = vec![(0, 0); x.rank()];
    widths[last] = (n, n);
    let with = |mode| pad_with(x, widths.clone(), PadOptions { mode });
    match boundary {
        SegmentBoundary::None => x.clone(),
        SegmentBoundary::Zeros => pad(x, widths),
        SegmentBoundary::Constant => with(PadMode::Edge),
        SegmentBoundary::Even => with(PadMode::Reflect),
        SegmentBoundary::Odd => {
            // The reflection of the constant extension is twice the end minus the mirror image.
            let inside = pad(zeros_like(x), widths.clone());
            let mirrored = with(PadMode::Reflect);
            let turned = with(PadMode::Edge) * 2.0 - &mirrored;
            let is_inside = pad(ones((vec![size], DType::I32)), (n, n));
            where_(gt(&is_inside, 0), mirrored, turned) + inside
        }
    }
}

/// Returns the short-time Fourier transform of a signal along the last axis: the frequencies, the
/// times of the segments' centres, and the transforms `[…, n_frequencies, n_segments]`.
///
/// Segments have 256 samples, half of which they share, and the signal is extended by zeros at both
/// ends, so that [`istft`] restores it. Integers become floats. For an axis other than the last,
/// the frequencies are along that axis and the segments along the last.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::signal;
/// let x = Aval::new(DType::F32, [1000]);
/// let (_, times, z) = eval_shape(|x: Array| signal::stft(&x), x)?;
/// assert_eq!(times.aval().to_string(), "f32[9]");
/// assert_eq!(z.aval().to_string(), "c64[129,9]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn stft(x: &Array) -> (Array, Array, Array) {
    stft_with(x, &StftOptions::default())
}

/// Returns [`stft`] with options.
///
/// Throws `Op` (shape) for an axis out of range, and `Op` (value) for lengths that do not fit: an
/// overlap as long as segments, a transform shorter than them, weights longer than the signal.
#[track_caller]
pub fn stft_with(x: &Array, options: &StftOptions) -> (Array, Array, Array) {
    let axis = axis_of("stft", options.axis, x);
    let [x] = common_inexact([x]);
    let lengths = SpectralOptions {
        window: options.window.clone(),
        nperseg: Some(options.nperseg),
        noverlap: options.noverlap,
        nfft: options.nfft,
        ..SpectralOptions::default()
    };
    let lengths = match options.window {
        // The weights determine the length, unless another one than the default is set.
        SpectralWindow::Weights(_) if options.nperseg == StftOptions::default().nperseg => {
            SpectralOptions { nperseg: None, ..lengths }
        }
        _ => lengths,
    };
    let segments = Segments::of("stft", &lengths, x.shape()[axis], x.dtype());
    Loc::caller().scope(|| {
        let half = segments.nperseg / 2;
        let mut y = extended(&moveaxis(&x, axis as isize, -1), half, options.boundary);
        let last = y.rank() - 1;
        if options.padded {
            let (n, step) = (y.shape()[last], segments.nperseg - segments.noverlap);
            let excess = (n - segments.nperseg) % step;
            let missing = if excess == 0 { 0 } else { step - excess };
            y = resized(&y, n + missing % segments.nperseg, last);
        }
        let sides = sides_for(x.dtype(), options.sides);
        let transforms = transforms_of_segments(&y, &segments, options.detrend, sides);
        let scaled = transforms * div(1.0, segments.window.sum().square()).sqrt();
        let real_dtype = x.dtype().real();
        let mut times = centres(&segments, y.shape()[last], options.fs, real_dtype);
        if options.boundary != SegmentBoundary::None {
            times -= segments.nperseg as f64 / 2.0 / options.fs;
        }
        let freqs = frequencies(segments.nfft, options.fs, sides, real_dtype);
        (freqs, times, moveaxis(&scaled, -1, axis as isize))
    })
}

/// Returns the signal whose short-time Fourier transform is `z`, `[…, n_frequencies, n_segments]`:
/// the times of the samples, and the signal along the last axis.
///
/// The least-squares estimate of Griffin and Lim (1984): segments are added up, weighted by the
/// window. Samples that no segment covers are not restored.
///
/// Throws `Op` (shape) for an array of rank below 2, and `Op` (value) for lengths that do not fit.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::signal;
/// let x = sin(&(arange(512.0) * 0.1));
/// let (_, _, z) = signal::stft(&x);
/// let (_, y) = signal::istft(&z);
/// let close = CloseOptions { atol: 1e-5, ..Default::default() };
/// assert!(allclose_with(&x, &y, close).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn istft(z: &Array) -> (Array, Array) {
    istft_with(z, &IstftOptions::default())
}

/// Returns [`istft`] with options. An odd length of segments needs [`IstftOptions::nperseg`].
#[track_caller]
pub fn istft_with(z: &Array, options: &IstftOptions) -> (Array, Array) {
    const NAME: &str = "istft";
    if z.rank() < 2 {
        throw_shape(NAME, format!("takes an array of rank 2 or more, got {}", z.rank()), &[z]);
    }
    let freq_axis = axis_of(NAME, options.freq_axis, z);
    let time_axis = axis_of(NAME, options.time_axis, z);
    if freq_axis == time_axis {
        throw_value(NAME, format!("axis {time_axis} is that of time and of frequencies"), &[z]);
    }
    let count = z.shape()[freq_axis];
    let is_one_sided = options.sides == SpectrumSides::OneSided;
    let usual = if is_one_sided { 2 * count.saturating_sub(1) } else { count };
    let nperseg = options.nperseg.unwrap_or(usual);
    if nperseg == 0 {
        throw_value(NAME, format!("{count} frequencies are too few for segments"), &[z]);
    }
    let is_odd = is_one_sided && nperseg == usual + 1;
    let nfft = options.nfft.unwrap_or(if is_odd { nperseg } else { usual });
    let noverlap = options.noverlap.unwrap_or(nperseg / 2);
    check_lengths(NAME, nperseg, noverlap, nfft);
    Loc::caller().scope(|| {
        let outer = (0..z.rank()).filter(|axis| ![freq_axis, time_axis].contains(axis));
        let order: Vec<usize> = outer.chain([time_axis, freq_axis]).collect();
        let z = transpose(z, &order);
        let along_last = fft::FftOptions { n: Some(nfft), ..fft::FftOptions::default() };
        let rows = match options.sides {
            SpectrumSides::OneSided => fft::irfft_with(&z, along_last),
            SpectrumSides::TwoSided => fft::ifft_with(&z, along_last),
        };
        let rows = part(&rows, 0..nperseg, rows.rank() - 1);
        let window = options.window.weights(NAME, nperseg, rows.dtype());
        let step = nperseg - noverlap;
        let frames = rows.shape()[rows.rank() - 2];
        let summed = overlap_add(&(rows * (&window * window.sum())), step);
        let squares = broadcast_to(&window.square(), [frames, nperseg]);
        let norm = overlap_add(&squares, step);
        let (mut x, mut norm) = (summed, norm);
        if options.boundary {
            let n = x.shape()[x.rank() - 1];
            let kept = nperseg / 2..n.saturating_sub(nperseg / 2).max(nperseg / 2);
            x = part(&x, kept.clone(), x.rank() - 1);
            norm = part(&norm, kept, 0);
        }
        let size = real_part(&norm);
        let x = x / where_(gt(&size, 1e-10), &norm, 1.0);
        let times = counting(x.shape()[x.rank() - 1], size.dtype()) / options.fs;
        let position = if freq_axis < time_axis { time_axis - 1 } else { time_axis };
        (times, moveaxis(&x, -1, position as isize))
    })
}

#[track_caller]
fn real_part(x: &Array) -> Array {
    if x.dtype().is_complex() { real(x) } else { x.clone() }
}

/// Adds rows `[…, n_rows, n]` to a signal, each `step` samples after the one before.
///
/// Rows are cut into blocks of `step` samples. Block `k` of all rows is one signal, shifted by `k`
/// blocks. Padding that makes each of these signals longer by one block than it is read shifts
/// them.
#[track_caller]
fn overlap_add(rows: &Array, step: usize) -> Array {
    let rank = rows.rank();
    let (count, n) = (rows.shape()[rank - 2], rows.shape()[rank - 1]);
    let outer: Vec<usize> = rows.shape()[..rank - 2].to_vec();
    let shape = |rest: &[usize]| -> Vec<usize> { outer.iter().chain(rest).copied().collect() };
    let blocks = n.div_ceil(step);
    let cut = resized(rows, blocks * step, rank - 1).reshape(shape(&[count, blocks, step]));
    let by_block = swapaxes(&cut, -2, -3);
    let padded = resized(&by_block, count + blocks, rank - 1);
    let flat = padded.reshape(shape(&[blocks * (count + blocks) * step]));
    let length = (count + blocks - 1) * step;
    let sheared = part(&flat, 0..blocks * length, rank - 2).reshape(shape(&[blocks, length]));
    part(&sheared.sum_axes(-2), 0..(count - 1) * step + n, rank - 2)
}
