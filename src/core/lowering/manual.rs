//! [`Manual`]: the manual axes of a region.

use crate::core::mesh::mesh::Mesh;

/// The mesh axes along which the program being written is that of one device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Manual {
    pub(crate) mesh: Mesh,
    /// The manual axes, including those of enclosing regions.
    pub(crate) axes: Vec<String>,
}
