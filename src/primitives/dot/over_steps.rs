//! The sum of the products of all steps of a loop, as one product.

use super::DotGeneral;
use crate::core::{Array, bind1};
use crate::primitives::transpose;

impl DotGeneral {
    /// Returns the sum of the products of operands that are stacked along a new first axis. Returns
    /// `None` for a product with a stated sharding.
    pub(super) fn sum_of_steps(&self, stacked: &[Array]) -> Option<Array> {
        let [lhs, rhs] = stacked else { return None };
        if self.out_sharding.is_some() {
            return None;
        }
        let inner = |axes: &[usize]| axes.iter().map(|axis| axis + 1).collect::<Vec<_>>();
        let with_steps = |axes: &[usize]| [vec![0], inner(axes)].concat();
        let product = DotGeneral {
            lhs_contracting: with_steps(&self.lhs_contracting),
            rhs_contracting: with_steps(&self.rhs_contracting),
            lhs_batch: inner(&self.lhs_batch),
            rhs_batch: inner(&self.rhs_batch),
            ..self.clone()
        };
        // XLA's CPU compiler copies the left operand, so that the summed axes are the last ones.
        if !product.lhs_batch.is_empty() || lhs.aval().size() <= rhs.aval().size() {
            return Some(bind1(product, [lhs, rhs]));
        }
        let (lhs_free, rhs_free) = product.free(lhs.rank(), rhs.rank());
        let (n_lhs, n_rhs) = (lhs_free.len(), rhs_free.len());
        let [of_lhs, of_rhs] = product.precision;
        let swapped = DotGeneral {
            lhs_contracting: product.rhs_contracting,
            rhs_contracting: product.lhs_contracting,
            precision: [of_rhs, of_lhs],
            ..product
        };
        let order: Vec<usize> = (n_rhs..n_rhs + n_lhs).chain(0..n_rhs).collect();
        Some(transpose(&bind1(swapped, [rhs, lhs]), &order))
    }
}
