//! Forward derivatives of scatter, one per combiner.

use super::{Combiner, Scatter};
use crate::core::{Array, DType, RuleResult, Scalar, Shape, Tangent, bind1};
use crate::primitives::arithmetic::{add, div, mul};
use crate::primitives::comparison::{eq, gt, ne};
use crate::primitives::constant::{fill_of, zeros_of};
use crate::primitives::iota::iota;
use crate::primitives::logic::{bitwise_and, bitwise_or};
use crate::primitives::select::select;
use crate::primitives::shape::{broadcast_to, reshape};

/// Returns `x` where the mask is true, zero elsewhere.
fn keep(mask: &Array, x: &Array) -> Array {
    select(mask, x, &zeros_of(x.aval()))
}

/// Returns true where two arrays are equal; NaN equals NaN.
fn same(x: &Array, y: &Array) -> Array {
    bitwise_or(eq(x, y), bitwise_and(ne(x, x), ne(y, y)))
}

impl Scatter {
    /// Returns the scatter with another combiner.
    fn with(&self, combiner: Combiner) -> Scatter {
        Scatter { combiner, ..self.clone() }
    }

    /// The derivative of a sum: linear in operand and updates together.
    pub(super) fn jvp_linear(&self, primals: &[Array], tangents: &[Tangent]) -> (Array, Tangent) {
        let indices = &primals[1];
        let y = bind1(self.clone(), [&primals[0], indices, &primals[2]]);
        let dy = bind1(self.clone(), [&tangents[0].to_dense(), indices, &tangents[2].to_dense()]);
        (y, dy.into())
    }

    /// The derivative of replacement if several updates may hit one element. The winner is
    /// unspecified, so winners are determined by scattering numbers, and result and tangent are
    /// sums over the winners. Both agree on every platform.
    pub(super) fn jvp_masked(&self, primals: &[Array], tangents: &[Tangent]) -> (Array, Tangent) {
        let [x, indices, updates] = [&primals[0], &primals[1], &primals[2]];
        let numbers = self.number_updates(updates.shape());
        let none = zeros_of(&numbers.aval().with_shape(x.shape()));
        let winners = bind1(self.clone(), [&none, indices, &numbers]);
        let wins = eq(&numbers, self.inverse(&winners, indices, updates.shape()));
        let untouched = eq(&winners, &none);
        let sum = |x: &Array, updates: &Array| {
            let operands = [&keep(&untouched, x), indices, &keep(&wins, updates)];
            bind1(self.with(Combiner::Add), operands)
        };
        let y = sum(x, updates);
        let dy = sum(&tangents[0].to_dense(), &tangents[2].to_dense());
        (y, dy.into())
    }

    /// Returns a positive number for each window of the updates, equal on all of its elements.
    fn number_updates(&self, updates: &Shape) -> Array {
        let windows = &self.dimension_numbers.update_window_dims;
        let one_each: Shape = (0..updates.rank())
            .map(|axis| if windows.contains(&axis) { 1 } else { updates[axis] })
            .collect();
        let count = one_each.size();
        let dtype = if count < u32::MAX as usize { DType::U32 } else { DType::U64 };
        let numbers = add(iota(dtype, count), Scalar::Int(1));
        broadcast_to(&reshape(&numbers, one_each), updates)
    }

    /// The derivative of a product: the tangent of `x` is multiplied like `x`, that of the updates
    /// by `x`.
    pub(super) fn jvp_mul(
        &self,
        primals: &[Array],
        tangents: &[Tangent],
    ) -> RuleResult<(Array, Tangent)> {
        let [x, indices, updates] = [&primals[0], &primals[1], &primals[2]];
        let y = bind1(self.clone(), [x, indices, updates]);
        let left = tangents[0].map(y.aval(), |dx| bind1(self.clone(), [dx, indices, updates]));
        if tangents[2].is_zero() {
            return Ok((y, left));
        }
        self.require_unique()?;
        let right = tangents[2].map(y.aval(), |du| {
            let zeros = zeros_of(&du.aval().with_shape(x.shape()));
            mul(x, bind1(self.with(Combiner::Add), [&zeros, indices, du]))
        });
        Ok((y, left.add(&right)))
    }

    /// The derivative of an extremum: operand and updates that equal the result share the tangent
    /// equally.
    pub(super) fn jvp_extremum(&self, primals: &[Array], tangents: &[Tangent]) -> (Array, Tangent) {
        let [x, indices, updates] = [&primals[0], &primals[1], &primals[2]];
        let y = bind1(self.clone(), [x, indices, updates]);
        let at_updates = |x: &Array| self.inverse(x, indices, updates.shape());
        let sum =
            |x: &Array, updates: &Array| bind1(self.with(Combiner::Add), [x, indices, updates]);
        let share = |wins: &Array, of: &Array| {
            let ones = fill_of(Scalar::Int(1), of.aval());
            keep(wins, &ones)
        };
        let update_wins = share(&same(updates, &at_updates(&y)), updates);
        let operand_wins = share(&same(x, &y), x);
        // Elements that no update hits equal their result: the operand is the only winner.
        let winners = add(&operand_wins, sum(&zeros_of(x.aval()), &update_wins));
        let of_operand = mul(tangents[0].to_dense(), div(&operand_wins, &winners));
        let among = at_updates(&winners);
        // A dropped update has no winners, and must not be divided by their number.
        let part = keep(&gt(&among, Scalar::Int(0)), &div(&update_wins, &among));
        let of_updates = mul(tangents[2].to_dense(), part);
        let dy = sum(&of_operand, &of_updates);
        (y, dy.into())
    }
}
