//! How an array prints: its elements, in brackets and columns, as NumPy users are used to.

use crate::core::array::array::Array;
use crate::core::array::host_array::HostArray;
use crate::core::types::dtype::DType;
use std::fmt;

/// Arrays with more elements than this show the edges of each axis only.
const THRESHOLD: usize = 1000;
/// How many elements are shown at either end of an abridged axis.
const EDGE: usize = 3;
/// Digits after the point at most.
const PRECISION: usize = 8;

impl fmt::Display for Array {
    /// The elements, waiting for them. More than 1000 are abridged to the ends of each axis; a
    /// precision as in `{:.3}` sets the digits after the point, at most 8 without one. A traced
    /// array prints its type; one whose computation failed prints the error.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let x = Array::from_slice(&[1.0f32, -2.5, 3.0, 0.25], [2, 2])?;
    /// assert_eq!(x.to_string(), "[[ 1.    -2.5 ]\n [ 3.     0.25]]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_traced() {
            return write!(f, "{self:?}");
        }
        match self.to_host() {
            Ok(elements) => elements.fmt(f),
            Err(error) => write!(f, "{self:?}: {error}"),
        }
    }
}

impl fmt::Display for HostArray {
    /// As a concrete [`Array`] prints.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let abridged = self.aval().size() > THRESHOLD;
        let texts = texts(self, abridged, f.precision());
        let width = texts.iter().map(String::len).max().unwrap_or(0);
        let mut rows = Rows { texts: texts.into_iter(), width, abridged };
        rows.write(f, self.shape().dims(), 1)
    }
}

/// Which positions of an axis are shown.
fn shown(size: usize, abridged: bool) -> impl Iterator<Item = usize> {
    let hidden = match abridged && size > 2 * EDGE {
        true => EDGE..size - EDGE,
        false => 0..0,
    };
    (0..size).filter(move |at| !hidden.contains(at))
}

/// The row-major positions of the elements that are shown.
fn positions(dims: &[usize], abridged: bool) -> Vec<usize> {
    dims.iter().fold(vec![0], |outer, &size| {
        outer.iter().flat_map(|at| shown(size, abridged).map(move |i| at * size + i)).collect()
    })
}

/// One text per element that is shown.
fn texts(x: &HostArray, abridged: bool, precision: Option<usize>) -> Vec<String> {
    let at = positions(x.shape().dims(), abridged);
    let dtype = x.dtype();
    if dtype.is_bool() || dtype.is_integer() {
        let elements = x.integers();
        let text = |at: &usize| match dtype {
            DType::Bool => (elements[*at] != 0).to_string(),
            _ => elements[*at].to_string(),
        };
        return at.iter().map(text).collect();
    }
    let elements = x.numbers();
    let single = !matches!(dtype, DType::F64 | DType::C128);
    let real = floats(at.iter().map(|&at| elements[at].re), single, precision);
    if !dtype.is_complex() {
        return real;
    }
    let imaginary = floats(at.iter().map(|&at| elements[at].im), single, precision);
    let both = real.into_iter().zip(imaginary);
    both.map(|(re, im)| match im.starts_with('-') {
        true => format!("{re}{im}j"),
        false => format!("{re}+{im}j"),
    })
    .collect()
}

/// Floats with their points below each other: in the shortest digits that tell them apart, padded to
/// the longest, or in powers of ten where magnitudes lie far apart.
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
        // Zeros at the end give way to blanks, so that points stay below each other; a precision
        // that was asked for is kept.
        if precision.is_some() {
            return text;
        }
        match text.contains('.') {
            true => {
                let kept = text.trim_end_matches('0').len();
                format!("{}{}", &text[..kept], " ".repeat(text.len() - kept))
            }
            false => format!("{text}."),
        }
    };
    values.map(one).collect()
}

struct Rows<I> {
    texts: I,
    width: usize,
    abridged: bool,
}

impl<I: Iterator<Item = String>> Rows<I> {
    /// Writes the next sub-array; `depth` is the number of brackets open within it.
    fn write(&mut self, f: &mut fmt::Formatter<'_>, dims: &[usize], depth: usize) -> fmt::Result {
        let Some((&size, inner)) = dims.split_first() else {
            let text = self.texts.next().unwrap_or_default();
            // An array without axes has nothing to be aligned with.
            return match depth {
                1 => f.write_str(text.trim_end()),
                _ => write!(f, "{text:>width$}", width = self.width),
            };
        };
        f.write_str("[")?;
        let mut next = 0;
        for (order, at) in shown(size, self.abridged).enumerate() {
            let line = format!("{}{}", "\n".repeat(inner.len()), " ".repeat(depth));
            let between = if inner.is_empty() { " " } else { &line };
            if order > 0 {
                f.write_str(between)?;
            }
            if at > next {
                write!(f, "...{between}")?;
            }
            self.write(f, inner, depth + 1)?;
            next = at + 1;
        }
        f.write_str("]")
    }
}
