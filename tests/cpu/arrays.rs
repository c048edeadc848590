//! Arrays of pseudorandom numbers that are the same in every run.

use oxidax::prelude::*;

/// Numbers between -1 and 1, made by a linear congruential generator.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns the next number as an integer below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let number = self.next().expect("there is always another number");
        ((number + 1.0) / 2.0 * end as f64) as usize
    }

    /// Returns the next numbers as an `f64` array.
    pub(crate) fn array(&mut self, shape: &[usize]) -> Array {
        let n = shape.iter().product();
        let elements: Vec<f64> = self.take(n).collect();
        Array::from_slice(&elements, shape).expect("as many elements as the shape has")
    }
}

impl Iterator for Numbers {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        Some((self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    }
}

/// Returns an `f64` array of numbers between -1 and 1.
pub(crate) fn scattered(shape: &[usize], seed: u64) -> Array {
    Numbers::new(seed).array(shape)
}
