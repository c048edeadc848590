//! [`Range`]: the smallest and largest number of an array, and its NaN and infinities.

use crate::core::{Array, Aval, Error, HostArray};
use std::fmt;

/// The numbers of an array: the finite range, and the number of NaN and infinities.
///
/// Prints as `f32[3]  -2 to 4.5, 1 NaN`. Complex numbers count by their absolute values.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Range {
    /// The type.
    pub aval: Aval,
    /// The smallest finite number; `None` if there is none.
    pub min: Option<f64>,
    /// The largest finite number; `None` if there is none.
    pub max: Option<f64>,
    /// The number of NaN.
    pub nan: usize,
    /// The number of infinities.
    pub infinite: usize,
}

impl Range {
    /// Reads the numbers of an array.
    ///
    /// # Errors
    /// `Runtime` if its computation failed.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax::replay::Range;
    /// let x = Array::from_slice(&[1.0f32, f32::NAN, -2.5, f32::INFINITY], [4])?;
    /// let range = Range::of(&x)?;
    /// assert_eq!((range.min, range.max), (Some(-2.5), Some(1.0)));
    /// assert_eq!((range.nan, range.infinite), (1, 1));
    /// assert_eq!(range.to_string(), "f32[4]  -2.5 to 1, 1 NaN, 1 infinite");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn of(array: &Array) -> Result<Range, Error> {
        Ok(Range::of_host(&array.to_host()?, array.aval()))
    }

    /// Reads the numbers of an array on the host. `aval` is its type on the device.
    pub(super) fn of_host(array: &HostArray, aval: &Aval) -> Range {
        let mut range = Range { aval: aval.clone(), min: None, max: None, nan: 0, infinite: 0 };
        let is_complex = array.dtype().is_complex();
        for z in array.iter_numbers() {
            if z.is_nan() {
                range.nan += 1;
            } else if z.is_infinite() {
                range.infinite += 1;
            } else {
                let x = if is_complex { z.norm() } else { z.re };
                range.min = Some(range.min.map_or(x, |min| min.min(x)));
                range.max = Some(range.max.map_or(x, |max| max.max(x)));
            }
        }
        range
    }

    /// Returns true if the array holds a NaN.
    pub(super) fn has_nan(&self) -> bool {
        self.nan > 0
    }

    /// Returns true if the array holds an infinity.
    pub(super) fn has_infinity(&self) -> bool {
        self.infinite > 0
    }
}

/// Formats a number with at most five significant digits.
fn short(x: f64) -> String {
    match x.abs() {
        0.0 => "0".into(),
        size if (1e-4..1e7).contains(&size) => {
            let digits = (4 - size.log10().floor() as i32).clamp(0, 8) as usize;
            let text = format!("{x:.digits$}");
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
                false => text,
            }
        }
        _ => format!("{x:.4e}"),
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  ", self.aval)?;
        match (self.min, self.max) {
            (Some(min), Some(max)) if min == max => write!(f, "{}", short(min))?,
            (Some(min), Some(max)) => write!(f, "{} to {}", short(min), short(max))?,
            _ if self.aval.size() == 0 => f.write_str("empty")?,
            _ => f.write_str("no finite number")?,
        }
        if self.nan > 0 {
            write!(f, ", {} NaN", self.nan)?;
        }
        if self.infinite > 0 {
            write!(f, ", {} infinite", self.infinite)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, -2.5, 784.0, 0.1f32.into(), 1234567.0, 3.2e-9, -1e20].map(short);
        assert_eq!(texts, ["0", "-2.5", "784", "0.1", "1234567", "3.2000e-9", "-1.0000e20"]);
    }
}
