//! Assignment of mesh axes to the axes of a TPU slice, so that devices along a mesh axis are
//! neighbours.
//!
//! The order is that of `jax.experimental.mesh_utils` (jax 0.10.2).

use super::Device;

/// The chips of a slice, as a box without holes.
struct Slice {
    /// Sizes of the axes x, y, z and, where a chip has several devices, that of its devices.
    dims: Vec<usize>,
    /// The index into the list of devices at each point, the last axis fastest.
    points: Vec<usize>,
}

/// Returns the order in which devices fill a mesh with axes of these sizes; `None` if they have no
/// coordinates or do not fill a box, so that their order is kept.
///
/// Small slices whose links form a ring through all devices follow that ring. Otherwise each mesh
/// axis takes whole axes of the slice if possible. The last mesh axis chooses first, since it
/// usually has the most communication.
pub(super) fn order(devices: &[Device], sizes: &[usize]) -> Option<Vec<usize>> {
    let slice = Slice::of(devices)?;
    if let Some(ring) = slice.ring(devices[0].kind(), sizes) {
        return Some(ring.into_iter().map(|point| slice.points[point]).collect());
    }
    let assignment = whole_axes(&slice.dims, sizes).or_else(|| split_axes(&slice.dims, sizes))?;
    Some(fill(&slice.dims, sizes, &assignment).map(|point| slice.points[point]).collect())
}

impl Slice {
    fn of(devices: &[Device]) -> Option<Slice> {
        let rank = devices.first()?.coordinates().len();
        if rank == 0 || devices.iter().any(|device| device.coordinates().len() != rank) {
            return None;
        }
        let locations: Vec<Vec<i64>> = devices
            .iter()
            .map(|device| [device.coordinates(), &[device.core_on_chip()]].concat())
            .collect();
        let bounds: Vec<(i64, i64)> = (0..=rank)
            .map(|axis| {
                let along = locations.iter().map(|location| location[axis]);
                (along.clone().min().unwrap_or(0), along.max().unwrap_or(0))
            })
            .collect();
        let size = |&(low, high): &(i64, i64)| usize::try_from(high.checked_sub(low)?).ok();
        let mut dims = Vec::new();
        for bound in &bounds {
            dims.push(size(bound)?.checked_add(1)?);
        }
        let count = dims.iter().try_fold(1_usize, |count, &dim| count.checked_mul(dim))?;
        if count != devices.len() {
            return None;
        }
        let mut points = vec![usize::MAX; count];
        for (index, location) in locations.iter().enumerate() {
            let offset = location.iter().zip(&bounds).map(|(at, (low, _))| (at - low) as usize);
            let point = offset.zip(&dims).fold(0, |point, (at, dim)| point * dim + at);
            points[point] = index;
        }
        // The last axis is that of the devices of a chip.
        if dims.last() == Some(&1) {
            dims.pop();
        }
        points.iter().all(|&index| index != usize::MAX).then_some(Slice { dims, points })
    }

    /// Returns the points of a small slice in the order of a ring, if it has one that serves a mesh
    /// of these sizes.
    fn ring(&self, kind: &str, sizes: &[usize]) -> Option<Vec<usize>> {
        let [x, y, z] = *self.dims.get(..3)? else { return None };
        let per_chip: usize = self.dims[3..].iter().product();
        let one_axis = sizes.contains(&self.points.len());
        let is_served = match (kind, x.max(y), x.min(y), z) {
            ("TPU v2" | "TPU v3" | "TPU v4 lite", 2, 2, 1) => true,
            ("TPU v5 lite" | "TPU v5e" | "TPU v6 lite", 2 | 4, 2, 1) => true,
            ("TPU v5 lite" | "TPU v5e" | "TPU v6 lite", 4, 4, 1) => one_axis,
            ("TPU v5p", 2, 2, 2) => true,
            // One ring in each layer.
            ("TPU7x" | "TPU7", 2, 2, 1..=4) => per_chip == 2,
            _ => false,
        };
        if !is_served {
            return None;
        }
        let mut points = Vec::with_capacity(self.points.len());
        let mut push = |x: usize, y: usize, layer: usize| {
            let chip = (x * self.dims[1] + y) * z + layer;
            points.extend((0..per_chip).map(|device| chip * per_chip + device));
        };
        let plane = closed_path(x, y);
        if kind == "TPU v5p" {
            // Up in the first layer and back in the second.
            plane.iter().for_each(|&(x, y)| push(x, y, 0));
            plane.iter().rev().for_each(|&(x, y)| push(x, y, 1));
        } else {
            (0..z).for_each(|layer| plane.iter().for_each(|&(x, y)| push(x, y, layer)));
        }
        Some(points)
    }
}

/// Returns a path through all points of a grid of even size whose ends are neighbours: along the
/// first row, through the others in turns, and back along the first column.
fn closed_path(x: usize, y: usize) -> Vec<(usize, usize)> {
    if y > x && x == 2 {
        // A row has two points, so the path goes along columns.
        return closed_path(y, x).into_iter().map(|(y, x)| (x, y)).collect();
    }
    let mut path: Vec<(usize, usize)> = (0..x).map(|x| (x, 0)).collect();
    for row in 1..y {
        let is_last = row + 1 == y;
        match row % 2 {
            1 if is_last => path.extend((0..x).rev().map(|x| (x, row))),
            1 => path.extend((1..x).rev().map(|x| (x, row))),
            _ => path.extend((1..x).map(|x| (x, row))),
        }
    }
    path.extend((1..y.saturating_sub(1)).rev().map(|row| (0, row)));
    path
}

