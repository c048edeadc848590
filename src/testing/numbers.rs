//! Sample arrays, and arrays as plain numbers. Conversions run on the host where possible, because
//! every conversion on the device compiles a program.

use crate::core::{Array, Aval, DType, Elements, Error, Sample};
use crate::primitives::convert_element_type;
use half::{bf16, f16};
use num_complex::{Complex32, Complex64};

/// An array's elements as complex doubles, whatever its dtype.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers(pub Vec<Complex64>);

impl Numbers {
    /// Returns the first index at which two lists differ by more than `tolerance`, relative to the
    /// largest finite magnitude in both or 1. NaN equals NaN, and infinities equal themselves.
    pub fn difference(&self, other: &Numbers, tolerance: f64) -> Option<String> {
        if self.0.len() != other.0.len() {
            return Some(format!("{} elements against {}", self.0.len(), other.0.len()));
        }
        let finite = self.0.iter().chain(&other.0).filter(|x| x.is_finite());
        let scale = finite.map(|x| x.norm()).fold(1.0, f64::max);
        let apart = |a: f64, b: f64| {
            !(a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * scale)
        };
        self.0.iter().zip(&other.0).position(|(a, b)| apart(a.re, b.re) || apart(a.im, b.im)).map(
            |index| {
                format!(
                    "element {index}: {} against {} (of scale {scale})",
                    self.0[index], other.0[index]
                )
            },
        )
    }

    /// Returns the real part of the sum of products, without conjugation: the pairing of a
    /// cotangent with a tangent.
    pub fn pair(&self, other: &Numbers) -> f64 {
        self.0.iter().zip(&other.0).map(|(a, b)| (a * b).re).sum()
    }
}

/// Returns the elements of an array.
///
/// # Errors
/// If the array cannot be read.
pub fn numbers(x: &Array) -> Result<Numbers, Error> {
    let real = |parts: Vec<f64>| {
        Ok(Numbers(parts.into_iter().map(|part| Complex64::new(part, 0.0)).collect()))
    };
    macro_rules! elements {
        ($ty:ty, $wide:expr) => {
            real(x.to_vec::<$ty>()?.into_iter().map($wide).collect())
        };
    }
    match x.dtype() {
        DType::C128 => Ok(Numbers(x.to_vec()?)),
        DType::C64 => {
            let wide = |z: Complex32| Complex64::new(z.re.into(), z.im.into());
            Ok(Numbers(x.to_vec::<Complex32>()?.into_iter().map(wide).collect()))
        }
        DType::F64 => real(x.to_vec()?),
        DType::F32 => elements!(f32, f64::from),
        DType::F16 => elements!(f16, f64::from),
        DType::BF16 => elements!(bf16, f64::from),
        DType::Bool => elements!(bool, |value| f64::from(u8::from(value))),
        DType::U64 => elements!(u64, |value| value as f64),
        DType::I64 => elements!(i64, |value| value as f64),
        DType::U32 => elements!(u32, f64::from),
        DType::I32 => elements!(i32, f64::from),
        DType::U16 => elements!(u16, f64::from),
        DType::I16 => elements!(i16, f64::from),
        DType::U8 => elements!(u8, f64::from),
        DType::I8 => elements!(i8, f64::from),
        DType::U4 | DType::U2 => real(x.to_bytes()?.into_iter().map(f64::from).collect()),
        DType::I4 | DType::I2 => {
            real(x.to_bytes()?.into_iter().map(|byte| byte.cast_signed().into()).collect())
        }
        // 8-bit floats are converted on the device.
        _ => numbers(&convert_element_type(x, DType::F32)),
    }
}

