//! [`with_sharding_constraint`] and [`with_memory_kind`]: shardings and memories of values inside a
//! program.

use super::device_put::device_put;
use super::per_argument::{LeafKeys, PerArgument, PerLeaf};
use crate::core::{Array, Loc, MemoryKind, NamedSharding, trace};
use crate::primitives::{constrained, in_memory};
use crate::tree::{Tree, leaves_of, rebuild};

/// Returns the tree with its leaves constrained to these shardings.
///
/// Inside `jit` the compiler keeps the constraint, and derives the shardings of other values from
/// it. A sharding with another [memory kind](NamedSharding::with_memory_kind) also moves the value.
/// The derivative is constrained in the same way. The compiler chooses the sharding of axes that
/// are [`UNCONSTRAINED`](crate::core::PartitionSpec::UNCONSTRAINED), and of the axis that `vmap`
/// adds. Axes need not be divisible by the mesh axes: the compiler pads the shards.
///
/// Outside of a trace the arrays are transferred, as by `device_put`, and axes must be divisible.
/// The compiler chooses unconstrained axes there too.
///
/// Throws `Op` (shape) if a leaf has fewer axes than its spec, or outside of a trace a sharding
/// does not divide a leaf, and `Op` (value) if the number of shardings and leaves differs.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?;
/// let hidden = mesh.sharding(p!["data", "model"])?;
/// let layer = jit(move |x: Array, w: Array| {
///     with_sharding_constraint(&relu(&x.matmul(&w)), &hidden)
/// });
/// // The first axis stays as the compiler has it.
/// let columns = mesh.sharding(p![UNCONSTRAINED, "model"])?;
/// let scale = jit(move |x: Array| with_sharding_constraint(&(&x * 2.0), &columns));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "lax.with_sharding_constraint")]
#[track_caller]
pub fn with_sharding_constraint<T: Tree>(
    tree: &T,
    shardings: impl Into<PerLeaf<NamedSharding>>,
) -> T {
    let loc = Loc::caller();
    let leaves = leaves_of(tree);
    let shardings = PerArgument::All(loc.scope(|| shardings.into()));
    let keys = LeafKeys::of_tree(tree);
    let shardings = shardings.shardings("with_sharding_constraint", "shardings", &keys);
    let shardings = shardings.unwrap_or_else(|error| trace::throw(error));
    loc.scope(|| {
        let constrained = leaves.iter().zip(shardings).map(|(leaf, sharding)| match sharding {
            Some(sharding) => {
                if !leaf.is_traced() {
                    check_concrete(leaf, &sharding, loc);
                }
                constrained(leaf, sharding)
            }
            None => leaf.clone(),
        });
        rebuild(tree, constrained.collect())
    })
}

/// Throws if the sharding does not divide an array that exists.
fn check_concrete(leaf: &Array, sharding: &NamedSharding, loc: Loc) {
    let spec = sharding.spec().constrained();
    if let Err(error) = spec.shard_shape(sharding.mesh(), leaf.shape()) {
        trace::throw(trace::rule_error("with_sharding_constraint", error, loc));
    }
}

/// Returns the tree with its leaves in this memory of their devices.
///
/// Inside `jit` the program copies them there. Derivatives are copied back. Outside of a trace the
/// arrays are transferred, as by [`device_put`](super::device_put), which returns its errors.
///
/// Throws `Plugin` if the devices lack the memory.
///
/// ```
/// use oxidax::prelude::*;
/// // The momentum stays in host memory between the steps.
/// let step = jit(|w: Array, momentum: Array, gradient: Array| {
///     let momentum = with_memory_kind(&momentum, MemoryKind::Device) * 0.9 + gradient;
///     (w - &momentum * 0.1, with_memory_kind(&momentum, MemoryKind::PinnedHost))
/// });
/// let momentum = device_put(&zeros([2]), MemoryKind::PinnedHost)?;
/// let (w, momentum) = step.call(ones([2]), momentum, ones([2]))?;
/// assert_eq!(w.to_vec::<f32>()?, [0.9, 0.9]);
/// assert_eq!(momentum.memory_kind(), MemoryKind::PinnedHost);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn with_memory_kind<T: Tree>(tree: &T, memory: MemoryKind) -> T {
    let loc = Loc::caller();
    let leaves = leaves_of(tree);
    loc.scope(|| {
        let moved = leaves.iter().map(|leaf| match leaf.is_traced() {
            true => in_memory(leaf, memory),
            false => device_put(leaf, memory).unwrap_or_else(|error| trace::throw(error)),
        });
        rebuild(tree, moved.collect())
    })
}
