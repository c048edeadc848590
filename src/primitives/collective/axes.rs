//! [`CollectiveAxes`]: the named axes of a collective, and groups of examples along them.

use super::AllGather;
use super::index::AxisIndex;
use super::lowering::Groups;
use crate::core::{
    Array, BatchAxis, Batched, Collective, Communication, LowerCtx, RuleError, RuleResult, bind1,
};
use crate::ensure;
use crate::primitives::composite::lower_by;
use crate::primitives::constant::zeros_of;
use crate::primitives::rules::{batch_at_front, batched, broadcast_axis, move_axis};
use crate::primitives::shape::reshape;
use crate::primitives::slicing::{DynamicIndexOptions, dynamic_index_in_dim_with, slice_in_dim};
use crate::primitives::structural::concatenate;
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Limit of the number of indices along the axes of a collective. Meshes have far fewer devices.
const MAX_INDICES: usize = 1 << 31;

/// The named axes along which examples exchange values.
///
/// An index along several axes is linear: the last axis varies fastest.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CollectiveAxes {
    /// The distinct names of the axes.
    pub axis_names: Vec<String>,
    /// The size of each axis.
    pub axis_sizes: Vec<usize>,
    /// The groups of indices that exchange values; `None` for one group of all. Each index is in
    /// exactly one group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub axis_index_groups: Option<Vec<Vec<usize>>>,
}

/// The groups of indices of a collective reduction. See [`CollectiveAxes`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AxisIndexGroups {
    /// The size of each axis.
    pub axis_sizes: Vec<usize>,
    /// The groups. Each index is in exactly one of them.
    pub groups: Vec<Vec<usize>>,
}

impl AxisIndexGroups {
    /// Returns the axes of these names with the groups.
    pub(super) fn along(&self, axis_names: &[String]) -> CollectiveAxes {
        CollectiveAxes {
            axis_names: axis_names.to_vec(),
            axis_sizes: self.axis_sizes.clone(),
            axis_index_groups: Some(self.groups.clone()),
        }
    }

    /// Checks the groups of a reduction along these axes.
    ///
    /// # Errors
    /// Those of [`CollectiveAxes::check`].
    pub(super) fn check(&self, axis_names: &[String]) -> RuleResult<()> {
        self.along(axis_names).check(GroupSizes::Any)
    }

    /// Returns true if all groups have the same size.
    pub(super) fn are_equal(&self) -> bool {
        self.groups.iter().all(|group| group.len() == self.groups[0].len())
    }
}

/// The sizes that groups may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupSizes {
    /// Any sizes.
    Any,
    /// One common size, on which the shape of the result depends.
    Equal,
}

impl CollectiveAxes {
    /// Creates one axis without groups.
    pub fn one(name: &str, size: usize) -> CollectiveAxes {
        CollectiveAxes {
            axis_names: vec![name.to_string()],
            axis_sizes: vec![size],
            axis_index_groups: None,
        }
    }

    /// Returns the number of indices along all axes.
    pub fn size(&self) -> usize {
        self.axis_sizes.iter().product()
    }

    /// Returns the number of indices in a group: that of the first group, if there are several.
    pub fn group_size(&self) -> usize {
        match &self.axis_index_groups {
            Some(groups) => groups.first().map_or(0, Vec::len),
            None => self.size(),
        }
    }

    /// Returns the names for messages: `` `i`, `j` ``.
    pub(super) fn quoted(&self) -> String {
        let quoted: Vec<String> = self.axis_names.iter().map(|name| format!("`{name}`")).collect();
        quoted.join(", ")
    }

    /// Returns the names for messages about the size of a group.
    pub(super) fn described(&self) -> String {
        let along = self.quoted();
        if self.axis_index_groups.is_some() { format!("a group of {along}") } else { along }
    }

    /// Returns the axes of exemplars: two axes of size 2 with groups.
    pub(super) fn exemplar() -> CollectiveAxes {
        CollectiveAxes {
            axis_names: vec!["i".into(), "j".into()],
            axis_sizes: vec![2, 2],
            axis_index_groups: Some(vec![vec![0, 3], vec![2, 1]]),
        }
    }

    /// Returns the communication of a collective along the axes.
    pub(super) fn communication(&self, kind: Collective) -> Communication {
        Communication {
            group_size: self.axis_index_groups.as_ref().map(|_| self.group_size()),
            ..Communication::along(kind, &self.axis_names)
        }
    }

    /// Returns true for one axis without groups.
    pub(super) fn is_one_axis(&self) -> bool {
        self.axis_names.len() == 1 && self.axis_index_groups.is_none()
    }

    /// Returns the groups: one of all indices if there are none.
    pub(super) fn groups(&self) -> Vec<Vec<usize>> {
        match &self.axis_index_groups {
            Some(groups) => groups.clone(),
            None => vec![(0..self.size()).collect()],
        }
    }

