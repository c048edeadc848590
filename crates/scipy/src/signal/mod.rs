//! Convolution, trends and spectra of signals, as in `jax.scipy.signal`.
//!
//! A signal is an array with one axis of time; further axes are independent signals. A function
//! `f(x, …)` has JAX's defaults, and `f_with` takes its options. Names differ from those of the
//! prelude, which has the convolution of vectors, so that both can be imported as a whole:
//!
//! ```
//! use oxidax::prelude::*;
//! use oxidax_scipy::signal::*;
//! let (x, y) = (array![1.0, 2.0, 3.0], array![0.0, 1.0]);
//! let vectors = convolve(&x, &y, ConvolveMode::Full);
//! assert_eq!(vectors.to_vec::<f32>()?, convolve_nd(&x, &y).to_vec::<f32>()?);
//! # Ok::<(), oxidax::Error>(())
//! ```

mod convolution;
mod detrend;
mod spectrum;
mod stft;
mod windows;

pub use convolution::{Convolve2dOptions, FftConvolveOptions};
pub use convolution::{
    ConvolveBoundary, ConvolveMethod, ConvolveOptions, convolve_nd, convolve_nd_with, convolve2d,
    convolve2d_with, correlate_nd, correlate_nd_with, correlate2d, correlate2d_with, fftconvolve,
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
