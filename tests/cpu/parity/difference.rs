//! Comparison of elements within a tolerance.

use oxidax::prelude::*;
use serde_json::Value;

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

/// Returns a description of the elements that differ by more than the tolerance, with the first
/// values side by side.
pub(crate) fn difference(
    dtype: DType,
    found: &[u8],
    expected: &[u8],
    tolerance: &Value,
) -> Option<String> {
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
    let first = wrong.first()?;
    let apart = |at: &usize| (found[*at].place - expected[*at].place).abs();
    let most = wrong.iter().map(apart).max().unwrap_or(0);
    let rows: Vec<String> = wrong
        .iter()
        .take(4)
        .map(|&at| format!("[{at}] {:?} against {:?}", found[at].value, expected[at].value))
        .collect();
    Some(format!(
        "{} of {} numbers differ, the first at {first}, by up to {most} units: {}",
        wrong.len(),
        found.len(),
        rows.join(", ")
    ))
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
