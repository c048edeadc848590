//! [`Scratch`]: the reusable lists of one call.

use super::device_buffer::release_donated;
use crate::core::Buffer;
use oxidax_pjrt::Workspace;
use std::sync::Arc;

/// The lists that a call fills: its arguments, those that must not be donated, and allocations to
/// reuse for results. They are kept from call to call: with hundreds of leaves, allocating them
/// would cost more than the rest of the call.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The buffers of the arguments.
    pub(crate) arguments: Vec<Arc<dyn Buffer>>,
    /// Indices of arguments that must not be donated, ascending.
    pub(crate) non_donatable: Vec<i64>,
    /// Allocations of donated arguments, each reused for one result.
    pub(super) spare: Vec<Arc<dyn Buffer>>,
    pub(super) workspace: Workspace,
}

/// The arguments of a call that must not be donated. Of the others, the plugin consumes those whose
/// memory a result can use; nothing else may hold their buffers.
#[derive(Clone, Copy)]
pub(crate) enum NonDonatable<'a> {
    /// The indices listed in the [`Scratch`].
    InScratch,
    /// These indices.
    Indices(&'a [i64]),
}

impl Scratch {
    /// Releases the arguments.
    pub(crate) fn clear(&mut self) {
        self.arguments.clear();
        self.non_donatable.clear();
    }

    /// Returns the allocations that the next call reuses for its results.
    #[cfg(test)]
    pub(crate) fn spare(&self) -> &[Arc<dyn Buffer>] {
        &self.spare
    }

    /// Releases the arguments after a call that donated some. The allocation of a donated argument
    /// that the plugin consumed is kept for a result, because its owner passed it by value.
    pub(crate) fn clear_donated(&mut self, is_consumed: impl Fn(usize, &Arc<dyn Buffer>) -> bool) {
        self.spare.clear();
        let mut non_donatable = self.non_donatable.drain(..).peekable();
        for (index, buffer) in self.arguments.drain(..).enumerate() {
            let is_donated = non_donatable.next_if_eq(&(index as i64)).is_none();
            if is_donated && is_consumed(index, &buffer) {
                release_donated(&buffer);
                self.spare.push(buffer);
            }
        }
    }
}
