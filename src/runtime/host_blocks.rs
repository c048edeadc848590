//! The block of a distributed array that the devices of one process hold.

use crate::core::{Aval, Error, Loc, NamedSharding, OpErrorKind, Shape, trace};
use std::ops::Range;

/// The shards of this process, and the smallest block that contains them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HostBlock {
    /// The index ranges of the shard on each local device, in mesh order.
    pub(super) shards: Vec<Vec<Range<usize>>>,
    bounds: Vec<Range<usize>>,
}

impl HostBlock {
    pub(super) fn of(shape: &Shape, sharding: &NamedSharding) -> HostBlock {
        let devices = sharding.devices().iter().enumerate();
        let local = devices.filter(|(_, device)| device.is_local());
        let shards: Vec<Vec<Range<usize>>> =
            local.map(|(ordinal, _)| sharding.part(ordinal, shape)).collect();
        let bounds = (0..shape.rank()).map(|axis| {
            let start = shards.iter().map(|shard| shard[axis].start).min().unwrap_or(0);
            start..shards.iter().map(|shard| shard[axis].end).max().unwrap_or(0)
        });
        HostBlock { bounds: bounds.collect(), shards }
    }

    pub(super) fn shape(&self) -> Shape {
        self.bounds.iter().map(Range::len).collect()
    }

    /// Returns true if the shards fill the block, without elements of other processes between them.
    pub(super) fn is_filled(&self) -> bool {
        let mut distinct: Vec<Vec<(usize, usize)>> = self
            .shards
            .iter()
            .map(|shard| shard.iter().map(|range| (range.start, range.end)).collect())
            .collect();
        distinct.sort_unstable();
        distinct.dedup();
        let size = |shard: &Vec<(usize, usize)>| -> usize {
            shard.iter().map(|(start, end)| end - start).product()
        };
        distinct.iter().map(size).sum::<usize>() == self.shape().size()
    }

    /// Cuts the bytes of the block into those of each shard.
    fn cut(&self, bytes: &[u8], element_bytes: usize) -> Vec<Vec<u8>> {
        let block = self.shape();
        let within = |shard: &Vec<Range<usize>>| -> Vec<Range<usize>> {
            let pairs = shard.iter().zip(&self.bounds);
            pairs
                .map(|(range, bounds)| range.start - bounds.start..range.end - bounds.start)
                .collect()
        };
        let shard = |shard| block.read_slice(&within(shard), element_bytes, bytes);
        self.shards.iter().map(shard).collect()
    }
}

/// Returns the bytes of the shard on each local device, from the bytes of this process's block.
///
/// # Errors
/// `Op` (shape) if this process has no devices of the mesh, its shards do not fill a block, or
/// `local` is not of the block's shape.
pub(super) fn local_shard_bytes(
    bytes: &[u8],
    local: &Aval,
    global: &Aval,
    sharding: &NamedSharding,
) -> Result<Vec<Vec<u8>>, Error> {
    let refuse = |message: String| {
        Err(trace::op_error(OpErrorKind::Shape, "local data", message, Loc::UNKNOWN))
    };
    sharding.shard_shape(&global.shape)?;
    let block = HostBlock::of(&global.shape, sharding);
    if block.shards.is_empty() {
        return refuse(format!("no device of this process is in {}", sharding.mesh()));
    }
    if !block.is_filled() {
        return refuse(format!(
            "the devices of this process have parts of {global} as {sharding} that are not one \
             block; order the devices of the mesh by process"
        ));
    }
    if local.shape != block.shape() {
        return refuse(format!(
            "the devices of this process have {} of {global} as {sharding}, its data is {local}",
            block.shape()
        ));
    }
    Ok(block.cut(bytes, local.dtype.host_bytes()))
}

