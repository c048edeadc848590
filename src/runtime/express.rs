//! Shardings that the compiler chose, in the names of a mesh.

use crate::core::{AxisSpec, Mesh, NamedSharding, PartitionSpec};
use oxidax_pjrt::Sharding;

/// How a compiled program gives a result with `rank` axes, in the names of its mesh; where the compiler cut along a part of
/// an axis, in those of the mesh with that axis made of several: `data.0`, `data.1`. `None` if no names say it.
pub(super) fn named(mesh: &Mesh, sharding: &Sharding, rank: usize) -> Option<NamedSharding> {
    match sharding {
        Sharding::Replicated => Some(mesh.replicated()),
        Sharding::Tiled { tiles, devices, .. } => {
            let count = mesh.devices().len();
            if tiles.len() < rank || devices.len() != count {
                return None;
            }
            let wanted = coordinates(tiles, devices, rank);
            found(mesh, &tiles[..rank], &wanted)
                .or_else(|| found(&refined(mesh)?, &tiles[..rank], &wanted))
        }
        _ => None,
    }
}

/// For each axis of the array, which tile each place of the mesh has.
fn coordinates(tiles: &[i64], devices: &[i64], rank: usize) -> Vec<Vec<usize>> {
    let mut along = vec![vec![0; devices.len()]; rank];
    for (position, &device) in devices.iter().enumerate() {
        let mut rest = position;
        for (at, &size) in tiles.iter().enumerate().rev() {
            let size = size as usize;
            if at < rank {
                along[at][device as usize] = rest % size;
            }
            rest /= size;
        }
    }
    along
}

fn found(mesh: &Mesh, tiles: &[i64], wanted: &[Vec<usize>]) -> Option<NamedSharding> {
    let mut spec = Vec::new();
    for (&parts, wanted) in tiles.iter().zip(wanted) {
        let mut chosen = Vec::new();
        if parts > 1 && !search(mesh, parts as usize, wanted, &mut chosen) {
            return None;
        }
        spec.push(AxisSpec(chosen));
    }
    NamedSharding::checked(mesh, PartitionSpec(spec)).ok()
}

/// Finds axes of the mesh along which places stand as wanted.
fn search(mesh: &Mesh, parts: usize, wanted: &[usize], chosen: &mut Vec<String>) -> bool {
    if parts == 1 {
        return (0..wanted.len()).all(|place| mesh.position(place, chosen) == wanted[place]);
    }
    for (name, size) in mesh.axes() {
        if *size > 1 && parts.is_multiple_of(*size) && !chosen.contains(name) {
            chosen.push(name.clone());
            if search(mesh, parts / size, wanted, chosen) {
                return true;
            }
            chosen.pop();
        }
    }
    false
}

/// The mesh with every axis made of axes of prime size.
fn refined(mesh: &Mesh) -> Option<Mesh> {
    let mut axes = Vec::new();
    for (name, size) in mesh.axes() {
        let factors = prime_factors(*size);
        match factors.len() {
            0 | 1 => axes.push((name.clone(), *size)),
            _ => axes
                .extend(factors.into_iter().enumerate().map(|(at, n)| (format!("{name}.{at}"), n))),
        }
    }
    Mesh::new(mesh.devices(), axes).ok()
}

fn prime_factors(mut n: usize) -> Vec<usize> {
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

    fn tiled(tiles: &[i64], devices: &[i64], replicated: bool) -> Sharding {
        Sharding::Tiled { tiles: tiles.to_vec(), devices: devices.to_vec(), replicated }
    }

    #[test]
    fn tiles_are_found_among_the_axes() {
        let mesh = mesh(&[("a", 4), ("b", 2)]);
        let in_order: Vec<i64> = (0..8).collect();
        let spec = |sharding: &Sharding, rank| named(&mesh, sharding, rank).unwrap().spec().clone();
        assert_eq!(spec(&tiled(&[4, 2], &in_order, false), 2), p!["a", "b"]);
        assert_eq!(spec(&tiled(&[8, 1], &in_order, false), 2), p![["a", "b"]]);
        assert_eq!(spec(&tiled(&[4, 1, 2], &in_order, true), 2), p!["a"]);
        let other = [0, 2, 4, 6, 1, 3, 5, 7];
        assert_eq!(spec(&tiled(&[2, 4], &other, false), 2), p!["b", "a"]);
        assert_eq!(spec(&Sharding::Replicated, 2), p![]);
    }

    #[test]
    fn a_part_of_an_axis_is_an_axis_of_a_finer_mesh() {
        let mesh = mesh(&[("a", 8)]);
        let in_order: Vec<i64> = (0..8).collect();
        let found = named(&mesh, &tiled(&[2, 4], &in_order, true), 1).unwrap();
        assert_eq!(*found.spec(), p!["a.0"]);
        assert_eq!(found.mesh().to_string(), "Mesh(a.0=2, a.1=2, a.2=2)");
    }
}
