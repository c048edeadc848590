//! Types for programs of several devices: meshes, shardings, and the mesh axes that values vary
//! over.
//!
//! They are part of `core` because avals, primitives and lowering rules name them; see
//! `docs/decisions/0026-types-of-several-devices-stay-in-core.md`.

pub(crate) mod axis_spec;
mod axis_type;
pub(crate) mod communication;
pub(crate) mod current;
pub(crate) mod device;
pub(crate) mod explicit;
pub(crate) mod memory_kind;
pub(crate) mod mesh;
pub(crate) mod partition;
mod placement;
mod platform_id;
pub(crate) mod sharding_rule;
mod torus;
pub(crate) mod varying;

pub use axis_spec::AxisSpec;
pub use axis_type::AxisType;
pub use communication::{Collective, Communication};
pub(crate) use current::{MeshId, sharding_over_current};
pub use current::{get_mesh, set_mesh, with_mesh};
pub use device::Device;
pub use memory_kind::MemoryKind;
pub use mesh::Mesh;
pub(crate) use mesh::with_stand_ins;
pub(crate) use partition::leaf_error;
pub use partition::{NamedSharding, PartitionSpec};
pub(crate) use placement::is_platform_name;
pub use placement::{DeviceId, Placement};
pub(crate) use platform_id::PlatformId;
pub use sharding_rule::ShardingRule;
pub use varying::Varying;