/// Returns the shape of the global array of which this process holds a block of shape `local`.
///
/// # Errors
/// `Op` (shape) if the sharding does not divide the block among this process's devices.
pub(super) fn global_shape(local: &Shape, sharding: &NamedSharding) -> Result<Shape, Error> {
    if sharding.mesh().is_local() {
        sharding.shard_shape(local)?;
        return Ok(local.clone());
    }
    // In an array with one element per shard, the local shards show how many of the shards along
    // each axis belong to this process.
    let mesh = sharding.mesh();
    let counts: Shape =
        (0..local.rank()).map(|axis| mesh.count(sharding.spec().along(axis))).collect();
    let ours = HostBlock::of(&counts, sharding).shards;
    let mut global = Vec::with_capacity(local.rank());
    for axis in 0..local.rank() {
        let mut starts: Vec<usize> = ours.iter().map(|shard| shard[axis].start).collect();
        starts.sort_unstable();
        starts.dedup();
        let here = starts.len().max(1);
        let size = local[axis]
            .is_multiple_of(here)
            .then(|| (local[axis] / here).checked_mul(counts[axis]))
            .flatten();
        let Some(size) = size else {
            let message = format!(
                "axis {axis} of {local}, the block of this process, is not divisible by {here}, \
                 the number of its parts as {sharding}"
            );
            return Err(trace::op_error(OpErrorKind::Shape, "local data", message, Loc::UNKNOWN));
        };
        global.push(size);
    }
    Ok(global.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{DType, Device, Mesh};
    use crate::p;

    /// Devices of two processes, as process `this` sees them. `owner` is the process of each.
    fn mesh(axes: &[(&str, usize)], owner: impl Fn(usize) -> usize, this: usize) -> Mesh {
        let count: usize = axes.iter().map(|(_, size)| size).product();
        let device = |id: usize| {
            let process = owner(id);
            Device::new(id as i32, process as i32, "tpu", "", process == this)
        };
        Mesh::new((0..count).map(device).collect::<Vec<_>>(), axes.iter().copied()).unwrap()
    }

    fn aval(dims: &[usize]) -> Aval {
        Aval::new(DType::U8, dims.to_vec())
    }

    /// The elements of an array that counts from 0, within a block.
    fn counting(dims: [usize; 2], rows: Range<usize>, columns: Range<usize>) -> Vec<u8> {
        rows.flat_map(|row| columns.clone().map(move |column| (row * dims[1] + column) as u8))
            .collect()
    }

    #[test]
    fn each_process_cuts_its_own_rows() {
        for this in [0, 1] {
            let mesh = mesh(&[("data", 4)], |id| id / 2, this);
            let rows = mesh.sharding(p!["data"]).unwrap();
            let block = counting([8, 3], 4 * this..4 * this + 4, 0..3);
            let shards = local_shard_bytes(&block, &aval(&[4, 3]), &aval(&[8, 3]), &rows).unwrap();
            let first = 4 * this;
            assert_eq!(
                shards,
                [
                    counting([8, 3], first..first + 2, 0..3),
                    counting([8, 3], first + 2..first + 4, 0..3)
                ]
            );
            assert_eq!(global_shape(&[4, 3].into(), &rows).unwrap(), Shape::from([8, 3]));
        }
    }

    #[test]
    fn blocks_of_two_axes_are_cut_into_tiles() {
        // Process 1 has the right half of each row of devices.
        let mesh = mesh(&[("data", 2), ("model", 4)], |id| id % 4 / 2, 1);
        let both = mesh.sharding(p!["data", "model"]).unwrap();
        let block = counting([4, 8], 0..4, 4..8);
        let shards = local_shard_bytes(&block, &aval(&[4, 4]), &aval(&[4, 8]), &both).unwrap();
        let tile = |row: usize, column: usize| {
            counting([4, 8], 2 * row..2 * row + 2, 2 * column..2 * column + 2)
        };
        assert_eq!(shards, [tile(0, 2), tile(0, 3), tile(1, 2), tile(1, 3)]);
        assert_eq!(global_shape(&[4, 4].into(), &both).unwrap(), Shape::from([4, 8]));
        // Rows are on both processes, so each passes all of them.
        let rows = mesh.sharding(p!["data"]).unwrap();
        let whole = counting([4, 8], 0..4, 0..8);
        let shards = local_shard_bytes(&whole, &aval(&[4, 8]), &aval(&[4, 8]), &rows).unwrap();
        let half = |row: usize| counting([4, 8], 2 * row..2 * row + 2, 0..8);
        assert_eq!(shards, [half(0), half(0), half(1), half(1)]);
        assert_eq!(global_shape(&[4, 8].into(), &rows).unwrap(), Shape::from([4, 8]));
        // Replicated on every device.
        let shards = local_shard_bytes(&whole, &aval(&[4, 8]), &aval(&[4, 8]), &mesh.replicated());
        assert_eq!(shards.unwrap(), vec![whole; 4]);
    }

    #[test]
    fn wrong_blocks_are_refused() {
        let refused = |mesh: &Mesh, local: &[usize]| {
            let rows = mesh.sharding(p!["data"]).unwrap();
            let bytes = vec![0; local.iter().product()];
            let refused = local_shard_bytes(&bytes, &aval(local), &aval(&[8, 3]), &rows);
            refused.unwrap_err().to_string()
        };
        let halves = mesh(&[("data", 4)], |id| id / 2, 0);
        let said = refused(&halves, &[8, 3]);
        assert!(
            said.contains("have [4,3] of u8[8,3]") && said.contains("its data is u8[8,3]"),
            "{said}"
        );
        assert!(refused(&halves, &[2, 3]).contains("its data is u8[2,3]"));
        let interleaved = mesh(&[("data", 4)], |id| id % 2, 0);
        // The block from the first to the last row contains rows of the other process.
        assert!(refused(&interleaved, &[6, 3]).contains("that are not one block"));
        let elsewhere = mesh(&[("data", 4)], |_| 1, 0);
        assert!(refused(&elsewhere, &[8, 3]).contains("no device of this process"));
        let odd = halves.sharding(p!["data"]).unwrap();
        let said = global_shape(&[3, 3].into(), &odd).unwrap_err().to_string();
        assert!(said.contains("axis 0 of [3,3]") && said.contains("not divisible by 2"), "{said}");
    }

    #[test]
    fn local_meshes_are_blocks() {
        let local =
            |owner: fn(usize) -> usize| mesh(&[("data", 2), ("model", 4)], owner, 1).local_mesh();
        let right = local(|id| id % 4 / 2).unwrap();
        assert_eq!(right.to_string(), "Mesh(data=2, model=2)");
        let ids: Vec<i32> = right.devices().iter().map(|device| device.id().0).collect();
        assert_eq!(ids, [2, 3, 6, 7]);
        assert_eq!(local(|id| id / 4).unwrap().to_string(), "Mesh(data=1, model=4)");
        assert_eq!(local(|_| 1).unwrap().to_string(), "Mesh(data=2, model=4)");
        let said = local(|id| usize::from(id == 0 || id == 5)).unwrap_err().to_string();
        assert!(said.contains("the 2 devices of this process are not a block"), "{said}");
        assert!(local(|_| 0).unwrap_err().to_string().contains("the 0 devices"));
    }
}
