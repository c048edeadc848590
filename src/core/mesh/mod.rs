//! Types for programs of several devices: meshes, shardings, and the mesh axes that values vary
//! over.
//!
//! They are part of `core` because avals, primitives and lowering rules name them; see
//! `docs/decisions/0026-types-of-several-devices-stay-in-core.md`.

pub(crate) mod communication;
pub(crate) mod device;
pub(crate) mod mesh;
pub(crate) mod partition;
mod placement;
pub(crate) mod sharding_rule;
mod torus;
pub(crate) mod varying;

pub use communication::{Collective, Communication};
pub use device::Device;
pub use mesh::Mesh;
pub(crate) use partition::leaf_error;
pub use partition::{AxisSpec, NamedSharding, PartitionSpec};
pub use placement::{DeviceId, Placement};
pub use sharding_rule::ShardingRule;
pub use varying::Varying;
