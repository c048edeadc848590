//! [`MemoryKind`]: the memories that an array can be stored in.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The memory that a device stores an array in.
///
/// Operations on arrays in host memory return arrays in host memory. A TPU's compiler copies such
/// operands to the device and the results back, a GPU's computes on the host, which is slow. Inside
/// `jit`, [`with_memory_kind`](crate::parallel::with_memory_kind) moves values explicitly.
///
/// Arguments in host memory are not donated: plugins cannot keep a donated one for a single call.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[doc(alias = "memory_kind")]
#[doc(alias = "Space")]
pub enum MemoryKind {
    /// The device's own memory: HBM on a TPU or GPU.
    #[default]
    Device,
    /// Memory of the host that is not paged out, so that the device copies from and to it directly.
    PinnedHost,
    /// Ordinary memory of the host. TPU programs cannot take or return arrays in it.
    UnpinnedHost,
}

impl MemoryKind {
    /// Every kind.
    pub const ALL: [MemoryKind; 3] =
        [MemoryKind::Device, MemoryKind::PinnedHost, MemoryKind::UnpinnedHost];

    /// Returns the plugins' name: `device`, `pinned_host` or `unpinned_host`.
    pub fn name(self) -> &'static str {
        match self {
            MemoryKind::Device => "device",
            MemoryKind::PinnedHost => "pinned_host",
            MemoryKind::UnpinnedHost => "unpinned_host",
        }
    }

    /// Returns the kind with this name, if there is one.
    pub fn from_name(name: &str) -> Option<MemoryKind> {
        MemoryKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns true for memory of the host.
    pub fn is_host(self) -> bool {
        self != MemoryKind::Device
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_printed() {
        for kind in MemoryKind::ALL {
            assert_eq!(MemoryKind::from_name(&kind.to_string()), Some(kind));
            let text = serde_json::to_string(&kind).unwrap_or_default();
            assert_eq!(text, format!("\"{kind}\""));
        }
        assert_eq!(MemoryKind::from_name("hbm"), None);
    }
}
