//! The sum of the products of all steps of a loop, as one product.

use super::DotGeneral;
use crate::core::{Array, bind1};

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
        Some(bind1(product, [lhs, rhs]))
    }
}
