//! The device side: plugin choice, compiling, executing, copies, donation, eager evaluation.
//!
//! The only room that uses `oxidax-pjrt`.

mod analysis;
mod buffer;
mod callbacks;
mod client;
mod collectives;
mod config;
mod cuda;
mod evaluator;
mod executable;
mod express;
mod home;
mod identity;
mod lowering_target;
mod plan;
mod processes;
mod put;
mod saved;
mod shards;
mod shipped;
mod too_large;
mod topology;
mod unloaded;

pub use analysis::MemoryAnalysis;
pub(crate) use buffer::{any_deleted, is_deleted};
pub(crate) use client::{set_cpu_devices, set_cuda_options};
pub use collectives::{Collectives, CompiledCollective};
#[cfg(feature = "distributed")]
pub(crate) use config::cluster_variables;
pub use cuda::{CudaAllocator, CudaOptions};
pub use evaluator::Counts;
pub(crate) use evaluator::{blame, eager_counts, evaluator, is_watched, set_eager_limits};
pub(crate) use executable::{Executable, Kept, Scratch};
pub(crate) use home::{
    Home, Lies, default_device, device_of, devices, home_of, platform, with_default_device,
};
pub(crate) use lowering_target::lowering_target;
pub use oxidax_cache::Settings;
pub(crate) use plan::{Plan, Wishes};
#[cfg(feature = "distributed")]
pub(crate) use processes::{Exchange, Joined, is_too_late, join};
pub use processes::{process_count, process_index};
pub(crate) use put::{assembled, moved, put_local, with_spread};
pub use saved::DiskStats;
pub(crate) use saved::{disk_settings, disk_stats, set_disk};
pub use shards::Shard;
pub(crate) use shards::shards_of;
pub(crate) use shipped::{Frame, Shipped, digest};
pub use topology::Topology;
pub(crate) use unloaded::Unloaded;
