//! Programs on several devices: meshes, shardings, transfers and `shard_map`.
//!
//! A [`Mesh`] arranges devices in a grid with named axes. A [`PartitionSpec`] says which mesh axes
//! split which axes of an array, and a [`NamedSharding`] is a spec on a mesh. There are three ways
//! to run a program on a mesh:
//!
//! - **Automatic sharding.** [`device_put`] places arguments, and [`PartitionRules`] derive the
//!   sharding of each leaf of a model from its path. [`jit`](crate::jit::jit) takes shardings with
//!   `in_shardings` and `out_shardings`, [`with_sharding_constraint`] sets them inside a program.
//!   The compiler partitions the program and inserts collectives.
//! - **Explicit sharding.** Over the [explicit](AxisType::Explicit) axes of a mesh, shardings are
//!   part of the types of arrays. Each operation derives that of its result, and
//!   [`reshard`](reshard()) changes it.
//! - **[`shard_map`](shard_map())** runs a function on every device, on that device's shards, with
//!   explicit collectives.
//!
//! New arrays are created on the *default device*: the first local device, or the one chosen by
//! [`with_default_device`]. They move to the devices of the arrays they are combined with. Arrays
//! placed by [`device_put`], and results computed from them, stay where they are.
//!
//! `docs/parallel.md` is the guide.

mod array_placement;
mod constraint;
mod device_put;
mod devices;
mod format;
mod host_local;
mod inspect;
mod make_mesh;
mod partition_rules;
mod per_argument;
mod reshard;
mod shard_map;
mod single_device_arrays;
mod visualize;

pub use crate::core::{
    AxisNames, AxisSpec, AxisType, Collective, Communication, Device, DeviceId, Layout, LayoutMode,
    MemoryKind, Mesh, NamedSharding, PartitionSpec, Placement, ShardingRule, Varying, get_mesh,
    no_collectives, set_mesh, with_mesh,
};
pub use crate::runtime::{
    CudaAllocator, CudaOptions, LiveArray, MemoryStats, PluginOption, PluginOptions, Shard,
    Topology, process_count, process_index,
};
pub use array_placement::{GlobalShard, device_get};
pub use constraint::{with_memory_kind, with_sharding_constraint};
pub use device_put::{
    PutTarget, device_put, device_put_replicated, device_put_sharded, make_array_from_callback,
    make_array_from_process_local_data, with_default_sharding,
};
pub use devices::{
    default_backend, default_device, device_count, devices, devices_of, live_arrays,
    local_device_count, local_devices, register_plugin, set_cpu_devices, set_cuda_options,
    with_default_device,
};
pub use format::{Format, with_layout_constraint};
pub use host_local::{global_array_to_host_local_array, host_local_array_to_global_array};
pub use inspect::inspect_array_sharding;
pub use make_mesh::make_mesh;
pub use partition_rules::{PartitionRules, TreeSharding};
pub(crate) use per_argument::LeafKeys;
pub use per_argument::{PerArgument, PerLeaf};
pub use reshard::{auto_axes, explicit_axes, reshard};
pub(crate) use shard_map::MapRegion;
pub use shard_map::{ShardMapped, shard_map};
pub use single_device_arrays::make_array_from_single_device_arrays;
pub use visualize::{visualize_sharding, visualize_sharding_of};
