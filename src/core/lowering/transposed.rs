//! Transpositions that XLA's CPU compiler carries out as they are written.

use super::LowerCtx;
use crate::core::RuleResult;
use crate::stablehlo::{Value, Writer};

impl LowerCtx<'_> {
    /// Writes a transposition that XLA carries out by itself, with a result in default layout.
    ///
    /// A function that is not inlined keeps it from being folded into the operation that uses the
    /// result, and from being fused with the one that computes `x`: a fused transposition computes
    /// its operand with strides, which takes up to five times as long. Axes that stay together are
    /// one axis, because XLA transposes matrices fastest.
    ///
    /// # Errors
    /// Those of [`LowerCtx::separate_routine`]; the body of this function has none.
    pub(crate) fn transposed_apart(
        &mut self,
        x: &Value,
        permutation: &[usize],
    ) -> RuleResult<Value> {
        let dims: Vec<usize> = permutation.iter().map(|&axis| x.ty().dims()[axis]).collect();
        let result = x.ty().with_dims(&dims);
        let (sizes, order) = merged(x.ty().dims(), permutation);
        if order.len() < 2 {
            return Ok(self.reshaped(x, &result));
        }
        let name = order.iter().fold("transpose".to_owned(), |name, axis| format!("{name}_{axis}"));
        let merged = self.reshaped(x, &x.ty().with_dims(&sizes));
        let dims: Vec<usize> = order.iter().map(|&axis| sizes[axis]).collect();
        let types = [x.ty().with_dims(&dims)];
        let body = |writer: &mut Writer, x: &[Value]| {
            let transposed = writer.transposed(&x[0], &order);
            Ok(vec![writer.in_default_layout(&transposed)])
        };
        let transposed = self.separate_routine(&name, &[merged], &types, body)?;
        Ok(self.reshaped(&transposed[0], &result))
    }
}

/// Merges axes that a permutation keeps together. Returns the sizes of the axes that remain, in the
/// order of the operand, and the permutation of these.
fn merged(dims: &[usize], permutation: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for &axis in permutation {
        match groups.last_mut() {
            Some(group) if group.last().is_some_and(|&last| last + 1 == axis) => group.push(axis),
            _ => groups.push(vec![axis]),
        }
    }
    let mut sorted: Vec<&Vec<usize>> = groups.iter().collect();
    sorted.sort();
    let sizes = sorted.iter().map(|group| group.iter().map(|&axis| dims[axis]).product()).collect();
    let order = groups.iter().filter_map(|group| sorted.binary_search(&group).ok()).collect();
    (sizes, order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_stay_together_are_one() {
        assert_eq!(merged(&[8, 28, 28, 256], &[3, 0, 1, 2]), (vec![6272, 256], vec![1, 0]));
        assert_eq!(merged(&[3, 3, 64, 32], &[0, 1, 3, 2]), (vec![9, 64, 32], vec![0, 2, 1]));
        assert_eq!(merged(&[2, 3, 4], &[2, 1, 0]), (vec![2, 3, 4], vec![2, 1, 0]));
        assert_eq!(merged(&[2, 3], &[0, 1]), (vec![6], vec![0]));
        assert_eq!(merged(&[], &[]), (vec![], vec![]));
    }
}
