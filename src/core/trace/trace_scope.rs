//! [`TraceScope`]: the scoped settings that traced programs depend on.

use crate::core::mesh::MeshId;
use crate::core::types::precision::Precision;

/// The values of the `keyed` settings while a function is traced. A cache of traced programs has it
/// in its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TraceScope {
    precision: Precision,
    mesh: Option<MeshId>,
}

impl TraceScope {
    /// Returns the values in force on this thread.
    pub(crate) fn current() -> TraceScope {
        TraceScope { precision: Precision::in_force(), mesh: MeshId::current() }
    }
}
