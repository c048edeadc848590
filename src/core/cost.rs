//! What an equation costs: arithmetic, transcendentals, memory traffic.

use super::aval::Aval;
use std::ops::Add;

/// Counts for one equation or a whole program. A multiply and an add count as two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Additions, multiplications, comparisons and the like.
    pub flops: u64,
    /// Exponentials, sines and other functions of many operations each.
    pub transcendentals: u64,
    /// Bytes read and written if nothing is fused.
    pub bytes: u64,
}

fn traffic(operands: &[Aval], results: &[Aval]) -> u64 {
    operands.iter().chain(results).map(|aval| aval.bytes() as u64).sum()
}

fn elements(results: &[Aval]) -> u64 {
    results.iter().map(|aval| aval.size() as u64).sum()
}

impl Cost {
    /// The same so many times.
    #[must_use]
    pub fn times(self, count: usize) -> Cost {
        let times = count as u64;
        Cost {
            flops: self.flops.saturating_mul(times),
            transcendentals: self.transcendentals.saturating_mul(times),
            bytes: self.bytes.saturating_mul(times),
        }
    }

    /// Data movement only.
    pub fn movement(operands: &[Aval], results: &[Aval]) -> Cost {
        Cost { bytes: traffic(operands, results), ..Cost::default() }
    }

    /// One operation per element of the results.
    pub fn elementwise(operands: &[Aval], results: &[Aval]) -> Cost {
        Cost { flops: elements(results), ..Cost::movement(operands, results) }
    }

    /// One transcendental per element of the results.
    pub fn transcendental(operands: &[Aval], results: &[Aval]) -> Cost {
        Cost { transcendentals: elements(results), ..Cost::movement(operands, results) }
    }

    /// One operation per element of the operands, as a reduction takes.
    pub fn reduction(operands: &[Aval], results: &[Aval]) -> Cost {
        Cost { flops: elements(operands), ..Cost::movement(operands, results) }
    }
}

impl Add for Cost {
    type Output = Cost;
    fn add(self, other: Cost) -> Cost {
        Cost {
            flops: self.flops + other.flops,
            transcendentals: self.transcendentals + other.transcendentals,
            bytes: self.bytes + other.bytes,
        }
    }
}
