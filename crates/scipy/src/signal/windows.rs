//! Windows that segments of a signal are multiplied by.

use crate::operands::{constant_vector, throw_shape, throw_value};
use oxidax::prelude::*;
use std::f64::consts::PI;

/// Window of the spectral functions, by name and parameters, or as an array.
///
/// Windows by name are periodic, as `scipy.signal.get_window` returns them.
#[derive(Clone, Debug, Default)]
pub enum SpectralWindow {
    /// `0.5 - 0.5 cos(2πi / n)`.
    #[default]
    Hann,
    /// `0.54 - 0.46 cos(2πi / n)`.
    Hamming,
    /// `0.42 - 0.5 cos(2πi / n) + 0.08 cos(4πi / n)`.
    Blackman,
    /// The Blackman-Harris window of four terms (Harris 1978).
    BlackmanHarris,
    /// Nuttall's window of four terms (Nuttall 1981).
    Nuttall,
    /// A window of five terms with a flat main lobe (D'Antona and Ferrero 2006).
    FlatTop,
    /// Ones.
    Boxcar,
    /// A triangle that ends at 0.
    Bartlett,
    /// A triangle that does not reach 0.
    Triangle,
    /// `sin(π (i + 0.5) / n)`.
    Cosine,
    /// `(1 - |u|) cos(π|u|) + sin(π|u|) / π` for `u` from -1 to 1.
    Bohman,
    /// Parzen's window: piecewise cubic.
    Parzen,
    /// The Kaiser window with the parameter `beta`.
    Kaiser(f64),
    /// `exp(-(t / std)² / 2)`, with `t` counted from the centre.
    Gaussian(f64),
    /// `exp(-|t / sigma|^(2 power) / 2)`, with `t` counted from the centre.
    GeneralGaussian {
        /// The exponent, 1 for a Gaussian.
        power: f64,
        /// The width.
        sigma: f64,
    },
    /// `alpha - (1 - alpha) cos(2πi / n)`.
    GeneralHamming(f64),
    /// A cosine rise and fall over the share `alpha` of the window, and ones between them.
    Tukey(f64),
    /// `exp(-|t| / tau)`, with `t` counted from the centre.
    Exponential(f64),
    /// The weights: a vector.
    Weights(Array),
}

impl From<&Array> for SpectralWindow {
    fn from(weights: &Array) -> SpectralWindow {
        SpectralWindow::Weights(weights.clone())
    }
}

/// Names of windows without parameters.
const NAMES: [(&str, SpectralWindow); 18] = [
    ("hann", SpectralWindow::Hann),
    ("hanning", SpectralWindow::Hann),
    ("hamming", SpectralWindow::Hamming),
    ("blackman", SpectralWindow::Blackman),
    ("blackmanharris", SpectralWindow::BlackmanHarris),
    ("nuttall", SpectralWindow::Nuttall),
    ("flattop", SpectralWindow::FlatTop),
    ("boxcar", SpectralWindow::Boxcar),
    ("box", SpectralWindow::Boxcar),
    ("ones", SpectralWindow::Boxcar),
    ("rectangular", SpectralWindow::Boxcar),
    ("bartlett", SpectralWindow::Bartlett),
    ("triang", SpectralWindow::Triangle),
    ("triangle", SpectralWindow::Triangle),
    ("cosine", SpectralWindow::Cosine),
    ("bohman", SpectralWindow::Bohman),
    ("parzen", SpectralWindow::Parzen),
    ("tukey", SpectralWindow::Tukey(0.5)),
];

impl SpectralWindow {
    /// Returns the window with one of SciPy's names: `hann`, `hamming`, `blackman`, …
    ///
    /// Throws `Op` (value) for a name that is not known, or that needs a parameter.
    #[track_caller]
    pub fn named(name: &str) -> SpectralWindow {
        match NAMES.iter().find(|(known, _)| *known == name) {
            Some((_, window)) => window.clone(),
            None => {
                let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
                let message = format!("`{name}` is not one of {}", known.join(", "));
                throw_value("get_window", message, &[])
            }
        }
    }

    /// Returns the weights of a window of `n` elements in the dtype.
    #[track_caller]
    pub(super) fn weights(&self, name: &str, n: usize, dtype: DType) -> Array {
        if let SpectralWindow::Weights(weights) = self {
            if weights.shape().dims() != [n] {
                let message =
                    format!("the window must be a vector of {n} weights, got {}", weights.shape());
                throw_shape(name, message, &[weights]);
            }
            return weights.astype(dtype);
        }
        constant_vector(&self.periodic(n), dtype)
    }

