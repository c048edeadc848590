//! [`TraceScope`]: the scoped settings that traced programs depend on.

use crate::core::mesh::MeshId;
use crate::core::options::ERROR_CHECKING;
use crate::core::types::check_set::CheckSet;
use crate::core::types::precision::Precision;

/// The values of the `keyed` settings while a function is traced. A cache of traced programs has it
/// in its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TraceScope {
    precision: Precision,
    mesh: Option<MeshId>,
    errors: CheckSet,
}

impl TraceScope {
    /// Returns the values in force on this thread.
    pub(crate) fn current() -> TraceScope {
        TraceScope {
            precision: Precision::in_force(),
            mesh: MeshId::current(),
            errors: ERROR_CHECKING.get(),
        }
    }

    /// Returns the name of each setting with its value, for reports.
    pub(crate) fn settings(self) -> Vec<(&'static str, String)> {
        let mesh = self.mesh.and_then(MeshId::mesh).map(|mesh| {
            let devices = mesh.devices().len();
            format!("{mesh} of {devices} device{}", if devices == 1 { "" } else { "s" })
        });
        vec![
            ("matmul precision", format!("{:?}", self.precision)),
            ("mesh", mesh.unwrap_or_else(|| "none".to_string())),
            ("error checking", self.errors.to_string()),
        ]
    }
}
