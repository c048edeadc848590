//! Convolution of vectors, as NumPy has it.

use crate::core::{Array, RuleError, promote, trace};
use crate::primitives::{
    ConvGeneralDilated, Padding, Precision, conj, conv_general_dilated, convert_to, inexact,
    reshape, rev,
};

/// Which part of a convolution of vectors is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConvolveMode {
    /// Everything, `n + m - 1` elements.
    #[default]
    Full,
    /// The middle, as long as the longer vector.
    Same,
    /// Where the vectors overlap completely, `max(n, m) - min(n, m) + 1` elements.
    Valid,
}

#[track_caller]
fn vectors(name: &str, x: &Array, y: &Array) -> [Array; 2] {
    if x.rank() != 1 || y.rank() != 1 || x.size() == 0 || y.size() == 0 {
        let error = RuleError::shape(format!(
            "needs two vectors that are not empty, got {} and {}",
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
}

/// Products of `long` and the kernel `short` at all places that the mode wants.
#[track_caller]
fn slid(long: &Array, short: &Array, mode: ConvolveMode) -> Array {
    let m = short.size() as isize;
    let pads = match mode {
        ConvolveMode::Full => (m - 1, m - 1),
        ConvolveMode::Same => (m / 2, m - m / 2 - 1),
        ConvolveMode::Valid => (0, 0),
    };
    let how = ConvGeneralDilated {
        padding: Padding::Explicit(vec![pads]),
        precision: [Precision::Highest; 2],
        ..ConvGeneralDilated::default()
    };
    let [long, short] = [long, short].map(|x| reshape(x, [1, 1, x.size()]));
    let y = conv_general_dilated(&long, &short, how);
    reshape(&y, [y.size()])
}

/// Convolution of two vectors, `z[k] = sum(x[i] * y[k - i])`, as far as `mode` wants it. Integers become
/// floats.
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
    let [x, y] = vectors("convolve", x, y);
    let (long, short) = if x.size() < y.size() { (&y, &x) } else { (&x, &y) };
    slid(long, &rev(short, &[0]), mode)
}

/// Correlation of two vectors, `z[k] = sum(x[i + k] * conj(y[i]))`, as far as `mode` wants it. Integers
/// become floats.
///
/// Throws `Op` (shape) unless both are vectors with at least one element.
#[track_caller]
pub fn correlate(x: &Array, y: &Array, mode: ConvolveMode) -> Array {
    let [x, y] = vectors("correlate", x, y);
    let y = if y.dtype().is_complex() { conj(&y) } else { y };
    match x.size() < y.size() {
        true => rev(&slid(&y, &x, mode), &[0]),
        false => slid(&x, &y, mode),
    }
}
