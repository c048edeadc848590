//! [`TraceScope`]: the scoped settings that traced programs depend on.

use crate::core::mesh::MeshId;
use crate::core::options::{DEFAULT_PRNG_IMPL, ERROR_CHECKING, KeyImpl};
use crate::core::scoped::scoped;
use crate::core::types::check_set::CheckSet;
use crate::core::types::precision::Precision;

scoped!(
    /// The number of the block sizes that `with_block_table` set on this thread; 0 for none.
    keyed pub(crate) static BLOCK_SIZES: u32 = 0
);

/// The values of the `keyed` settings while a function is traced. A cache of traced programs has it
/// in its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TraceScope {
    precision: Precision,
    mesh: Option<MeshId>,
    prng: KeyImpl,
    errors: CheckSet,
    block_sizes: u32,
}

impl TraceScope {
    /// Returns the values in force on this thread.
    pub(crate) fn current() -> TraceScope {
        TraceScope {
            precision: Precision::in_force(),
            mesh: MeshId::current(),
            prng: DEFAULT_PRNG_IMPL.get(),
            errors: ERROR_CHECKING.get(),
            block_sizes: BLOCK_SIZES.key(),
        }
    }

    /// Returns the name of each setting with its value, for reports.
    pub(crate) fn settings(self) -> Vec<(&'static str, String)> {
        let mesh = self.mesh.and_then(MeshId::mesh).map(|mesh| {
            let devices = mesh.devices().len();
            format!("{mesh} of {devices} device{}", if devices == 1 { "" } else { "s" })
        });
        let block_sizes = match self.block_sizes {
            0 => "none".to_string(),
            number => format!("table {number}"),
        };
        vec![
            ("matmul precision", format!("{:?}", self.precision)),
            ("default generator of keys", format!("{:?}", self.prng)),
            ("mesh", mesh.unwrap_or_else(|| "none".to_string())),
            ("error checking", self.errors.to_string()),
            ("block sizes", block_sizes),
        ]
    }
}
