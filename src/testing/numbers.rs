//! Sample arrays, and arrays as plain numbers.

use crate::core::{Array, DType, Element, Elements, Error, Sample};
use crate::primitives::convert_element_type;
use num_complex::Complex64;

/// An array's elements as complex doubles, whatever its dtype.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers(pub Vec<Complex64>);

impl Numbers {
    /// The first position where two differ by more than `tolerance`, relative to the largest finite
    /// magnitude in the two or 1; NaN equals NaN, infinities equal themselves.
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
            |at| format!("element {at}: {} against {} (of scale {scale})", self.0[at], other.0[at]),
        )
    }

    /// The real part of the sum of products, without conjugation: the pairing of a cotangent with a
    /// tangent.
    pub fn pair(&self, other: &Numbers) -> f64 {
        self.0.iter().zip(&other.0).map(|(a, b)| (a * b).re).sum()
    }
}

/// The elements of an array.
///
/// # Errors
/// If the array cannot be read.
pub fn numbers(x: &Array) -> Result<Numbers, Error> {
    let dtype = x.dtype();
    let wide = match dtype {
        DType::C64 | DType::C128 => DType::C128,
        _ if dtype.is_unsigned() => DType::U64,
        _ if dtype.is_integer() => DType::I64,
        DType::Bool => DType::Bool,
        _ if dtype.bits() < 32 => DType::F32,
        _ => dtype,
    };
    let x = match dtype == wide {
        true => x.clone(),
        false => convert_element_type(x, wide),
    };
    fn read<T: Element>(x: &Array, f: impl Fn(T) -> f64) -> Result<Numbers, Error> {
        Ok(Numbers(x.to_vec::<T>()?.into_iter().map(|v| Complex64::new(f(v), 0.0)).collect()))
    }
    match wide {
        DType::C128 => Ok(Numbers(x.to_vec::<Complex64>()?)),
        DType::U64 => read(&x, |v: u64| v as f64),
        DType::I64 => read(&x, |v: i64| v as f64),
        DType::Bool => read(&x, |v: bool| f64::from(u8::from(v))),
        DType::F32 => read(&x, |v: f32| f64::from(v)),
        _ => read(&x, |v: f64| v),
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

/// A sample operand as an array; `seed` chooses the random elements.
///
/// # Errors
/// If the array cannot be made.
pub fn sample(sample: &Sample, seed: u64) -> Result<Array, Error> {
    let mut stream = Stream(seed);
    let aval = &sample.aval;
    let mut element = |at: usize| match &sample.elements {
        Elements::Uniform(low, high) => low + (high - low) * stream.next(),
        Elements::Listed(list) => list.get(at % list.len().max(1)).copied().unwrap_or(0.0),
    };
    let values: Vec<f64> = (0..aval.size()).map(&mut element).collect();
    let dtype = aval.dtype;
    let shape = aval.shape.clone();
    let wide = if dtype.is_complex() {
        let parts: Vec<Complex64> = values
            .iter()
            .enumerate()
            .map(|(at, &re)| Complex64::new(re, element(at + aval.size())))
            .collect();
        Array::from_slice(&parts, shape)?
    } else if dtype.is_bool() {
        let bits: Vec<bool> = values.iter().map(|&value| value >= 0.5).collect();
        Array::from_slice(&bits, shape)?
    } else if dtype.is_integer() {
        let integers: Vec<i64> = values
            .iter()
            .map(|value| match dtype == DType::U64 && *value >= 9.3e18 {
                true => *value as u64 as i64,
                false => value.floor() as i64,
            })
            .collect();
        Array::from_slice(&integers, shape)?
    } else {
        Array::from_slice(&values, shape)?
    };
    Ok(match wide.dtype() == dtype {
        true => wide,
        false => convert_element_type(&wide, dtype),
    })
}
