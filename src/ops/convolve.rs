//! Convolution and correlation of vectors.

use crate::core::{Array, DType, Loc, RuleError, promote, trace};
use crate::primitives::{
    ConvGeneralDilated, Padding, Precision, conj, conv_general_dilated, convert_to, inexact,
    reshape, rev,
};

/// Part of a convolution of vectors that is computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConvolveMode {
    /// All `n + m - 1` elements.
    #[default]
    Full,
    /// The elements in the middle, as many as the longer vector has.
    Same,
    /// The `max(n, m) - min(n, m) + 1` elements for which the vectors overlap completely.
    Valid,
}

/// Options of [`convolve_with`] and [`correlate_with`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorConvolutionOptions {
    /// The precision of the products. The default is [`Precision::Highest`].
    pub precision: Precision,
    /// The dtype of sums and result. The default is the dtype that the vectors promote to.
    pub preferred_element_type: Option<DType>,
}

impl Default for VectorConvolutionOptions {
    fn default() -> Self {
        VectorConvolutionOptions { precision: Precision::Highest, preferred_element_type: None }
    }
}

#[track_caller]
fn vectors(name: &str, x: &Array, y: &Array) -> [Array; 2] {
    Loc::caller().scope(|| {
        if x.rank() != 1 || y.rank() != 1 || x.size() == 0 || y.size() == 0 {
            let error = RuleError::shape(format!(
                "takes two vectors with at least one element, got {} and {}",
                x.aval(),
                y.aval()
            ));
            trace::throw_operands(name, error, &[x, y]);
        }
        match promote((x.dtype(), x.aval().weak), (y.dtype(), y.aval().weak)) {
            Some((dtype, weak)) => [x, y].map(|x| inexact(&convert_to(x, dtype, weak))),
            None => {
                let message = format!("{} and {} have no implicit promotion", x.dtype(), y.dtype());
                let error = RuleError::dtype(message).help("convert one of them with `astype`");
                trace::throw_operands(name, error, &[x, y])
            }
        }
    })
}

/// Returns the dot products of `long` and the kernel `short` at the offsets that `mode` selects.
#[track_caller]
fn sliding_dot(
    long: &Array,
    short: &Array,
    mode: ConvolveMode,
    options: VectorConvolutionOptions,
) -> Array {
    let m = short.size() as isize;
    let pads = match mode {
        ConvolveMode::Full => (m - 1, m - 1),
        ConvolveMode::Same => (m / 2, m - m / 2 - 1),
        ConvolveMode::Valid => (0, 0),
    };
    let options = ConvGeneralDilated {
        padding: Padding::Explicit(vec![pads]),
        precision: [options.precision; 2],
        preferred_element_type: options.preferred_element_type,
        ..ConvGeneralDilated::default()
    };
    let [long, short] = [long, short].map(|x| reshape(x, [1, 1, x.size()]));
    let y = conv_general_dilated(&long, &short, options);
    reshape(&y, [y.size()])
}

/// Returns the convolution of two vectors, `z[k] = sum(x[i] * y[k - i])`. Integers become floats.
/// JAX's default mode is [`ConvolveMode::Full`].
///
/// Throws `Op` (shape) unless both are vectors with at least one element.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, y) = (Aval::new(DType::F32, [8]), Aval::new(DType::F32, [3]));
/// let z = eval_shape(|x: Array, y: Array| convolve(&x, &y, ConvolveMode::Full), (x, y))?;
/// assert_eq!(z.aval().to_string(), "f32[10]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn convolve(x: &Array, y: &Array, mode: ConvolveMode) -> Array {
    convolve_with(x, y, mode, VectorConvolutionOptions::default())
}

/// Returns the convolution of two vectors, as [`convolve`], with another precision or dtype of the
/// sums.
#[track_caller]
pub fn convolve_with(
    x: &Array,
    y: &Array,
    mode: ConvolveMode,
    options: VectorConvolutionOptions,
) -> Array {
    let [x, y] = vectors("convolve", x, y);
    let (long, short) = if x.size() < y.size() { (&y, &x) } else { (&x, &y) };
    sliding_dot(long, &rev(short, &[0]), mode, options)
}

/// Returns the correlation of two vectors, `z[k] = sum(x[i + k] * conj(y[i]))`. Integers become
/// floats. JAX's default mode is [`ConvolveMode::Valid`].
///
/// Throws `Op` (shape) unless both are vectors with at least one element.
#[track_caller]
pub fn correlate(x: &Array, y: &Array, mode: ConvolveMode) -> Array {
    correlate_with(x, y, mode, VectorConvolutionOptions::default())
}

/// Returns the correlation of two vectors, as [`correlate`], with another precision or dtype of the
/// sums.
#[track_caller]
pub fn correlate_with(
    x: &Array,
    y: &Array,
    mode: ConvolveMode,
    options: VectorConvolutionOptions,
) -> Array {
    let [x, y] = vectors("correlate", x, y);
    let y = if y.dtype().is_complex() { conj(&y) } else { y };
    if x.size() < y.size() {
        rev(&sliding_dot(&y, &x, mode, options), &[0])
    } else {
        sliding_dot(&x, &y, mode, options)
    }
}
