//! Printing of arrays in the style of NumPy.

use crate::core::array::array::Array;
use crate::core::array::capture;
use crate::core::array::host_array::HostArray;
use crate::core::error::{Loc, throw};
use crate::core::types::dtype::DType;
use std::fmt;

/// Arrays with more elements than this print only the edges of each axis.
const THRESHOLD: usize = 1000;
/// The number of elements printed at either end of an abridged axis.
const EDGE: usize = 3;
/// The maximum number of digits after the decimal point.
const PRECISION: usize = 8;

impl fmt::Display for Array {
    /// Waits for the elements and writes them. More than 1000 are abridged to the ends of each
    /// axis. A precision as in `{:.3}` sets the digits after the decimal point, which are at most 8
    /// without it. A traced array prints its type.
    ///
    /// Throws `Runtime` if the computation of the elements failed.
    /// While the thread is panicking, the error is written instead.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let x = Array::from_slice(&[1.0f32, -2.5, 3.0, 0.25], [2, 2])?;
    /// assert_eq!(x.to_string(), "[[ 1.   -2.5 ]\n [ 3.    0.25]]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(marked) = capture::mark(self, f) {
            return marked;
        }
        if self.is_traced() {
            return write!(f, "{self:?}");
        }
        // The line that prints is not known here.
        match self.elements(Loc::UNKNOWN) {
            Ok(elements) => elements.fmt(f),
            // A second panic would end the process.
            Err(error) if std::thread::panicking() => {
                write!(f, "{self:?} has no elements: {error}")
            }
            Err(error) => throw(error),
        }
    }
}

impl fmt::Display for HostArray {
    /// Writes the elements as for a concrete [`Array`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let abridged = self.aval().size() > THRESHOLD;
        let texts = texts(self, abridged, f.precision());
        let width = texts.iter().map(String::len).max().unwrap_or(0);
        let mut rows = Rows { texts: texts.into_iter(), width, abridged };
        rows.write(f, self.shape().dims(), 1)
    }
}

/// Returns the indices of an axis that are printed.
fn printed_indices(size: usize, abridged: bool) -> impl Iterator<Item = usize> {
    let omitted = if abridged && size > 2 * EDGE { EDGE..size - EDGE } else { 0..0 };
    (0..size).filter(move |index| !omitted.contains(index))
}

/// Returns the row-major offsets of the elements that are printed.
fn offsets(dims: &[usize], abridged: bool) -> Vec<usize> {
    dims.iter().fold(vec![0], |outer, &size| {
        let inner = |&offset: &usize| {
            printed_indices(size, abridged).map(move |index| offset * size + index)
        };
        outer.iter().flat_map(inner).collect()
    })
}

/// Returns the text of each printed element.
fn texts(x: &HostArray, abridged: bool, precision: Option<usize>) -> Vec<String> {
    let offsets = offsets(x.shape().dims(), abridged);
    let dtype = x.dtype();
    if dtype.is_bool() || dtype.is_integer() {
        let elements = x.integers();
        let text = |&offset: &usize| match dtype {
            DType::Bool => (elements[offset] != 0).to_string(),
            _ => elements[offset].to_string(),
        };
        return offsets.iter().map(text).collect();
    }
    let elements = x.numbers();
    let single = !matches!(dtype, DType::F64 | DType::C128);
    let real = floats(offsets.iter().map(|&offset| elements[offset].re), single, precision);
    if !dtype.is_complex() {
        return real;
    }
    let imaginary = floats(offsets.iter().map(|&offset| elements[offset].im), single, precision);
    let parts = real.into_iter().zip(imaginary);
    parts
        .map(|(re, im)| {
            let sign = if im.starts_with('-') { "" } else { "+" };
            format!("{re}{sign}{im}j")
        })
        .collect()
}

/// Formats floats with aligned decimal points. Uses the shortest digits that distinguish values,
/// padded to the longest, or scientific notation if magnitudes differ widely.
fn floats(
    values: impl Iterator<Item = f64> + Clone,
    single: bool,
    precision: Option<usize>,
) -> Vec<String> {
    let magnitudes = values.clone().filter(|x| x.is_finite() && *x != 0.0).map(f64::abs);
    let (small, large) = magnitudes.fold((f64::INFINITY, 0.0), |(s, l), x| (x.min(s), x.max(l)));
    let powers = large >= 1e8 || small < 1e-4 || large > small * 1e3 && large >= 1e6;
    let shortest = |x: f64| match (single, powers) {
        (true, true) => format!("{:e}", x as f32),
        (true, false) => format!("{}", x as f32),
        (false, true) => format!("{x:e}"),
        (false, false) => format!("{x}"),
    };
    let digits = |x: f64| {
        let text = shortest(x);
        let mantissa = text.split('e').next().unwrap_or_default();
        mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len())
    };
    let finite = values.clone().filter(|x| x.is_finite());
    let longest = finite.map(digits).max().unwrap_or(0).min(PRECISION);
    let n = precision.unwrap_or(longest);
    let one = |x: f64| {
        let text = match powers {
            _ if x.is_nan() => return "nan".to_string(),
            _ if x.is_infinite() => return if x > 0.0 { "inf" } else { "-inf" }.to_string(),
            true => return format!("{x:.n$e}"),
            false => format!("{x:.n$}"),
        };
        // Trailing zeros become blanks to keep points aligned, unless a precision is requested.
        if precision.is_some() {
            return text;
        }
        if !text.contains('.') {
            return format!("{text}.");
        }
        let trimmed = text.trim_end_matches('0');
        format!("{trimmed}{}", " ".repeat(text.len() - trimmed.len()))
    };
    values.map(one).collect()
}

struct Rows<I> {
    texts: I,
    width: usize,
    abridged: bool,
}

impl<I: Iterator<Item = String>> Rows<I> {
    /// Writes the next sub-array. `depth` is the number of open brackets.
    fn write(&mut self, f: &mut fmt::Formatter<'_>, dims: &[usize], depth: usize) -> fmt::Result {
        let Some((&size, inner)) = dims.split_first() else {
            let text = self.texts.next().unwrap_or_default();
            // A scalar is not aligned with anything.
            return match depth {
                1 => f.write_str(text.trim_end()),
                _ => write!(f, "{text:>width$}", width = self.width),
            };
        };
        f.write_str("[")?;
        let mut next = 0;
        for (order, index) in printed_indices(size, self.abridged).enumerate() {
            let line = format!("{}{}", "\n".repeat(inner.len()), " ".repeat(depth));
            let separator = if inner.is_empty() { " " } else { &line };
            if order > 0 {
                f.write_str(separator)?;
            }
            if index > next {
                write!(f, "...{separator}")?;
            }
            self.write(f, inner, depth + 1)?;
            next = index + 1;
        }
        f.write_str("]")
    }
}
