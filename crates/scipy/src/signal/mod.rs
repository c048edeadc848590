//! Convolution, trends and spectra of signals, as in `jax.scipy.signal`.
//!
//! A signal is an array with one axis of time; further axes are independent signals. A function
//! `f(x, …)` has JAX's defaults, and `f_with` takes its options.

mod convolution;
mod detrend;
mod spectrum;
mod stft;
mod windows;

pub use convolution::{Convolve2dOptions, FftConvolveOptions};
pub use convolution::{
    ConvolveBoundary, ConvolveMethod, ConvolveOptions, convolve, convolve_with, convolve2d,
    convolve2d_with, correlate, correlate_with, correlate2d, correlate2d_with, fftconvolve,
    fftconvolve_with,
};
pub use detrend::{DetrendOptions, DetrendType, detrend, detrend_with};
pub use oxidax::ops::ConvolveMode;
pub use spectrum::{
    SegmentAverage, SegmentDetrend, SpectralOptions, SpectralScaling, SpectrumSides, csd, csd_with,
    welch, welch_with,
};
pub use stft::{IstftOptions, SegmentBoundary, StftOptions, istft, istft_with, stft, stft_with};
pub use windows::{SpectralWindow, get_window};