/// Creates an array of this type with these elements, rounded to its dtype. Integers are rounded
/// down and wrap, booleans are true from one half on, and only complex arrays have imaginary parts.
///
/// # Errors
/// If the array cannot be created.
pub(super) fn array(aval: &Aval, elements: &[Complex64]) -> Result<Array, Error> {
    macro_rules! from_elements {
        ($to:expr) => {{
            let elements: Vec<_> = elements.iter().map($to).collect();
            Array::from_slice(&elements, aval.shape.clone())
        }};
    }
    let whole = |value: &Complex64| {
        if value.re >= 9.3e18 { value.re as u64 as i64 } else { value.re.floor() as i64 }
    };
    let small = |keep: fn(i64) -> u8| {
        let bytes: Vec<u8> = elements.iter().map(|value| keep(whole(value))).collect();
        Array::from_bytes(&bytes, aval.dtype, aval.shape.clone())
    };
    match aval.dtype {
        DType::C128 => from_elements!(|value| *value),
        DType::C64 => from_elements!(|value| Complex32::new(value.re as f32, value.im as f32)),
        DType::F64 => from_elements!(|value| value.re),
        DType::F32 => from_elements!(|value| value.re as f32),
        DType::F16 => from_elements!(|value| f16::from_f64(value.re)),
        DType::BF16 => from_elements!(|value| bf16::from_f64(value.re)),
        DType::Bool => from_elements!(|value| value.re >= 0.5),
        DType::U64 => from_elements!(|value| whole(value) as u64),
        DType::I64 => from_elements!(whole),
        DType::U32 => from_elements!(|value| whole(value) as u32),
        DType::I32 => from_elements!(|value| whole(value) as i32),
        DType::U16 => from_elements!(|value| whole(value) as u16),
        DType::I16 => from_elements!(|value| whole(value) as i16),
        DType::U8 => from_elements!(|value| whole(value) as u8),
        DType::I8 => from_elements!(|value| whole(value) as i8),
        DType::U4 => small(|value| value as u8 & 0xF),
        DType::U2 => small(|value| value as u8 & 0x3),
        DType::I4 => small(|value| ((value as i8) << 4 >> 4).cast_unsigned()),
        DType::I2 => small(|value| ((value as i8) << 6 >> 6).cast_unsigned()),
        // 8-bit floats are converted on the device.
        _ => array(&aval.with_dtype(DType::F64), elements)
            .map(|wide| convert_element_type(&wide, aval.dtype)),
    }
}

/// A deterministic stream of numbers in `0..1`.
///
/// Reference: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014
/// (SplitMix64).
pub(super) struct Stream(pub(super) u64);

impl Stream {
    pub(super) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Creates the array of a sample operand; `seed` selects the random elements.
///
/// # Errors
/// If the array cannot be created.
pub fn sample(sample: &Sample, seed: u64) -> Result<Array, Error> {
    let mut stream = Stream(seed);
    let aval = &sample.aval;
    let mut element = |index: usize| match &sample.elements {
        Elements::Uniform(low, high) => low + (high - low) * stream.next(),
        Elements::Listed(list) => list.get(index % list.len().max(1)).copied().unwrap_or(0.0),
    };
    let real: Vec<f64> = (0..aval.size()).map(&mut element).collect();
    let elements: Vec<Complex64> = real
        .into_iter()
        .enumerate()
        .map(|(index, re)| {
            if aval.dtype.is_complex() {
                Complex64::new(re, element(index + aval.size()))
            } else {
                Complex64::new(re, 0.0)
            }
        })
        .collect();
    array(aval, &elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    mod on_cpu {
        use super::*;

        /// Conversions on the host equal conversions on the device.
        #[test]
        fn elements_round_trip_in_every_dtype() {
            let values = [-2.0, -1.0, 0.0, 1.0, 0.5];
            let elements = values.map(|value| Complex64::new(value, 0.0));
            let shape = [elements.len()];
            let wide = Array::from_slice(&values.map(f64::floor), shape).unwrap();
            for dtype in DType::all() {
                let expected = match dtype {
                    DType::Bool => Array::from_slice(&[false, false, false, true, true], shape),
                    _ if dtype.is_inexact() => Array::from_slice(&values, shape),
                    // Through the widest integer, which wraps as the host does.
                    _ => Ok(convert_element_type(&wide, DType::I64)),
                };
                let expected = convert_element_type(&expected.unwrap(), dtype);
                let created = array(&Aval::new(dtype, shape), &elements).unwrap();
                assert_eq!(created.to_bytes().unwrap(), expected.to_bytes().unwrap(), "{dtype}");
                let wide = match dtype {
                    _ if dtype.is_inexact() => DType::C128,
                    _ if dtype.is_unsigned() => DType::U64,
                    _ => DType::I64,
                };
                let by_device = numbers(&convert_element_type(&created, wide)).unwrap();
                assert_eq!(numbers(&created).unwrap().difference(&by_device, 0.0), None, "{dtype}");
            }
        }
    }
}