    /// Checks the number of indices, that the groups contain each of them exactly once, and the
    /// sizes of the groups.
    ///
    /// # Errors
    /// If they do not, if there are no axes, or more than [`MAX_INDICES`] indices.
    pub(super) fn check(&self, sizes: GroupSizes) -> RuleResult<()> {
        ensure!(
            !self.axis_names.is_empty() && self.axis_names.len() == self.axis_sizes.len(),
            "{} axis names and {} axis sizes",
            self.axis_names.len(),
            self.axis_sizes.len()
        );
        let n = self.axis_sizes.iter().try_fold(1, |n: usize, &size| n.checked_mul(size));
        let Some(n) = n.filter(|&n| n <= MAX_INDICES) else {
            return Err(RuleError::value(format!(
                "axes of the sizes {:?} have more than 2^31 indices",
                self.axis_sizes
            )));
        };
        let Some(groups) = &self.axis_index_groups else { return Ok(()) };
        let along = self.quoted();
        let mut members = BTreeSet::new();
        for &index in groups.iter().flatten() {
            ensure!(
                index < n,
                "axis_index_groups {groups:?} contain {index}, and {along} has the size {n}"
            );
            ensure!(members.insert(index), "axis_index_groups {groups:?} contain {index} twice");
        }
        if let Some(missing) = (0..n).find(|index| !members.contains(index)) {
            return Err(RuleError::value(format!(
                "axis_index_groups {groups:?} do not contain {missing}, and {along} has the size \
                 {n}"
            ))
            .help("each index along the axes belongs to exactly one group"));
        }
        ensure!(
            groups.iter().all(|group| !group.is_empty()),
            "axis_index_groups {groups:?} contain an empty group"
        );
        if sizes == GroupSizes::Equal {
            let differs = groups.iter().find(|group| group.len() != groups[0].len());
            ensure!(
                differs.is_none(),
                "axis_index_groups {groups:?} differ in size, on which the shape of the result \
                 depends"
            );
        }
        Ok(())
    }

    /// Returns the groups of devices for lowering. All groups have the same size.
    ///
    /// # Errors
    /// `Unsupported` if the program is not inside a `shard_map` over the axes.
    pub(super) fn device_groups(&self, ctx: &LowerCtx<'_>, primitive: &str) -> RuleResult<Groups> {
        let whole = Groups::along(ctx, primitive, &self.axis_names)?;
        let Some(parts) = &self.axis_index_groups else { return Ok(whole) };
        let part = |group: &[usize], part: &Vec<usize>| part.iter().map(|&i| group[i]).collect();
        let groups = whole.groups.iter();
        let groups = groups.flat_map(|group| parts.iter().map(|members| part(group, members)));
        Ok(Groups { groups: groups.collect() })
    }

    /// Applies `work` to the values of all indices, for the batch axis that is one of the axes.
    /// `work` takes and returns arrays with an axis of [`size`](Self::size) in front. Values along
    /// the other axes are gathered first, and each example selects its own result.
    pub(super) fn batch_all(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
        work: impl FnOnce(&[Array]) -> Array,
    ) -> Batched {
        let bound = self.axis_names.iter().position(|name| axis.is_named(name));
        let operands = batch_at_front(operands, axes, axis);
        let all: Vec<Array> = operands.iter().map(|x| self.gather_all(x, bound)).collect();
        batched(self.select_own(&work(&all), bound, &operands), 0)
    }

    /// Lowers `work`, as in [`batch_all`](Self::batch_all), for devices along all axes.
    pub(super) fn lower_all(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        work: impl FnOnce(&[Array]) -> Array,
    ) -> RuleResult<Vec<Value>> {
        lower_by(ctx, operands, |operands| {
            let all: Vec<Array> = operands.iter().map(|x| self.gather_all(x, None)).collect();
            vec![self.select_own(&work(&all), None, operands)]
        })
    }

    /// Gathers the values of all indices along a new leading axis. The axis `bound` is the leading
    /// axis of `x` already.
    fn gather_all(&self, x: &Array, bound: Option<usize>) -> Array {
        let n_batch = usize::from(bound.is_some());
        let others = (0..self.axis_names.len()).rev().filter(|&other| Some(other) != bound);
        let gathered = others.fold(x.clone(), |x, other| {
            let axes = CollectiveAxes::one(&self.axis_names[other], self.axis_sizes[other]);
            bind1(AllGather { axes, all_gather_dimension: 0, tiled: false }, [&x])
        });
        let ordered = match bound {
            Some(bound) => move_axis(&gathered, self.axis_names.len() - 1, bound),
            None => gathered,
        };
        let shape = std::iter::once(self.size()).chain(x.shape().iter().copied().skip(n_batch));
        reshape(&ordered, shape.collect::<Vec<usize>>())
    }