/// The size that each mesh axis takes of each axis of the slice: `[mesh axis][slice axis]`.
type Assignment = Vec<Vec<usize>>;

/// Assigns whole axes of the slice: as many as possible to the last mesh axis, then to the others.
fn whole_axes(dims: &[usize], sizes: &[usize]) -> Option<Assignment> {
    let mut assignment = vec![vec![1; dims.len()]; sizes.len()];
    let mut free: Vec<bool> = vec![true; dims.len()];
    for (axis, &size) in sizes.iter().enumerate().rev() {
        let product = |chosen: &[usize]| -> usize {
            chosen.iter().map(|&dim| if free[dim] { dims[dim] } else { 0 }).product()
        };
        let chosen = (1..=dims.len())
            .rev()
            .flat_map(|count| combinations(dims.len(), count))
            .find(|chosen| product(chosen) == size);
        match chosen {
            Some(chosen) => {
                for dim in chosen {
                    (assignment[axis][dim], free[dim]) = (dims[dim], false);
                }
            }
            None if size == 1 => {}
            None => return None,
        }
    }
    Some(assignment)
}

/// Returns the sets of `count` of the numbers below `n`, in lexicographic order.
fn combinations(n: usize, count: usize) -> Vec<Vec<usize>> {
    let sets = (0_u32..1 << n).filter(|set| set.count_ones() as usize == count);
    let mut lists: Vec<Vec<usize>> =
        sets.map(|set| (0..n).filter(|at| set & (1 << at) != 0).collect()).collect();
    lists.sort();
    lists
}

/// Assigns parts of the axes of the slice. Each mesh axis, the last one first, prefers whole axes,
/// then axes that are used already.
fn split_axes(dims: &[usize], sizes: &[usize]) -> Option<Assignment> {
    let mut assignment = vec![vec![1; dims.len()]; sizes.len()];
    let mut taken = vec![1; dims.len()];
    for (axis, &size) in sizes.iter().enumerate().rev() {
        let best = factorizations(dims, &taken, size).into_iter().max_by_key(|parts| {
            let is_whole = |dim: &usize| parts[*dim] == dims[*dim];
            let whole: usize = (0..dims.len()).filter(is_whole).map(|dim| parts[dim]).product();
            let count = (0..dims.len()).filter(is_whole).filter(|&dim| parts[dim] > 1).count();
            let used = (0..dims.len()).filter(|&dim| taken[dim] > 1);
            let shared: usize = used.map(|dim| parts[dim]).product();
            (whole, count, shared, parts.clone())
        })?;
        for (dim, &part) in best.iter().enumerate() {
            taken[dim] *= part;
        }
        assignment[axis] = best;
    }
    Some(assignment)
}

/// Returns the ways to write a size as a product of parts of the free part of each axis.
fn factorizations(dims: &[usize], taken: &[usize], size: usize) -> Vec<Vec<usize>> {
    let Some((&dim, others)) = dims.split_first() else {
        return if size == 1 { vec![Vec::new()] } else { Vec::new() };
    };
    let free = dim / taken[0];
    let parts = (1..=free).filter(|part| free.is_multiple_of(*part) && size.is_multiple_of(*part));
    parts
        .flat_map(|part| {
            let rest = factorizations(others, &taken[1..], size / part);
            rest.into_iter().map(move |rest| [vec![part], rest].concat())
        })
        .collect()
}

/// Returns the point of the slice for each element of the mesh, in row-major order. Of an axis that
/// several mesh axes share, the last mesh axis takes adjacent points.
fn fill<'a>(
    dims: &'a [usize],
    sizes: &'a [usize],
    assignment: &'a Assignment,
) -> impl Iterator<Item = usize> + 'a {
    (0..sizes.iter().product::<usize>()).map(move |mut element| {
        let mut location = vec![0; dims.len()];
        let mut stride = vec![1; dims.len()];
        for parts in assignment.iter().rev() {
            for (dim, &part) in parts.iter().enumerate().rev() {
                location[dim] += element % part * stride[dim];
                stride[dim] *= part;
                element /= part;
            }
        }
        location.iter().zip(dims).fold(0, |point, (at, dim)| point * dim + at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn closed_paths_visit_every_point_once() {
        for (x, y) in [(2, 2), (4, 2), (2, 4), (4, 4), (3, 4), (2, 8), (8, 2)] {
            let path = closed_path(x, y);
            assert_eq!(path.iter().collect::<HashSet<_>>().len(), x * y, "{x}x{y}: {path:?}");
            for (at, next) in path.iter().zip(path.iter().cycle().skip(1)) {
                let distance = at.0.abs_diff(next.0) + at.1.abs_diff(next.1);
                assert_eq!(distance, 1, "{x}x{y}: {path:?}");
            }
        }
    }

    #[test]
    fn sizes_are_assigned_to_whole_axes_first() {
        assert_eq!(whole_axes(&[4, 4, 16], &[16, 16]), Some(vec![vec![1, 1, 16], vec![4, 4, 1]]));
        assert_eq!(whole_axes(&[4, 4], &[2, 8]), None);
        assert_eq!(split_axes(&[4, 4], &[2, 8]), Some(vec![vec![1, 2], vec![4, 2]]));
        assert_eq!(split_axes(&[4, 4], &[3, 5]), None);
    }
}
