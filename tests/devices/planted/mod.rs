//! Planted mistakes on several devices, as those of `tests/cpu/planted` on one.

mod movement;
mod recompilation;
mod refused;

use oxidax::prelude::*;

/// Returns a mesh of the first devices of eight.
fn mesh_of(axes: &[(&str, usize)]) -> Mesh {
    oxidax::parallel::set_cpu_devices(8).unwrap();
    let n = axes.iter().map(|(_, size)| size).product();
    Mesh::new(&devices().unwrap()[..n], axes.to_vec()).unwrap()
}
