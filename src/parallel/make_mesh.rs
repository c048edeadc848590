//! [`make_mesh`]: a mesh of the devices of the process.

use super::devices::devices;
use crate::core::{Error, Mesh};

/// Arranges the devices of all processes in a mesh, with neighbours in the TPU slice along each
/// axis: [`Mesh::by_coordinates`] of [`devices`]. The sizes may have a product below the number of
/// devices; then the first devices are used.
///
/// # Errors
/// `Plugin` if there is no usable plugin. Otherwise as [`Mesh::by_coordinates`].
///
/// ```
/// use oxidax::prelude::*;
/// oxidax::parallel::set_cpu_devices(8)?;
/// let mesh = make_mesh([("data", 4), ("model", 2)])?;
/// assert_eq!(mesh.to_string(), "Mesh(data=4, model=2)");
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn make_mesh<S: Into<String>>(
    axes: impl IntoIterator<Item = (S, usize)>,
) -> Result<Mesh, Error> {
    let axes: Vec<(String, usize)> =
        axes.into_iter().map(|(name, size)| (name.into(), size)).collect();
    let mut devices = devices()?;
    if let Some(count) = axes.iter().try_fold(1_usize, |count, (_, size)| count.checked_mul(*size))
    {
        devices.truncate(count.max(1));
    }
    Mesh::by_coordinates(devices, axes)
}
