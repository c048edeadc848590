//! [`AxisType`]: automatic and explicit axes of a mesh.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The type of a mesh axis: the party that decides how values are sharded over it.
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::parallel::AxisType;
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?;
/// assert_eq!(mesh.axis_type("data"), Some(AxisType::Auto));
/// let mesh = mesh.with_axis_types([AxisType::Explicit, AxisType::Auto])?;
/// assert_eq!(mesh.to_string(), "Mesh(data=4 explicit, model=2)");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AxisType {
    /// The compiler, from the shardings of arguments and from constraints.
    #[default]
    Auto,
    /// The program: shardings over the axis are part of the types of arrays, and each operation
    /// derives that of its result.
    Explicit,
}

impl fmt::Display for AxisType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AxisType::Auto => "auto",
            AxisType::Explicit => "explicit",
        })
    }
}
