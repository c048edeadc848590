//! [`ShardingRule`]: corresponding dimensions of an operation's operands and results.

use crate::core::types::aval::Aval;

/// The operand dimensions that correspond to each result dimension. If the operand is split along
/// such a dimension, each device can compute its part of the result from its part of the operand.
///
/// The rule is equivalent to the factors of Shardy's
/// [`OpShardingRule`](https://openxla.org/shardy/sharding_representation). Operand dimensions
/// without a result dimension are summed over, looked up in, or needed as a whole.
///
/// ```
/// use oxidax::core::ShardingRule;
/// // [m, k] · [k, n]
/// let product = ShardingRule::one([vec![(0, 0)], vec![(1, 1)]]);
/// assert_eq!(product.along(0, 1), [(1, 1)]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardingRule {
    /// For each result and each of its dimensions, operands and their dimensions.
    dims: Vec<Vec<Vec<(usize, usize)>>>,
    /// Devices combine their parts along the operand dimensions without a result dimension.
    combines: bool,
}

impl ShardingRule {
    /// Creates the rule of one result: for each of its dimensions, operands and their dimensions.
    pub fn one(dims: impl IntoIterator<Item = Vec<(usize, usize)>>) -> ShardingRule {
        ShardingRule { dims: vec![dims.into_iter().collect()], combines: false }
    }

    /// Creates the rule of one result and one operand: for each result dimension, the operand
    /// dimension.
    pub fn moved(dims: impl IntoIterator<Item = Option<usize>>) -> ShardingRule {
        Self::one(dims.into_iter().map(|dim| dim.map(|dim| (0, dim)).into_iter().collect()))
    }

    /// Creates the rule in which each result dimension corresponds to the operand dimensions with
    /// the same index and size, for operands of the same rank.
    pub fn in_place(operands: &[Aval], results: &[Aval]) -> ShardingRule {
        let of = |result: &Aval| {
            let at = |dim: usize| {
                let alike = operands.iter().enumerate().filter(|(_, operand)| {
                    operand.rank() == result.rank() && operand.shape[dim] == result.shape[dim]
                });
                alike.map(|(operand, _)| (operand, dim)).collect()
            };
            (0..result.rank()).map(at).collect()
        };
        ShardingRule { dims: results.iter().map(of).collect(), combines: false }
    }

    /// Returns the rule of an operation that sums, or combines otherwise, along the operand
    /// dimensions without a result dimension. Each device combines its part, and then the devices
    /// combine theirs.
    #[must_use]
    pub fn combining(self) -> ShardingRule {
        ShardingRule { combines: true, ..self }
    }

    /// Returns true if devices combine their parts; see [`ShardingRule::combining`]. Otherwise they
    /// need operand dimensions without a result dimension as a whole.
    pub fn combines(&self) -> bool {
        self.combines
    }

    /// Returns the operand dimensions that correspond to a result dimension: operand and dimension.
    pub fn along(&self, result: usize, dim: usize) -> &[(usize, usize)] {
        self.dims.get(result).and_then(|dims| dims.get(dim)).map_or(&[], Vec::as_slice)
    }

    /// Returns true if a result dimension corresponds to this operand dimension.
    pub fn is_kept(&self, operand: usize, dim: usize) -> bool {
        self.dims.iter().flatten().any(|along| along.contains(&(operand, dim)))
    }
}

/// Returns the rule of a reshape: a result dimension corresponds to the operand dimension that it
/// equals or whose outermost part it is.
pub(crate) fn reshaped(from: &[usize], to: &[usize]) -> ShardingRule {
    let mut dims = vec![None; to.len()];
    let (mut i, mut j) = (0, 0);
    while i < from.len() && j < to.len() {
        // The shortest runs of dimensions with the same number of elements.
        let (first_i, first_j) = (i, j);
        let (mut a, mut b) = (from[i], to[j]);
        (i, j) = (i + 1, j + 1);
        while a != b {
            match a < b {
                true if i < from.len() => (a, i) = (a * from[i], i + 1),
                false if j < to.len() => (b, j) = (b * to[j], j + 1),
                _ => return ShardingRule::moved(dims),
            }
        }
        let larger = |sizes: &[usize]| sizes.iter().position(|&size| size != 1);
        let (outer_i, outer_j) = (larger(&from[first_i..i]), larger(&to[first_j..j]));
        if let (Some(outer_i), Some(outer_j)) = (outer_i, outer_j) {
            dims[first_j + outer_j] = Some(first_i + outer_i);
        }
    }
    ShardingRule::moved(dims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::DType;

    fn of_reshape(from: &[usize], to: &[usize]) -> Vec<Option<usize>> {
        let rule = reshaped(from, to);
        (0..to.len()).map(|dim| rule.along(0, dim).first().map(|along| along.1)).collect()
    }

    #[test]
    fn reshape_keeps_outermost_dimension() {
        assert_eq!(of_reshape(&[8, 6], &[48]), [Some(0)]);
        assert_eq!(of_reshape(&[8, 6], &[8, 2, 3]), [Some(0), Some(1), None]);
        assert_eq!(of_reshape(&[4, 1, 6], &[4, 6]), [Some(0), Some(2)]);
        assert_eq!(of_reshape(&[4, 6], &[1, 4, 1, 6]), [None, Some(0), None, Some(1)]);
        assert_eq!(of_reshape(&[4, 6], &[6, 4]), [Some(0), None]);
        assert_eq!(of_reshape(&[6], &[]), [None; 0]);
        assert_eq!(of_reshape(&[0, 3], &[5, 0]), [None, None]);
    }

    #[test]
    fn dimensions_of_other_sizes_do_not_correspond() {
        let avals = [[4, 8], [4, 2]].map(|shape| Aval::new(DType::F32, shape));
        let rule = ShardingRule::in_place(&avals, &avals[..1]);
        assert_eq!(rule.along(0, 0), [(0, 0), (1, 0)]);
        assert_eq!(rule.along(0, 1), [(0, 1)]);
        assert!(rule.is_kept(1, 0) && !rule.is_kept(1, 1));
    }
}
