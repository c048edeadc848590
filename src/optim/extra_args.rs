//! Arguments of an update beyond gradients, state and parameters.

use super::leaves::Leaves;
use crate::core::Array;
use crate::tree::Tree;
use std::fmt;
use std::sync::Arc;

/// Further arguments of [`Optimizer::update_with`](super::Optimizer::update_with).
///
/// Line searches take the value, the gradient and the function. Polyak's step size takes the value.
pub struct UpdateOptions<'a, T: Tree> {
    /// The value of the loss at the parameters: a scalar.
    pub value: Option<&'a Array>,
    /// The gradient at the parameters, if the first argument of the update is something else.
    pub gradient: Option<&'a T>,
    /// The loss as a function of the parameters.
    pub value_fn: Option<&'a dyn Fn(&T) -> Array>,
    /// Arrays by name, for transformations of the user.
    pub extra: &'a [(&'a str, &'a Array)],
}

impl<T: Tree> Default for UpdateOptions<'_, T> {
    fn default() -> Self {
        UpdateOptions { value: None, gradient: None, value_fn: None, extra: &[] }
    }
}

impl<T: Tree> Clone for UpdateOptions<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Tree> Copy for UpdateOptions<'_, T> {}

impl<T: Tree> fmt::Debug for UpdateOptions<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdateOptions")
            .field("value", &self.value)
            .field("gradient", &self.gradient.is_some())
            .field("value_fn", &self.value_fn.is_some())
            .field("extra", &self.extra)
            .finish()
    }
}

impl<T: Tree> UpdateOptions<'_, T> {
    pub(super) fn arrays(&self) -> ExtraArrays {
        ExtraArrays {
            value: self.value.cloned(),
            gradient: self.gradient.map(Leaves::new),
            names: self.extra.iter().map(|(name, _)| (*name).to_owned()).collect(),
            named: self.extra.iter().map(|(_, array)| (*array).clone()).collect(),
        }
    }
}

/// The arguments that are arrays, as a tree.
#[derive(Tree, Clone, Debug, Default)]
pub(super) struct ExtraArrays {
    pub(super) value: Option<Array>,
    pub(super) gradient: Option<Leaves>,
    #[tree(static)]
    pub(super) names: Vec<String>,
    pub(super) named: Vec<Array>,
}

/// All further arguments of an update.
pub(super) struct ExtraArgs<'a> {
    pub(super) arrays: ExtraArrays,
    pub(super) value_fn: Option<&'a dyn Fn(&Leaves) -> Array>,
    /// Numbers that outer transformations compute, by name.
    pub(super) injected: Vec<(Arc<str>, Array)>,
}
