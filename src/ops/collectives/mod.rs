//! Collectives along a named axis: of a mesh, or of `vmap(f).axis_name("batch")`.
//!
//! Collectives take a tree and apply to each leaf. [`AxisNames::axis_index_groups`] divides the
//! axes into groups. Several names stand for one axis composed of
//! them, of which the first varies slowest. Every function throws `Op` (value) for a name that is
//! not in scope; the error lists the names in scope.

mod exchange;
mod point_to_point;
mod psum;

pub use exchange::{
    Tiling, all_gather, all_to_all, ppermute, pshuffle, psum_scatter, pswapaxes, ragged_all_to_all,
};
pub use point_to_point::{SendToken, pbroadcast, precv, psend};
pub use psum::{axis_index, pmax, pmean, pmin, psum};

use crate::core::named_axes::{NamedAxis, named_axes};
use crate::core::{AxisNames, Loc, OpErrorKind, trace};
use crate::primitives::{AxisIndexGroups, CollectiveAxes};

/// The axes of a collective, and groups along them.
struct GroupedAxes {
    axes: Vec<NamedAxis>,
    groups: Option<Vec<Vec<usize>>>,
}

impl GroupedAxes {
    /// Resolves the axes. Throws for a name that is not in scope.
    #[track_caller]
    fn of(function: &str, axis_name: &AxisNames) -> GroupedAxes {
        let axes = named_axes(function, axis_name);
        let groups = axis_name.groups().map(<[Vec<usize>]>::to_vec);
        if groups.is_some() && axes.is_empty() {
            no_axes(function);
        }
        GroupedAxes { axes, groups }
    }

    /// As [`GroupedAxes::of`]. Throws if there are no axes too.
    #[track_caller]
    fn some(function: &str, axis_name: &AxisNames) -> GroupedAxes {
        let axes = GroupedAxes::of(function, axis_name);
        if axes.axes.is_empty() {
            no_axes(function);
        }
        axes
    }

    fn names(&self) -> Vec<String> {
        self.axes.iter().map(|axis| axis.name.clone()).collect()
    }

    fn sizes(&self) -> Vec<usize> {
        self.axes.iter().map(|axis| axis.size).collect()
    }

    /// Returns the groups of a reduction.
    fn of_reduction(&self) -> Option<AxisIndexGroups> {
        let groups = self.groups.clone()?;
        Some(AxisIndexGroups { axis_sizes: self.sizes(), groups })
    }

    /// Returns the axes of one collective over all of them.
    fn together(&self) -> CollectiveAxes {
        CollectiveAxes {
            axis_names: self.names(),
            axis_sizes: self.sizes(),
            axis_index_groups: self.groups.clone(),
        }
    }

    /// Returns the axes of the collectives that run one after another: each axis, or all axes if
    /// there are groups.
    fn one_by_one(&self) -> Vec<CollectiveAxes> {
        match self.groups {
            Some(_) => vec![self.together()],
            None => {
                self.axes.iter().map(|axis| CollectiveAxes::one(&axis.name, axis.size)).collect()
            }
        }
    }

    /// Returns the common size of the groups, if there is one.
    fn common_size(&self) -> Option<usize> {
        let Some(groups) = &self.groups else {
            return Some(self.axes.iter().map(|axis| axis.size).product());
        };
        let size = groups.first().map_or(0, Vec::len);
        groups.iter().all(|group| group.len() == size).then_some(size)
    }
}

#[track_caller]
fn no_axes(function: &str) -> ! {
    let message = "the list of axis names is empty".to_string();
    trace::throw_op(OpErrorKind::Value, function, message, Loc::caller())
}

/// Throws if the axes are divided into groups, which `function` does not support.
#[track_caller]
fn refuse_groups(function: &str, axis_name: &AxisNames) {
    if axis_name.groups().is_some() {
        let message = "runs along whole axes, and axis_index_groups divide them".to_string();
        trace::throw_op(OpErrorKind::Unsupported, function, message, Loc::caller());
    }
}
