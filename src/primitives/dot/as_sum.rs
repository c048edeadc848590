//! Small products as sums of elementwise products, in kernels of loops.

use super::DotGeneral;
use crate::core::{Analysis as _, Array, Aval, DType, is_sum};
use crate::primitives::rules::element_dtype;
use crate::primitives::{broadcast_in_dim, mul, reduce_sum, transpose};
use crate::stablehlo::Value;

impl DotGeneral {
    /// Computes the product as a sum of elementwise products.
    pub(super) fn as_sum(&self, lhs: &Array, rhs: &Array) -> Array {
        let (lhs_free, rhs_free) = self.free(lhs.rank(), rhs.rank());
        let (n_batch, n_lhs) = (self.lhs_batch.len(), self.lhs_batch.len() + lhs_free.len());
        let n_result = n_lhs + rhs_free.len();
        // The axes of the elementwise products: those of the result, then the contracted ones.
        let axes_of = |x: &Array, batch: &[usize], free: &[usize], first, contracting: &[usize]| {
            let batch = batch.iter().copied().zip(0..);
            let free = free.iter().copied().zip(first..);
            let contracting = contracting.iter().copied().zip(n_result..);
            let mut axes: Vec<(usize, usize)> = batch.chain(free).chain(contracting).collect();
            axes.sort_unstable_by_key(|&(_, to)| to);
            let order: Vec<usize> = axes.iter().map(|&(from, _)| from).collect();
            let sizes: Vec<(usize, usize)> =
                axes.iter().map(|&(from, to)| (to, x.shape()[from])).collect();
            (transpose(x, &order), sizes)
        };
        let (lhs, of_lhs) =
            axes_of(lhs, &self.lhs_batch, &lhs_free, n_batch, &self.lhs_contracting);
        let (rhs, of_rhs) = axes_of(rhs, &self.rhs_batch, &rhs_free, n_lhs, &self.rhs_contracting);
        let mut shape = vec![1; n_result + self.lhs_contracting.len()];
        for &(to, size) in of_lhs.iter().chain(&of_rhs) {
            shape[to] = size;
        }
        let broadcast = |x: &Array, axes: &[(usize, usize)]| {
            let dimensions: Vec<usize> = axes.iter().map(|&(to, _)| to).collect();
            broadcast_in_dim(x, &shape, &dimensions)
        };
        let products = mul(broadcast(&lhs, &of_lhs), broadcast(&rhs, &of_rhs));
        let contracted: Vec<isize> = (n_result..shape.len()).map(|axis| axis as isize).collect();
        reduce_sum(&products, &contracted)
    }

    /// Returns true if the product is computed as a sum in a loop's kernel.
    pub(super) fn is_sum_in_kernel(&self, operands: &[Value], result: &Aval) -> bool {
        let avals = [0, 1]
            .map(|side| Aval::new(element_dtype(&operands[side]), operands[side].ty().dims()));
        let is_plain = matches!(result.dtype, DType::F32 | DType::F64)
            && avals.iter().all(|aval| aval.dtype == result.dtype);
        is_plain
            && self.contraction(&avals, std::slice::from_ref(result)).is_some_and(|of| is_sum(&of))
    }
}
