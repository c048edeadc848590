//! Cost of an equation: arithmetic, transcendentals and memory traffic.

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
    /// The access pattern; [`Access::Whole`] for a sum of several equations.
    pub access: Access,
}

/// The memory access pattern of an equation, which decides its fusion by a compiler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Operands and results are needed as a whole: products, sorts, solvers.
    #[default]
    Whole,
    /// An element of the results depends on the operand elements with the same index.
    Pointwise,
    /// Elements move without computation.
    Movement,
    /// Elements of the operands are combined into fewer elements of the results.
    Reduction,
}

/// Sizes of a matrix product for a matrix unit: `batch` products of `[m, k]` and `[k, n]`.
///
/// For a convolution, `k` includes the taps of its window, as if it were gathered into a matrix.
/// Taps outside of the input are included in these sizes, but not in [`Cost::flops`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Contraction {
    /// The number of products.
    pub batch: usize,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// The number of products that each element sums.
    pub k: usize,
    /// The number of passes of a `bf16` unit: 1, for `f32` 3 at high and 6 at the highest
    /// precision.
    pub passes: u32,
}

impl Contraction {
    /// Returns the number of passes of a `bf16` unit for operands of this type at this precision.
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
    operands.iter().chain(results).map(|aval| aval.bytes() as u64).fold(0, u64::saturating_add)
}

fn elements(results: &[Aval]) -> u64 {
    results.iter().map(|aval| aval.size() as u64).fold(0, u64::saturating_add)
}

impl Cost {
    /// Returns true if a compiler recomputes the results at each use: constants, and movement into
    /// larger arrays.
    pub(crate) fn is_remade(self, operands: &[Aval], results: &[Aval]) -> bool {
        let largest = |avals: &[Aval]| avals.iter().map(Aval::size).max();
        match (self.access, largest(operands)) {
            (Access::Pointwise | Access::Movement, None) => true,
            (Access::Movement, Some(most)) => largest(results).unwrap_or(0) > most,
            _ => false,
        }
    }

    /// Returns `count` times the cost.
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

    /// Counts all operands and results as traffic. The caller adds the operations.
    pub fn whole(operands: &[Aval], results: &[Aval]) -> Cost {
        Cost { bytes: traffic(operands, results), ..Cost::default() }
    }

    /// Counts data movement only.
    pub fn movement(operands: &[Aval], results: &[Aval]) -> Cost {
        Cost { access: Access::Movement, ..Cost::whole(operands, results) }
    }

    /// Counts data movement of a part of the first operand, as large as `part`, and of all other
    /// operands.
    pub fn part(operands: &[Aval], part: &Aval) -> Cost {
        let part = std::slice::from_ref(part);
        Cost::movement(operands.get(1..).unwrap_or(&[]), &[part, part].concat())
    }

    /// Counts one operation per element of the results.
    pub fn elementwise(operands: &[Aval], results: &[Aval]) -> Cost {
        let access = Access::Pointwise;
        Cost { flops: elements(results), access, ..Cost::whole(operands, results) }
    }

    /// Counts one transcendental per element of the results.
    pub fn transcendental(operands: &[Aval], results: &[Aval]) -> Cost {
        let access = Access::Pointwise;
        Cost { transcendentals: elements(results), access, ..Cost::whole(operands, results) }
    }

    /// Counts one operation per operand element except the first of each result.
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
