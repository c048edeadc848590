//! Conversions between arrays of one process and arrays of all processes.

use super::per_argument::{LeafKeys, PerArgument, PerLeaf};
use crate::core::{Array, Error, Loc, NamedSharding};
use crate::runtime::{host_local, put_host_local};
use crate::tree::{Tree, TreeDef, leaves_of, rebuild, rooted};

/// Creates global arrays, of which each process has passed its block. `shardings` are over a mesh
/// of the devices of all processes: one for all leaves, or one for each.
///
/// An axis that is split among processes grows by the number of their parts: with four processes
/// and the sharding `p!["data"]`, leaves of shape `[8, 3]` become one array of shape `[32, 3]`. The
/// shape of [`make_array_from_process_local_data`](super::make_array_from_process_local_data) is
/// thereby derived. An axis that is not split among processes keeps its size, and all processes
/// must pass equal elements along it. With one process, the leaves are placed on the mesh.
///
/// The leaves are copied through the host.
///
/// # Errors
/// [`Error::Op`] (shape), naming the leaf, if a sharding does not divide it, or the devices of this
/// process hold no block of the array, because the mesh mixes devices of several processes; (value)
/// if the number of shardings is not the number of leaves, or a leaf is traced; `Runtime`.
///
/// ```no_run
/// use oxidax::prelude::*;
/// use oxidax::parallel::host_local_array_to_global_array;
/// let rows = Mesh::new(devices()?, [("data", 8)])?.sharding(p!["data"])?;
/// // With two processes, each of which has read 16 rows, `batch` has 32.
/// let batch = host_local_array_to_global_array(&ones([16, 4]), rows)?;
/// # drop(batch);
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "jax.experimental.multihost_utils.host_local_array_to_global_array")]
#[track_caller]
pub fn host_local_array_to_global_array<T: Tree>(
    tree: &T,
    shardings: impl Into<PerLeaf<NamedSharding>>,
) -> Result<T, Error> {
    let (loc, function) = (Loc::caller(), "host_local_array_to_global_array");
    let leaves = leaves_of(tree);
    let shardings = PerArgument::All(shardings.into()).shardings(
        function,
        "the global arrays",
        &LeafKeys::of_tree(tree),
    )?;
    let structure = TreeDef::of(tree);
    let mut global: Vec<Array> = Vec::with_capacity(leaves.len());
    for ((leaf, sharding), path) in leaves.iter().zip(shardings).zip(structure.paths()) {
        let placed = match sharding {
            Some(sharding) => put_host_local(leaf, &sharding),
            None => Ok(leaf.clone()),
        };
        global.push(placed.map_err(|error| at_leaf(function, &rooted(path), error, loc))?);
    }
    Ok(rebuild(tree, global))
}

/// Returns this process's block of each global array, on this process's devices and with the axes
/// of their mesh: the inverse of [`host_local_array_to_global_array`].
///
/// A leaf that has no shards in other processes is returned unchanged. The others are copied
/// through the host.
///
/// # Errors
/// [`Error::Op`] (value), naming the leaf, if the devices of this process are not a block of its
/// mesh; `Runtime`.
///
/// ```no_run
/// use oxidax::prelude::*;
/// use oxidax::parallel::global_array_to_host_local_array;
/// let rows = Mesh::new(devices()?, [("data", 8)])?.sharding(p!["data"])?;
/// let batch = device_put(&ones([16, 4]), &rows)?;
/// let mine = global_array_to_host_local_array(&batch)?;
/// # drop(mine);
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "jax.experimental.multihost_utils.global_array_to_host_local_array")]
#[track_caller]
pub fn global_array_to_host_local_array<T: Tree>(tree: &T) -> Result<T, Error> {
    let (loc, function) = (Loc::caller(), "global_array_to_host_local_array");
    let structure = TreeDef::of(tree);
    let mut local: Vec<Array> = Vec::new();
    for (leaf, path) in leaves_of(tree).iter().zip(structure.paths()) {
        let block = host_local(leaf);
        local.push(block.map_err(|error| at_leaf(function, &rooted(path), error, loc))?);
    }
    Ok(rebuild(tree, local))
}

/// Adds the function, the leaf and the user's line to an error.
fn at_leaf(function: &str, path: &str, mut error: Error, loc: Loc) -> Error {
    if let Error::Op(error) = &mut error {
        error.primitive = function.to_owned();
        error.message = format!("{path}: {}", error.message);
        error.loc = loc;
    }
    error
}
