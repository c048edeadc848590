//! What an equation costs: arithmetic, transcendentals, memory traffic.

use crate::core::types::aval::Aval;
use crate::core::types::precision::Precision;
use serde::Serialize;
use std::ops::Add;

/// Counts for one equation or a whole program. A multiply and an add count as two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Additions, multiplications, comparisons, conversions and the like.
    pub flops: u64,
    /// Exponentials, sines and other functions of many operations each.
    pub transcendentals: u64,
    /// Bytes read and written if nothing is fused.
    pub bytes: u64,
    /// How the equation goes over them; [`Access::Whole`] for a sum of several.
    pub access: Access,
}

/// How an equation goes over its memory, which decides what a compiler joins it with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// It needs operands as a whole, and its results are there as a whole: products, sorts, solvers.
    #[default]
    Whole,
    /// An element of the results is made of those at the same place in the operands.
    Pointwise,
    /// Elements move, and nothing is computed.
    Movement,
    /// Elements of the operands go into fewer of the results.
    Reduction,
}

/// A sum of products as a matrix unit sees it: `batch` products of `[m, k]` and `[k, n]`.
///
/// A convolution is one with the taps of its window in `k`, as if it was gathered into a matrix; taps outside of the
/// input are in these sizes and not in [`Cost::flops`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Contraction {
    /// How many products.
    pub batch: usize,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Over how many products each element is a sum.
    pub k: usize,
    /// How often a unit that multiplies `bf16` goes over it: 1, for `f32` 3 at high precision and 6 at the highest.
    pub passes: u32,
}

impl Contraction {
    /// How often a unit that multiplies `bf16` goes over operands of this type at this precision.
    pub(crate) fn passes(operand: &Aval, precision: [Precision; 2]) -> u32 {
        let each = precision.map(|precision| match precision {
            Precision::Default => 1,
            Precision::High => 3,
            Precision::Highest => 6,
        });
        if operand.dtype.bits() < 32 { 1 } else { each[0].max(each[1]) }
    }
}

fn traffic(operands: &[Aval], results: &[Aval]) -> u64 {
    operands.iter().chain(results).map(|aval| aval.bytes() as u64).sum()
}

fn elements(results: &[Aval]) -> u64 {
    results.iter().map(|aval| aval.size() as u64).sum()
}

impl Cost {
    /// Whether a compiler makes the results again wherever they are used: constants, and what moves into something larger.
    pub(crate) fn is_remade(self, operands: &[Aval], results: &[Aval]) -> bool {
        let largest = |avals: &[Aval]| avals.iter().map(Aval::size).max();
        match (self.access, largest(operands)) {
            (Access::Pointwise | Access::Movement, None) => true,
            (Access::Movement, Some(most)) => largest(results).unwrap_or(0) > most,
            _ => false,
        }
    }

    /// The same so many times.
    #[must_use]
    pub fn times(self, count: usize) -> Cost {
        let times = count as u64;
        Cost {
            flops: self.flops.saturating_mul(times),
            transcendentals: self.transcendentals.saturating_mul(times),
            bytes: self.bytes.saturating_mul(times),
            access: Access::Whole,
        }
    }

    /// Everything read and written, as a whole. The operations are for the caller to add.
    pub fn whole(operands: &[Aval], results: &[Aval]) -> Cost {
        Cost { bytes: traffic(operands, results), ..Cost::default() }
    }

    /// Data movement only.
    pub fn movement(operands: &[Aval], results: &[Aval]) -> Cost {
        Cost { access: Access::Movement, ..Cost::whole(operands, results) }
    }

    /// Data movement that touches only a part of the first operand, as large as `part`, and all of the others.
    pub fn part(operands: &[Aval], part: &Aval) -> Cost {
        let part = std::slice::from_ref(part);
        Cost::movement(operands.get(1..).unwrap_or(&[]), &[part, part].concat())
    }

    /// One operation per element of the results.
    pub fn elementwise(operands: &[Aval], results: &[Aval]) -> Cost {
        let access = Access::Pointwise;
        Cost { flops: elements(results), access, ..Cost::whole(operands, results) }
    }

    /// One transcendental per element of the results.
    pub fn transcendental(operands: &[Aval], results: &[Aval]) -> Cost {
        let access = Access::Pointwise;
        Cost { transcendentals: elements(results), access, ..Cost::whole(operands, results) }
    }

    /// One operation per element of the operands but the first that goes into each result.
    pub fn reduction(operands: &[Aval], results: &[Aval]) -> Cost {
        let flops = elements(operands).saturating_sub(elements(results));
        Cost { flops, access: Access::Reduction, ..Cost::whole(operands, results) }
    }
}

impl Add for Cost {
    type Output = Cost;
    fn add(self, other: Cost) -> Cost {
        Cost {
            flops: self.flops.saturating_add(other.flops),
            transcendentals: self.transcendentals.saturating_add(other.transcendentals),
            bytes: self.bytes.saturating_add(other.bytes),
            access: Access::Whole,
        }
    }
}
