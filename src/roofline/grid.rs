//! The chips that a mesh uses in the grid of a TPU slice, and the links between them.

use super::network::{Path, Route};
use super::specs::{Rings, Wires};
use crate::core::Mesh;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The locations of a mesh's devices in the grid of a TPU slice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Grid {
    /// The size of each mesh axis.
    sizes: Vec<usize>,
    /// The size of each axis of the grid of chips.
    dims: Vec<usize>,
    /// The axes of the grid whose ends are connected.
    closed: Vec<bool>,
    /// The chip of each device of the mesh, in its order.
    chips: Vec<Vec<usize>>,
    /// The devices of a chip that the mesh uses.
    per_chip: usize,
    /// The route of each mesh axis.
    pub(super) routes: Vec<Route>,
}

/// The part of the grid that a group of devices covers.
struct Part {
    /// The size along each axis of the grid, if the chips fill a box.
    box_: Option<Vec<usize>>,
    /// The largest number of hops between two of its chips.
    diameter: usize,
    /// The fraction of each link that the group has; devices of a chip in other groups use the
    /// rest.
    share: f64,
}

impl Grid {
    /// Returns the grid of a mesh whose devices have coordinates.
    pub(super) fn of(wires: Wires, mesh: &Mesh) -> Option<Grid> {
        let Wires::Torus { rings, .. } = wires else { return None };
        let devices = mesh.devices();
        let rank = devices.first()?.coordinates().len();
        if rank == 0 || devices.iter().any(|device| device.coordinates().len() != rank) {
            return None;
        }
        let along = |axis: usize| devices.iter().map(move |device| device.coordinates()[axis]);
        let least: Vec<i64> = (0..rank).filter_map(|axis| along(axis).min()).collect();
        let chip = |device: &crate::core::Device| -> Option<Vec<usize>> {
            let from_least = device.coordinates().iter().zip(&least);
            from_least.map(|(at, least)| usize::try_from(at.checked_sub(*least)?).ok()).collect()
        };
        let chips: Vec<Vec<usize>> = devices.iter().map(chip).collect::<Option<_>>()?;
        let largest = |axis: usize| chips.iter().map(|chip| chip[axis]).max().unwrap_or(0);
        let dims: Vec<usize> = (0..rank).map(|axis| largest(axis).saturating_add(1)).collect();
        // Optical switches close all axes of a slice of whole cubes, and none of a smaller one.
        let closed = match rings {
            Rings::Exactly(_) => dims.iter().map(|&size| wires.is_ring(size)).collect(),
            Rings::MultiplesOf(_) => vec![dims.iter().all(|&size| wires.is_ring(size)); rank],
        };
        let cores: BTreeSet<i64> = devices.iter().map(|device| device.core_on_chip()).collect();
        let sizes: Vec<usize> = mesh.axes().iter().map(|(_, size)| *size).collect();
        let mut grid =
            Grid { sizes, dims, closed, chips, per_chip: cores.len(), routes: Vec::new() };
        grid.routes = (0..grid.sizes.len())
            .map(|axis| {
                let group = &grid.groups(&[axis])[0];
                let between_slices =
                    group.iter().any(|&i| devices[i].slice_index() != devices[0].slice_index());
                match grid.part(group).box_ {
                    _ if between_slices => Route::DataCentre,
                    Some(box_) => {
                        let (rings, lines) = grid.rings_and_lines(&box_);
                        Route::Grid { rings, lines }
                    }
                    None => Route::Line,
                }
            })
            .collect();
        Some(grid)
    }

