//! Programs for several devices: how arrays lie on a mesh, and what each device computes of its own.
//!
//! [`Mesh`](crate::core::Mesh), [`PartitionSpec`](crate::core::PartitionSpec) and
//! [`NamedSharding`](crate::core::NamedSharding) say how arrays lie. `jit` takes them with `in_shardings` and
//! `out_shardings`, [`with_sharding_constraint`] inside; [`PartitionRules`] gives them by leaf path. The compiler then spreads
//! the program. [`shard_map()`] is the other way: the function is what one device computes, and collectives are written out.
//! `docs/parallel.md` is the guide.

mod constraint;
mod placements;
mod rules;
mod shard_map;
mod tuples;

pub use constraint::with_sharding_constraint;
pub use placements::{Placement, Placements};
pub use rules::{PartitionRules, TreeSharding};
pub(crate) use shard_map::Region;
pub use shard_map::{ShardMapped, Spec, Specs, shard_map};
