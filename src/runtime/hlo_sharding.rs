//! Conversion of the compiler's shardings to named shardings.

use crate::core::{AxisSpec, Mesh, NamedSharding, PartitionSpec};
use oxidax_pjrt::HloSharding;

/// Converts the HLO sharding of an array with `rank` axes to a sharding over `mesh`.
///
/// If the compiler split an array along part of a mesh axis, the result is over a finer mesh, whose
/// axes `data.0`, `data.1` are factors of the axis `data`. Returns `None` if no named sharding is
/// equivalent.
pub(super) fn from_hlo_sharding(
    mesh: &Mesh,
    sharding: &HloSharding,
    rank: usize,
) -> Option<NamedSharding> {
    match sharding {
        HloSharding::Replicated => Some(mesh.replicated()),
        HloSharding::Tiled { tiles, devices, .. } => {
            let count = mesh.devices().len();
            if tiles.len() < rank || devices.len() != count {
                return None;
            }
            let (counts, tile_indices) = (&tiles[..rank], tile_indices(tiles, devices, rank));
            match_axes(mesh, counts, &tile_indices)
                .or_else(|| match_axes(&factored_mesh(mesh)?, counts, &tile_indices))
        }
        _ => None,
    }
}

/// Converts the text of an HLO sharding. As [`from_hlo_sharding`]; also `None` for another form.
#[cfg(feature = "import")]
pub(crate) fn sharding_of_text(mesh: &Mesh, text: &str, rank: usize) -> Option<NamedSharding> {
    from_hlo_sharding(mesh, &HloSharding::parse(text)?, rank)
}

/// Returns, for each axis of the array, the index of the tile that each device of the mesh has.
fn tile_indices(tiles: &[i64], devices: &[i64], rank: usize) -> Vec<Vec<usize>> {
    let mut indices = vec![vec![0; devices.len()]; rank];
    for (position, &device) in devices.iter().enumerate() {
        let mut rest = position;
        for (axis, &count) in tiles.iter().enumerate().rev() {
            let count = count as usize;
            if axis < rank {
                indices[axis][device as usize] = rest % count;
            }
            rest /= count;
        }
    }
    indices
}

/// Returns the sharding over `mesh` with these numbers of tiles and tile indices.
fn match_axes(mesh: &Mesh, counts: &[i64], tile_indices: &[Vec<usize>]) -> Option<NamedSharding> {
    let mut spec = Vec::new();
    for (&count, indices) in counts.iter().zip(tile_indices) {
        let mut axes = Vec::new();
        if count > 1 && !search(mesh, count as usize, indices, &mut axes) {
            return None;
        }
        spec.push(AxisSpec::Axes(axes));
    }
    NamedSharding::checked(mesh, PartitionSpec(spec)).ok()
}

/// Extends `axes` by mesh axes of total size `count` until they give each device its tile index.
/// Returns false, with `axes` unchanged, if there are none.
fn search(mesh: &Mesh, count: usize, indices: &[usize], axes: &mut Vec<String>) -> bool {
    if count == 1 {
        return (0..indices.len()).all(|ordinal| mesh.position(ordinal, axes) == indices[ordinal]);
    }
    for (name, size) in mesh.axes() {
        if *size > 1 && count.is_multiple_of(*size) && !axes.contains(name) {
            axes.push(name.clone());
            if search(mesh, count / size, indices, axes) {
                return true;
            }
            axes.pop();
        }
    }
    false
}

/// Returns the mesh with every axis split into axes of prime size.
fn factored_mesh(mesh: &Mesh) -> Option<Mesh> {
    let mut axes = Vec::new();
    for (name, size) in mesh.axes() {
        let factors = prime_factors(*size);
        if factors.len() < 2 {
            axes.push((name.clone(), *size));
            continue;
        }
        for (index, factor) in factors.into_iter().enumerate() {
            axes.push((format!("{name}.{index}"), factor));
        }
    }
    Mesh::new(mesh.devices(), axes).ok()
}

pub(crate) fn prime_factors(mut n: usize) -> Vec<usize> {
    let mut factors = Vec::new();
    let mut prime = 2;
    while n > 1 {
        while n.is_multiple_of(prime) {
            factors.push(prime);
            n /= prime;
        }
        prime += 1;
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Device;
    use crate::p;

    fn mesh(axes: &[(&str, usize)]) -> Mesh {
        let n = axes.iter().map(|(_, size)| size).product::<usize>() as i32;
        let devices: Vec<Device> = (0..n).map(|id| Device::new(id, 0, "cpu", "", true)).collect();
        Mesh::new(devices, axes.iter().copied()).unwrap()
    }

    fn tiled(tiles: &[i64], devices: &[i64], replicated: bool) -> HloSharding {
        HloSharding::Tiled { tiles: tiles.to_vec(), devices: devices.to_vec(), replicated }
    }

    #[test]
    fn tiles_match_mesh_axes() {
        let mesh = mesh(&[("a", 4), ("b", 2)]);
        let in_order: Vec<i64> = (0..8).collect();
        let spec = |sharding: &HloSharding, rank| {
            from_hlo_sharding(&mesh, sharding, rank).unwrap().spec().clone()
        };
        assert_eq!(spec(&tiled(&[4, 2], &in_order, false), 2), p!["a", "b"]);
        assert_eq!(spec(&tiled(&[8, 1], &in_order, false), 2), p![["a", "b"]]);
        assert_eq!(spec(&tiled(&[4, 1, 2], &in_order, true), 2), p!["a"]);
        let other = [0, 2, 4, 6, 1, 3, 5, 7];
        assert_eq!(spec(&tiled(&[2, 4], &other, false), 2), p!["b", "a"]);
        assert_eq!(spec(&HloSharding::Replicated, 2), p![]);
    }

    #[test]
    fn part_of_an_axis_matches_a_factored_mesh() {
        let mesh = mesh(&[("a", 8)]);
        let in_order: Vec<i64> = (0..8).collect();
        let sharding = from_hlo_sharding(&mesh, &tiled(&[2, 4], &in_order, true), 1).unwrap();
        assert_eq!(*sharding.spec(), p!["a.0"]);
        assert_eq!(sharding.mesh().to_string(), "Mesh(a.0=2, a.1=2, a.2=2)");
    }
}
