//! Batch rule of convolutions: the new axis is merged into the batch, the features or the groups.

use super::general::ConvGeneralDilated;
use super::transposition::{divided, merged};
use crate::core::{Array, BatchAxis, Batched, RuleResult, bind1};
use crate::primitives::constant::zeros_of;
use crate::primitives::rules::{batched, move_axis};

impl ConvGeneralDilated {
    pub(super) fn batched(
        &self,
        operands: [&Array; 2],
        axes: [Option<usize>; 2],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let n = axis.size;
        // The shapes without the batch axis.
        let front = |side: usize| match axes[side] {
            Some(batch_axis) => move_axis(operands[side], batch_axis, 0),
            None => operands[side].clone(),
        };
        let (lhs, rhs) = (front(0), front(1));
        let bare = |x: &Array, batch_axis: Option<usize>| match batch_axis {
            Some(_) => x.shape().remove(0),
            None => x.shape().clone(),
        };
        let geometry = self.geometry(&bare(&lhs, axes[0]), &bare(&rhs, axes[1]))?;
        if n == 0 {
            let dtype = self.preferred_element_type.unwrap_or(lhs.dtype());
            let aval = lhs.aval().with_dtype(dtype).with_shape(geometry.shape().insert(0, 0));
            return Ok(batched(zeros_of(&aval), 0));
        }
        let numbers = &geometry.numbers;
        let [batch, features] = [numbers.lhs_spec[0], numbers.lhs_spec[1]];
        let outputs = numbers.rhs_spec[0];
        let [out_batch, out_features] = [numbers.out_spec[0], numbers.out_spec[1]];
        let explicit = ConvGeneralDilated { dimension_numbers: numbers.clone(), ..self.clone() };
        Ok(match (axes[0], axes[1]) {
            // Every example becomes a group.
            (Some(_), Some(_)) => {
                let mut conv = explicit;
                let lhs = match self.batch_group_count {
                    1 => {
                        conv.feature_group_count *= n;
                        merged(&lhs, 0, features)
                    }
                    _ => {
                        conv.batch_group_count *= n;
                        merged(&lhs, 0, batch)
                    }
                };
                let y = bind1(conv, [&lhs, &merged(&rhs, 0, outputs)]);
                batched(divided(&y, out_features, n), out_features)
            }
            // One kernel for more examples, within each group of the batch.
            (Some(_), None) => {
                let lhs = within_groups(&lhs, batch, self.batch_group_count);
                let y = bind1(explicit, [&lhs, &rhs]);
                batched(divided(&y, out_batch, n), out_batch)
            }
            // More output features for one operand, within each feature group.
            (None, _) => {
                let groups = self.feature_group_count.max(self.batch_group_count);
                let rhs = within_groups(&rhs, outputs, groups);
                let y = bind1(explicit, [&lhs, &rhs]);
                // [groups · n · features of a group] to [n, groups · features of a group].
                let y = divided(&divided(&y, out_features, groups), out_features + 1, n);
                let y = move_axis(&y, out_features + 1, out_features);
                batched(merged(&y, out_features + 1, out_features + 1), out_features)
            }
        })
    }
}

/// Merges the first axis into another (counted without it), inside of that axis's `groups`.
fn within_groups(x: &Array, axis: usize, groups: usize) -> Array {
    if groups == 1 {
        return merged(x, 0, axis);
    }
    let divided = divided(x, axis + 1, groups);
    // [n, …, groups, rest, …]: merged into the rest, then with the groups in front.
    merged(&merged(&divided, 0, axis + 1), axis, axis)
}