    /// Selects the result of each example from those of all indices. The axis `bound` becomes the
    /// leading one.
    fn select_own(&self, all: &Array, bound: Option<usize>, operands: &[Array]) -> Array {
        let shape = self.axis_sizes.iter().chain(all.shape().iter().skip(1)).copied();
        let mut own = reshape(all, shape.collect::<Vec<usize>>());
        for (other, name) in self.axis_names.iter().enumerate().rev() {
            if Some(other) == bound {
                continue;
            }
            let tracked = operands.iter().any(|x| x.aval().varying.contains(name));
            let index = bind1(AxisIndex { axis_name: name.clone(), tracked }, []);
            let options = DynamicIndexOptions { keepdims: false };
            own = dynamic_index_in_dim_with(&own, &index, other as isize, options);
        }
        own
    }

    /// Applies `work` to groups of the values of all indices, `[n, …]`. `work` maps `[g, s, …]`,
    /// the values of `g` groups of `s` indices, to the results of the same indices.
    pub(super) fn in_groups(&self, all: &Array, work: impl Fn(&Array) -> Array) -> Array {
        let groups = self.groups();
        let mut by_size: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for group in &groups {
            by_size.entry(group.len()).or_default().extend(group);
        }
        let mut order: Vec<usize> = Vec::with_capacity(self.size());
        let mut results: Vec<Array> = Vec::with_capacity(by_size.len());
        for (size, members) in by_size {
            let sources: Vec<Option<usize>> = members.iter().copied().map(Some).collect();
            let rows = select_rows(all, &sources);
            let rest = all.shape().iter().skip(1).copied();
            let shape: Vec<usize> = [members.len() / size, size].into_iter().chain(rest).collect();
            let result = work(&reshape(&rows, shape));
            let rest = result.shape().iter().skip(2).copied();
            let shape: Vec<usize> = std::iter::once(members.len()).chain(rest).collect();
            results.push(reshape(&result, shape));
            order.extend(members);
        }
        let mut sources = vec![None; order.len()];
        for (row, index) in order.into_iter().enumerate() {
            sources[index] = Some(row);
        }
        select_rows(&concatenate(&results, 0), &sources)
    }

    /// Reduces the values of each group. `reduce` maps `[g, s, …]` to `[g, …]`.
    pub(super) fn reduce_groups(&self, all: &Array, reduce: impl Fn(&Array) -> Array) -> Array {
        self.in_groups(all, |x| broadcast_axis(&reduce(x), 1, x.shape()[1]))
    }
}

/// Returns the sources in runs of consecutive indices: start, if the run has sources, and length.
fn runs(sources: &[Option<usize>]) -> Vec<(Option<usize>, usize)> {
    let mut runs: Vec<(Option<usize>, usize)> = Vec::new();
    for &source in sources {
        match runs.last_mut() {
            Some((begin, length)) if begin.map(|begin| begin + *length) == source => *length += 1,
            _ => runs.push((source, 1)),
        }
    }
    runs
}

/// Returns rows of `x` along its first axis, in as few slices as there are runs; zeros for `None`.
pub(super) fn select_rows(x: &Array, sources: &[Option<usize>]) -> Array {
    if sources.iter().copied().eq((0..x.shape()[0]).map(Some)) {
        return x.clone();
    }
    let piece = |(begin, length): (Option<usize>, usize)| match begin {
        Some(begin) => slice_in_dim(x, begin as isize, (begin + length) as isize, 1, 0),
        None => zeros_of(&x.aval().with_shape(x.shape().remove(0).insert(0, length))),
    };
    let pieces: Vec<Array> = runs(sources).into_iter().map(piece).collect();
    if pieces.is_empty() { x.clone() } else { concatenate(&pieces, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_has_two_contiguous_runs() {
        assert_eq!(runs(&[Some(3), Some(0), Some(1), Some(2)]), [(Some(3), 1), (Some(0), 3)]);
        assert_eq!(runs(&[None, Some(1), None, None]), [(None, 1), (Some(1), 1), (None, 2)]);
    }

    #[test]
    fn groups_contain_each_index_once() {
        let check = |groups: &[&[usize]], sizes| {
            let axis_index_groups = Some(groups.iter().map(|group| group.to_vec()).collect());
            let axes = CollectiveAxes { axis_index_groups, ..CollectiveAxes::one("i", 4) };
            axes.check(sizes).map_err(|error| error.message)
        };
        use GroupSizes::{Any, Equal};
        assert_eq!(check(&[&[0, 2], &[3, 1]], Equal), Ok(()));
        assert_eq!(check(&[&[0, 2, 1], &[3]], Any), Ok(()));
        let error = check(&[&[0, 2, 1], &[3]], Equal).unwrap_err();
        assert!(error.contains("differ in size"), "{error}");
        let error = check(&[&[0, 1], &[3, 1]], Any).unwrap_err();
        assert!(error.contains("contain 1 twice"), "{error}");
        let error = check(&[&[0, 1], &[3]], Any).unwrap_err();
        assert!(error.contains("do not contain 2, and `i` has the size 4"), "{error}");
        let error = check(&[&[0, 1], &[2, 3, 4]], Any).unwrap_err();
        assert!(error.contains("contain 4, and `i` has the size 4"), "{error}");
        let error = check(&[&[0, 1, 2, 3], &[]], Any).unwrap_err();
        assert!(error.contains("empty group"), "{error}");
    }
}