    /// Returns the groups of devices that differ in these mesh axes only. Within a group, the last
    /// of the axes varies fastest.
    fn groups(&self, axes: &[usize]) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<Vec<usize>, BTreeMap<Vec<usize>, usize>> = BTreeMap::new();
        for device in 0..self.chips.len() {
            let mut rest = device;
            let mut place = vec![0; self.sizes.len()];
            for (at, size) in place.iter_mut().zip(&self.sizes).rev() {
                (*at, rest) = (rest % size, rest / size);
            }
            let within = axes.iter().map(|&axis| std::mem::take(&mut place[axis])).collect();
            groups.entry(place).or_default().insert(within, device);
        }
        groups.into_values().map(|group| group.into_values().collect()).collect()
    }

    fn part(&self, group: &[usize]) -> Part {
        let chips: BTreeSet<&Vec<usize>> = group.iter().map(|&i| &self.chips[i]).collect();
        let (mut sizes, mut diameter, mut is_dense) = (Vec::new(), 0, true);
        for axis in 0..self.dims.len() {
            let at: BTreeSet<usize> = chips.iter().map(|chip| chip[axis]).collect();
            let reach = at.last().unwrap_or(&0) - at.first().unwrap_or(&0);
            is_dense &= reach + 1 == at.len();
            let is_ring = self.closed[axis] && at.len() == self.dims[axis];
            diameter += if is_ring { at.len().div_ceil(2) } else { reach };
            sizes.push(at.len());
        }
        let fills = is_dense && sizes.iter().product::<usize>() == chips.len();
        let per_chip = group.len() as f64 / chips.len().max(1) as f64;
        let share = (per_chip / self.per_chip.max(1) as f64).min(1.0);
        Part { box_: fills.then_some(sizes), diameter, share }
    }

    fn rings_and_lines(&self, box_: &[usize]) -> (usize, usize) {
        let long = (0..box_.len()).filter(|&axis| box_[axis] > 1);
        let (rings, lines): (Vec<_>, Vec<_>) =
            long.partition(|&axis| self.closed[axis] && box_[axis] == self.dims[axis]);
        (rings.len(), lines.len())
    }

    /// Returns the rates of collectives along mesh axes: those of the slowest group.
    ///
    /// A corner of a box receives over two links of each ring and one of each line. An all-to-all
    /// is limited by the links that cross the middle of the box.
    pub(super) fn path(&self, axes: &[usize], link: f64) -> Path {
        let paths = self.groups(axes).into_iter().map(|group| {
            let part = self.part(&group);
            let n = group.len() as f64;
            let (link, others) = (link * part.share, (n - 1.0) / n);
            let hops = part.diameter as f64;
            let line = Path { gather: link / others, exchange: 4.0 * link, hops };
            let Some(box_) = part.box_ else { return line };
            let (rings, lines) = self.rings_and_lines(&box_);
            if rings + lines == 0 {
                // Devices of one chip.
                return line;
            }
            let links = (2 * rings + lines) as f64;
            let gather = link * links / if lines > 0 { others } else { 1.0 };
            let chips: usize = box_.iter().product();
            let crossing = (0..box_.len()).filter(|&axis| box_[axis] > 1).map(|axis| {
                let is_ring = self.closed[axis] && box_[axis] == self.dims[axis];
                chips / box_[axis] * if is_ring { 2 } else { 1 }
            });
            let exchange = 4.0 * link * crossing.min().unwrap_or(1) as f64;
            Path { gather, exchange, hops }
        });
        let slowest = paths.min_by(|a, b| a.gather.total_cmp(&b.gather));
        slowest.unwrap_or(Path { gather: link, exchange: link, hops: 0.0 })
    }

    /// Returns the load of the busiest link, in messages, and the largest number of hops, of a
    /// permutation along mesh axes in all groups at once.
    ///
    /// A message takes a shortest route. Where it moves along several axes of the grid, it is
    /// divided over the orders of these axes.
    pub(super) fn permutation(&self, axes: &[usize], pairs: &[(usize, usize)]) -> (f64, usize) {
        let mut load: BTreeMap<(Vec<usize>, usize, bool), f64> = BTreeMap::new();
        let mut furthest = 0;
        for group in self.groups(axes) {
            for &(from, to) in pairs {
                let (Some(&from), Some(&to)) = (group.get(from), group.get(to)) else { continue };
                let moves = self.moves(&self.chips[from], &self.chips[to]);
                furthest = furthest.max(moves.iter().map(|&(_, _, hops)| hops).sum());
                let orders = orders(&moves);
                for order in &orders {
                    let mut at = self.chips[from].clone();
                    for &(axis, upwards, hops) in order {
                        for _ in 0..hops {
                            let link = (at.clone(), axis, upwards);
                            *load.entry(link).or_default() += 1.0 / orders.len() as f64;
                            let size = self.dims[axis];
                            at[axis] = (at[axis] + if upwards { 1 } else { size - 1 }) % size;
                        }
                    }
                }
            }
        }
        (load.into_values().fold(0.0, f64::max), furthest)
    }

    /// Returns the moves of a shortest route: axis of the grid, direction and hops.
    fn moves(&self, from: &[usize], to: &[usize]) -> Vec<(usize, bool, usize)> {
        let mut moves = Vec::new();
        for axis in (0..self.dims.len()).filter(|&axis| from[axis] != to[axis]) {
            let size = self.dims[axis];
            let up = (to[axis] + size - from[axis]) % size;
            let upwards = if self.closed[axis] { 2 * up <= size } else { to[axis] > from[axis] };
            moves.push((axis, upwards, if upwards { up } else { size - up }));
        }
        moves
    }
}

/// Returns all orders of these moves.
fn orders(moves: &[(usize, bool, usize)]) -> Vec<Vec<(usize, bool, usize)>> {
    if moves.len() < 2 {
        return vec![moves.to_vec()];
    }
    (0..moves.len())
        .flat_map(|first| {
            let mut rest = moves.to_vec();
            let first = rest.remove(first);
            orders(&rest).into_iter().map(move |rest| [vec![first], rest].concat())
        })
        .collect()
}
