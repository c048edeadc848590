//! How values inside of a program are to lie.

use super::per_argument::{Placement, Placements};
use crate::core::{Loc, bind1, trace};
use crate::primitives::ShardingConstraint;
use crate::tree::{Tree, leaves_of, rebuild};

/// The same tree, its leaves to lie so from here on: on a mesh, each cut as its sharding says.
///
/// Inside of `jit` it is a constraint that the compiler keeps, and from which it finds out how values around it lie. The
/// derivative is constrained alike. With no trace around it moves arrays, as `device_put` does.
///
/// Throws `Op` (shape) if a leaf cannot be cut so, and `Op` (value) if there are not as many shardings as leaves.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?;
/// let hidden = mesh.sharding(p!["data", "model"])?;
/// let layer = jit(move |x: Array, w: Array| with_sharding_constraint(&relu(&x.matmul(&w)), &hidden));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "lax.with_sharding_constraint")]
#[track_caller]
pub fn with_sharding_constraint<T: Tree>(tree: &T, shardings: impl Into<Placement>) -> T {
    let loc = Loc::caller();
    let leaves = leaves_of(tree);
    let placements = Placements::All(shardings.into());
    let wished = placements.leaves("with_sharding_constraint", "shardings", &[leaves.len()]);
    let wished = wished.unwrap_or_else(|error| trace::throw(error));
    loc.scope(|| {
        Loc::caller().scope(|| {
            let constrained = leaves.iter().zip(wished).map(|(leaf, sharding)| match sharding {
                Some(sharding) => bind1(ShardingConstraint { sharding }, [leaf]),
                None => leaf.clone(),
            });
            rebuild(tree, constrained.collect())
        })
    })
}
