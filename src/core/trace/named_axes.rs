//! Named axes: axes that `vmap` and `shard_map` add, and that collectives refer to by name.
//!
//! While a transform traces the user's function, the axes that it names are *in scope* on this
//! thread, innermost last. A collective looks its names up when it is called and stores their sizes
//! as parameters, because its rules run later, when the scope may have ended. The transform that
//! puts an axis in scope also eliminates it: it interprets the traced program with the axis bound
//! (`vmap` by batch rules), so no equation outside refers to it.

use crate::core::error::OpErrorKind;
use crate::core::error::loc::Loc;
use crate::core::error::throw::{op_error, throw};
use crate::core::mesh::varying::Varying;
use crate::core::program::primitive::BatchAxis;
use crate::core::scoped::scoped;

scoped!(
    /// The axes in scope, outermost first.
    static AXES: Vec<NamedAxis> = Vec::new()
);

/// Runs `f` with these axes in scope. Types record the values that vary over `tracked` axes, which
/// are those of a mesh.
pub(crate) fn with_axes<R>(
    axes: impl IntoIterator<Item = (String, usize)>,
    tracked: bool,
    f: impl FnOnce() -> R,
) -> R {
    let axes = axes.into_iter().map(|(name, size)| NamedAxis { name, size, tracked });
    AXES.update(|scope| scope.extend(axes), f)
}

/// Runs `f` without axes in scope.
pub(super) fn without_axes<R>(f: impl FnOnce() -> R) -> R {
    AXES.scope(Vec::new(), f)
}

/// Returns the axes in scope, outermost first.
pub(crate) fn axes_in_scope() -> Vec<NamedAxis> {
    AXES.with(Clone::clone)
}

/// Runs `f` with those of `axes` in scope whose names are not. Rules that a primitive holds run
/// after the transform that put their axes in scope.
pub(crate) fn with_missing_axes<R>(axes: &[NamedAxis], f: impl FnOnce() -> R) -> R {
    let add = |scope: &mut Vec<NamedAxis>| {
        for axis in axes {
            if !scope.iter().any(|other| other.name == axis.name) {
                scope.push(axis.clone());
            }
        }
    };
    AXES.update(add, f)
}

/// One or several names of axes: `"batch"`, `["data", "model"]`, a `String`, a slice or a `Vec`.
///
/// Several names refer to the combination of their axes. The first varies slowest.
///
/// [`axis_index_groups`](AxisNames::axis_index_groups) divides the axes into groups, as JAX's
/// argument of that name does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AxisNames {
    names: Vec<String>,
    groups: Option<Vec<Vec<usize>>>,
}

impl AxisNames {
    /// Returns the names, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Divides the axes into groups of indices, each of which runs the collective on its own. Each
    /// index along the axes is in exactly one group; indices along several axes are linear. Groups
    /// of reductions may differ in size.
    ///
    /// Collectives throw `Op` (value) if the groups do not contain each index once, or if their
    /// sizes differ where the shape of the result depends on them.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let x = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [4])?;
    /// let pairs = || AxisNames::from("i").axis_index_groups([[0, 3], [1, 2]]);
    /// let sums = vmap(|x: Array| psum(&x, pairs())).axis_name("i").apply(&x);
    /// assert_eq!(sums.to_vec::<f32>()?, [5.0, 5.0, 5.0, 5.0]);
    /// let largest = vmap(|x: Array| pmax(&x, pairs())).axis_name("i").apply(&x);
    /// assert_eq!(largest.to_vec::<f32>()?, [4.0, 3.0, 3.0, 4.0]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn axis_index_groups<G>(mut self, groups: impl IntoIterator<Item = G>) -> AxisNames
    where
        G: IntoIterator<Item = usize>,
    {
        self.groups = Some(groups.into_iter().map(|group| group.into_iter().collect()).collect());
        self
    }

    /// Returns the groups, if there are any.
    pub fn groups(&self) -> Option<&[Vec<usize>]> {
        self.groups.as_deref()
    }
}

impl From<Vec<String>> for AxisNames {
    fn from(names: Vec<String>) -> AxisNames {
        AxisNames { names, groups: None }
    }
}

impl From<&str> for AxisNames {
    fn from(name: &str) -> AxisNames {
        vec![name.to_string()].into()
    }
}

impl From<String> for AxisNames {
    fn from(name: String) -> AxisNames {
        vec![name].into()
    }
}

impl From<&String> for AxisNames {
    fn from(name: &String) -> AxisNames {
        vec![name.clone()].into()
    }
}

impl From<&[&str]> for AxisNames {
    fn from(names: &[&str]) -> AxisNames {
        names.iter().map(ToString::to_string).collect::<Vec<_>>().into()
    }
}

impl<const N: usize> From<[&str; N]> for AxisNames {
    fn from(names: [&str; N]) -> AxisNames {
        AxisNames::from(&names[..])
    }
}

