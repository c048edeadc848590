//! Tangents and cotangents with symbolic zeros, as users' rules receive them.

use crate::core::scoped::scoped;
use crate::core::{Array, Dense, Marks};
use crate::tree::{Tree, leaves_of};

/// Tangents or cotangents of a tree, of which some leaves are known to be zero.
///
/// Rules receive it from [`custom_jvp_symbolic`](super::custom_jvp_symbolic) and
/// [`custom_vjp_symbolic`](super::custom_vjp_symbolic), and skip the work for leaves that are zero.
/// Leaves are numbered in the order of [`tree::leaves`](crate::tree::leaves).
#[doc(alias = "SymbolicZero")]
pub struct SymbolicZeros<T> {
    dense: T,
    marks: Marks<Dense>,
}

impl<T: Tree> SymbolicZeros<T> {
    pub(super) fn new(dense: T, marks: Marks<Dense>) -> SymbolicZeros<T> {
        SymbolicZeros { dense, marks }
    }

    /// Returns the number of leaves.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Returns true if there are no leaves.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Returns true if the leaf at this index is zero everywhere.
    pub fn is_zero(&self, index: usize) -> bool {
        !self.marks[index]
    }

    /// Returns true if all leaves are zero.
    pub fn is_all_zero(&self) -> bool {
        !self.marks.any()
    }

    /// Returns the leaf at this index; `None` if it is zero everywhere.
    pub fn get(&self, index: usize) -> Option<Array> {
        self.marks[index].then(|| leaves_of(&self.dense).swap_remove(index))
    }

    /// Returns the tree with zeros in place of symbolic zeros.
    pub fn dense(&self) -> &T {
        &self.dense
    }

    /// Returns the tree with zeros in place of symbolic zeros.
    pub fn into_dense(self) -> T {
        self.dense
    }
}

/// The arguments of a function that is being differentiated, and which of them vary.
///
/// Forward rules receive it from [`custom_vjp_symbolic`](super::custom_vjp_symbolic).
#[doc(alias = "CustomVJPPrimal")]
pub struct Perturbed<T> {
    value: T,
    marks: Marks<Dense>,
}

impl<T: Tree> Perturbed<T> {
    pub(super) fn new(value: T, marks: Marks<Dense>) -> Perturbed<T> {
        Perturbed { value, marks }
    }

    /// Returns true if the derivative is taken with respect to the leaf at this index.
    pub fn is_perturbed(&self, index: usize) -> bool {
        self.marks[index]
    }

    /// Returns the values.
    #[doc(alias = "custom_vjp_primal_tree_values")]
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Returns the values.
    #[doc(alias = "custom_vjp_primal_tree_values")]
    pub fn into_value(self) -> T {
        self.value
    }
}

scoped!(
    /// Marks the leaves that have a dense tangent or cotangent, while a rule runs.
    static DENSE: Option<Marks<Dense>> = None
);

/// Runs a rule, whose tangents or cotangents have these marks.
pub(super) fn with_dense<R>(marks: Marks<Dense>, f: impl FnOnce() -> R) -> R {
    DENSE.scope(Some(marks), f)
}

/// Runs a rule that is traced to find its captures: all tangents are dense.
pub(super) fn with_all_dense<R>(f: impl FnOnce() -> R) -> R {
    DENSE.scope(None, f)
}

/// Returns the marks of the rule that runs, for `n` leaves. Rules of other functions, which the
/// rule calls, do not see them.
pub(super) fn take_dense(n: usize) -> Marks<Dense> {
    DENSE.replace(None).filter(|marks| marks.len() == n).unwrap_or_else(|| Marks::all(n))
}