    /// Returns the weights of a periodic window: those of a symmetric one that is longer by one.
    fn periodic(&self, n: usize) -> Vec<f64> {
        if n <= 1 {
            return vec![1.0; n];
        }
        // The number of intervals of the longer window is `n`.
        let last = n as f64;
        (0..n).map(|index| self.weight(index as f64, last)).collect()
    }

    /// Returns the weight at `index` of a symmetric window with `last + 1` elements.
    fn weight(&self, index: f64, last: f64) -> f64 {
        let cosines = |coefficients: &[f64]| -> f64 {
            let angle = 2.0 * PI * index / last;
            let terms = coefficients.iter().enumerate();
            terms.map(|(k, a)| if k % 2 == 0 { *a } else { -a } * (k as f64 * angle).cos()).sum()
        };
        // Distance from the centre, in elements and relative to half of the window.
        let t = index - last / 2.0;
        let u = (2.0 * t / last).abs();
        match *self {
            SpectralWindow::Hann => cosines(&[0.5, 0.5]),
            SpectralWindow::Hamming => cosines(&[0.54, 0.46]),
            SpectralWindow::GeneralHamming(alpha) => cosines(&[alpha, 1.0 - alpha]),
            SpectralWindow::Blackman => cosines(&[0.42, 0.5, 0.08]),
            SpectralWindow::BlackmanHarris => cosines(&[0.35875, 0.48829, 0.14128, 0.01168]),
            SpectralWindow::Nuttall => cosines(&[0.3635819, 0.4891775, 0.1365995, 0.0106411]),
            SpectralWindow::FlatTop => {
                cosines(&[0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368])
            }
            SpectralWindow::Boxcar => 1.0,
            SpectralWindow::Bartlett => 1.0 - u,
            SpectralWindow::Triangle => {
                let n = last + 1.0;
                let width = if n % 2.0 == 0.0 { n } else { n + 1.0 };
                1.0 - (2.0 * t).abs() / width
            }
            SpectralWindow::Cosine => (PI * (index + 0.5) / (last + 1.0)).sin(),
            SpectralWindow::Bohman if u >= 1.0 => 0.0,
            SpectralWindow::Bohman => (1.0 - u) * (PI * u).cos() + (PI * u).sin() / PI,
            SpectralWindow::Parzen => {
                let v = 2.0 * t.abs() / (last + 1.0);
                if t.abs() <= last / 4.0 {
                    1.0 - 6.0 * v * v + 6.0 * v * v * v
                } else {
                    2.0 * (1.0 - v).powi(3)
                }
            }
            SpectralWindow::Kaiser(beta) => {
                bessel_i0(beta * (1.0 - u * u).max(0.0).sqrt()) / bessel_i0(beta)
            }
            SpectralWindow::Gaussian(std) => (-0.5 * (t / std).powi(2)).exp(),
            SpectralWindow::GeneralGaussian { power, sigma } => {
                (-0.5 * (t / sigma).abs().powf(2.0 * power)).exp()
            }
            SpectralWindow::Tukey(alpha) if alpha <= 0.0 => 1.0,
            SpectralWindow::Tukey(alpha) => {
                let rise = alpha.min(1.0) * last / 2.0;
                let from_edge = index.min(last - index);
                if from_edge >= rise { 1.0 } else { 0.5 - 0.5 * (PI * from_edge / rise).cos() }
            }
            SpectralWindow::Exponential(tau) => (-t.abs() / tau).exp(),
            SpectralWindow::Weights(_) => unreachable!("weights are not computed"),
        }
    }
}

/// Returns the modified Bessel function of order 0, from its power series.
fn bessel_i0(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    while term > sum * f64::EPSILON / 4.0 {
        term *= quarter / (k * k);
        sum += term;
        k += 1.0;
    }
    sum
}

/// Returns a periodic window of `n` elements, as `scipy.signal.get_window` does: `f32[n]`.
///
/// Throws `Op` (shape) for an array of weights that is not a vector of `n` elements.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::signal::{SpectralWindow, get_window};
/// assert_eq!(get_window(&SpectralWindow::Hann, 4).to_vec::<f32>()?, [0.0, 0.5, 1.0, 0.5]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn get_window(window: &SpectralWindow, n: usize) -> Array {
    window.weights("get_window", n, DType::F32)
}