impl From<&AxisNames> for AxisNames {
    fn from(names: &AxisNames) -> AxisNames {
        names.clone()
    }
}

/// An axis in scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedAxis {
    pub(crate) name: String,
    pub(crate) size: usize,
    /// True if types record the values that vary over it.
    pub(crate) tracked: bool,
}

/// Returns the tracked axes among `axes`.
pub(crate) fn tracked(axes: &[NamedAxis]) -> Varying {
    Varying::over(axes.iter().filter(|axis| axis.tracked).map(|axis| &axis.name))
}

impl BatchAxis {
    /// Runs `f` with the axis in scope, if it has a name. It hides an outer axis of the same name.
    pub(crate) fn in_scope<R>(&self, f: impl FnOnce() -> R) -> R {
        let Some(name) = &self.name else { return f() };
        with_axes([(name.to_string(), self.size)], false, f)
    }
}

/// Returns true if a named axis is in scope on this thread. Only while tracing, so programs that
/// are looked up by the types of their arguments do not depend on names.
pub(crate) fn any_in_scope() -> bool {
    AXES.with(|axes| !axes.is_empty())
}

/// Returns the axes in scope with these names, in order.
///
/// Throws `Op` (value) as an error of `function` if an axis is not in scope or a name occurs twice.
#[track_caller]
pub(crate) fn named_axes(function: &str, names: &AxisNames) -> Vec<NamedAxis> {
    let loc = Loc::caller();
    let refuse = |message: String, help: &str| -> ! {
        let error = op_error(OpErrorKind::Value, function, message, loc);
        throw(error.with_help(help))
    };
    let mut axes: Vec<NamedAxis> = Vec::with_capacity(names.names.len());
    for name in &names.names {
        if axes.iter().any(|axis| axis.name == *name) {
            refuse(format!("the axis `{name}` is named twice"), "name each axis once");
        }
        match AXES.with(|axes| axes.iter().rev().find(|axis| axis.name == *name).cloned()) {
            Some(axis) => axes.push(axis),
            None => refuse(
                format!("no axis is named `{name}` here; {}", described()),
                &format!(
                    "`vmap(f).axis_name(\"{name}\")` names the axis that it maps over, and inside \
                     of `shard_map` the axes of its mesh have their names"
                ),
            ),
        }
    }
    axes
}

/// Describes the axes in scope for an error message.
fn described() -> String {
    let describe = |axis: &NamedAxis| format!("`{}` of size {}", axis.name, axis.size);
    let axes = AXES.with(|axes| axes.iter().map(describe).collect::<Vec<_>>().join(", "));
    match axes.as_str() {
        "" => "no named axis is in scope".into(),
        axes => format!("in scope: {axes}"),
    }
}

/// Returns the size of a named axis, or of several combined; with
/// [groups](AxisNames::axis_index_groups), the size of a group. The size is a plain number, known
/// while the function is traced.
///
/// Throws `Op` (value) if an axis is not in scope, or if groups differ in size.
///
/// ```
/// use oxidax::prelude::*;
/// let mean = |x: Array| psum(&x, "batch") / axis_size("batch") as i32;
/// let means = eval_shape(
///     move |xs: Array| vmap(mean).axis_name("batch").apply(xs),
///     Aval::new(DType::F32, [4]),
/// )?;
/// assert_eq!(means.shape().dims(), [4]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn axis_size(axis_name: impl Into<AxisNames>) -> usize {
    let names = axis_name.into();
    let size = named_axes("axis_size", &names).iter().map(|axis| axis.size).product();
    let Some([first, others @ ..]) = names.groups() else { return size };
    let total = first.len() + others.iter().map(Vec::len).sum::<usize>();
    if total != size || others.iter().any(|group| group.len() != first.len()) {
        let message = format!(
            "the groups {:?} of {size} indices have no common size",
            names.groups().unwrap_or_default()
        );
        throw(op_error(OpErrorKind::Value, "axis_size", message, Loc::caller()));
    }
    first.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::catch;

    #[test]
    fn inner_axes_hide_outer_ones_of_the_same_name() {
        let (outer, inner) = (BatchAxis::named("i", 2), BatchAxis::named("i", 3));
        outer.in_scope(|| {
            assert_eq!(axis_size("i"), 2);
            inner.in_scope(|| assert_eq!(axis_size("i"), 3));
            let thrown = catch(|| inner.in_scope(|| axis_size("k")));
            assert!(thrown.is_err());
            BatchAxis::new(7).in_scope(|| assert_eq!(axis_size(["i"]), 2));
        });
        assert!(!any_in_scope());
    }

    #[test]
    fn size_of_several_axes_is_their_product() {
        let product = BatchAxis::named("i", 2)
            .in_scope(|| BatchAxis::named("j", 3).in_scope(|| axis_size(["j", "i"])));
        assert_eq!(product, 6);
    }
}
