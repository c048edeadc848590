//! Comparison of elements within a tolerance.

use oxidax::prelude::*;
use serde_json::Value;
use std::fmt;

/// A real number: its value, and its rank among the numbers of its dtype.
#[derive(Clone, Copy)]
struct Number {
    value: f64,
    place: i128,
}

fn numbers(dtype: DType, bytes: &[u8]) -> Vec<Number> {
    let part = dtype.real();
    bytes
        .chunks_exact(part.host_bytes())
        .map(|chunk| {
            let mut wide = [0; 8];
            wide[..chunk.len()].copy_from_slice(chunk);
            let bits = u64::from_le_bytes(wide);
            let sign = 1u64 << (part.bits() - 1);
            let value = match part {
                DType::F64 => f64::from_bits(bits),
                DType::F32 => f32::from_bits(bits as u32).into(),
                DType::F16 => half::f16::from_bits(bits as u16).into(),
                DType::BF16 => half::bf16::from_bits(bits as u16).into(),
                _ if part.is_signed() && bits & sign != 0 => bits as f64 - 2.0 * sign as f64,
                _ => bits as f64,
            };
            // Magnitudes of floats are ordered like their bits; -0 is just below 0.
            let place = match part.is_float() && bits & sign != 0 {
                true => -i128::from(bits & !sign) - 1,
                false => i128::from(bits),
            };
            Number { value, place }
        })
        .collect()
}

/// Elements that differ by more than the tolerance.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mismatch {
    /// Number of elements that differ, and of all. Parts of complex numbers count separately.
    pub(crate) n_wrong: usize,
    pub(crate) n: usize,
    /// Index of the element with the largest relative difference, and the difference.
    pub(crate) index: usize,
    pub(crate) relative: f64,
    /// The values of this element.
    pub(crate) found: f64,
    pub(crate) expected: f64,
    /// The largest difference in units in the last place.
    units: i128,
    /// The first of them: index, found and expected.
    first: Vec<(usize, f64, f64)>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { n_wrong, n, index, relative, found, expected, units, first } = self;
        let rows: Vec<String> = first
            .iter()
            .map(|(at, found, expected)| format!("[{at}] {found:?} against {expected:?}"))
            .collect();
        write!(f, "{n_wrong} of {n} numbers differ, by up to {units} units: {}", rows.join(", "))?;
        write!(f, "; most at [{index}], by {relative:.1e}: {found:?} against {expected:?}")
    }
}

/// Returns the elements that differ by more than the tolerance, if there are any.
pub(crate) fn mismatch(
    dtype: DType,
    found: &[u8],
    expected: &[u8],
    tolerance: &Value,
) -> Option<Mismatch> {
    let (found, expected) = (numbers(dtype, found), numbers(dtype, expected));
    let ulp = tolerance["ulp_pinned"].as_u64().or(tolerance["ulp"].as_u64()).map(i128::from);
    let (rtol, atol) = (tolerance["rtol"].as_f64(), tolerance["atol"].as_f64());
    let near = |x: &Number, y: &Number| {
        let nan = x.value.is_nan() && y.value.is_nan();
        let zeros = x.value == 0.0 && y.value == 0.0 && ulp != Some(0);
        let infinite = x.value.is_infinite() || y.value.is_infinite();
        let close = match (ulp, rtol, atol) {
            (Some(ulp), ..) => (x.place - y.place).abs() <= ulp,
            (None, Some(rtol), Some(atol)) if dtype.is_inexact() => {
                (x.value - y.value).abs() <= atol + rtol * y.value.abs()
            }
            _ => x.place == y.place,
        };
        nan || zeros || if infinite { x.value == y.value } else { close }
    };
    let wrong: Vec<usize> =
        (0..found.len()).filter(|&at| !near(&found[at], &expected[at])).collect();
    let relative = |at: usize| {
        let (x, y) = (found[at].value, expected[at].value);
        let relative = (x - y).abs() / y.abs();
        if relative.is_nan() { f64::INFINITY } else { relative }
    };
    let index = wrong.iter().copied().max_by(|&a, &b| relative(a).total_cmp(&relative(b)))?;
    let apart = |at: &usize| (found[*at].place - expected[*at].place).abs();
    let value = |at: usize| (at, found[at].value, expected[at].value);
    Some(Mismatch {
        n_wrong: wrong.len(),
        n: found.len(),
        index,
        relative: relative(index),
        found: found[index].value,
        expected: expected[index].value,
        units: wrong.iter().map(apart).max().unwrap_or(0),
        first: wrong.iter().take(4).map(|&at| value(at)).collect(),
    })
}

/// Returns a description of the elements that differ by more than the tolerance, with the first
/// values side by side.
#[cfg(test)]
pub(crate) fn difference(
    dtype: DType,
    found: &[u8],
    expected: &[u8],
    tolerance: &Value,
) -> Option<String> {
    mismatch(dtype, found, expected, tolerance).map(|mismatch| mismatch.to_string())
}

#[test]
fn differences_are_detected() {
    let bytes = |values: [f32; 2]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let differs = |x: [f32; 2], y: [f32; 2], tolerance: &str| {
        let tolerance = serde_json::from_str(tolerance).unwrap();
        difference(DType::F32, &bytes(x), &bytes(y), &tolerance).is_some()
    };
    let next = f32::from_bits(1.0f32.to_bits() + 1);
    assert!(differs([0.0, 1.0], [0.0, next], r#"{"ulp": 0}"#));
    assert!(!differs([0.0, 1.0], [0.0, next], r#"{"ulp": 1}"#));
    assert!(differs([0.0, 1.0], [0.0, next], r#"{"ulp": 8, "ulp_pinned": 0}"#));
    assert!(differs([-0.0, 1.0], [0.0, 1.0], r#"{"ulp": 0}"#));
    assert!(!differs([-0.0, f32::NAN], [0.0, -f32::NAN], r#"{"rtol": 0, "atol": 0}"#));
    assert!(differs([0.0, f32::INFINITY], [0.0, f32::MAX], r#"{"rtol": 1, "atol": 1}"#));
    assert!(differs([0.0, 1.2], [0.0, 1.0], r#"{"rtol": 0.1, "atol": 0.01}"#));
}
