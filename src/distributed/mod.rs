//! Programs of several processes, on one host or many: joining, synchronizing and exchanging
//! values.
//!
//! Start the same program for every process and call `initialize` before the first array. Process 0
//! is the coordinator: it listens at an address that all processes know. After that each process
//! knows its [`process_index`] and the [`process_count`], and reads its share of the data:
//!
//! ```
//! use oxidax::data::{Source as _, Synthetic};
//! use oxidax::distributed::{process_count, process_index};
//! let records = Synthetic::new(1000, |index| Ok(index));
//! let mine = records.shuffled(7).shard(process_index(), process_count()).stream();
//! assert_eq!(mine.count(), 1000 / process_count());
//! ```
//!
//! These two functions are always available, the rest needs the feature `distributed`. Everything
//! here runs on the hosts and through the coordinator, for small or rare exchanges such as
//! configuration or a sum of metrics. Gradients are summed by the devices, through the plugin: TPUs
//! over their interconnect, GPUs through NCCL, which finds its peers in the coordinator's store.
//! The CPU plugin does not compile programs across processes.
//!
//! Guarantees:
//! - Every wait has a time-out. Its error names the missing processes.
//! - If a process dies, all others learn its name, host and number: immediately if its connection
//!   ends, after `ClusterConfig::heartbeat_timeout` if it is silent. Pending and later operations
//!   end with that error.
//! - Messages and memory are limited.
//! - Processes that call different functions, or with different types, get an error.
//!
//! There is no authentication and no encryption. Anyone who can reach the coordinator's port can
//! read and change the exchanged data. It listens at the coordinator's address only: use a network
//! whose machines you trust. See `docs/several-hosts.md` for starting processes on Cloud TPU, SLURM
//! and Kubernetes.

#[cfg(feature = "distributed")]
mod cluster;
#[cfg(feature = "distributed")]
mod config;
#[cfg(feature = "distributed")]
mod contribution;
#[cfg(feature = "distributed")]
mod exchange;
#[cfg(feature = "distributed")]
mod gather;
#[cfg(feature = "distributed")]
mod keys;
#[cfg(feature = "distributed")]
mod listen;
#[cfg(feature = "distributed")]
mod preemption;
#[cfg(feature = "distributed")]
mod reduce;
#[cfg(feature = "distributed")]
mod rendezvous;
#[cfg(feature = "distributed")]
mod session;
#[cfg(all(test, feature = "distributed"))]
mod shared_programs_kills;
#[cfg(all(test, feature = "distributed"))]
mod shared_programs_tests;

#[cfg(feature = "distributed")]
pub use cluster::ClusterDetection;
#[cfg(feature = "distributed")]
pub use config::ClusterConfig;
#[cfg(feature = "distributed")]
pub use exchange::exchange_bytes;
#[cfg(feature = "distributed")]
pub use gather::{assert_equal, broadcast_one_to_all, process_allgather, sync_global_devices};
#[cfg(feature = "distributed")]
pub use keys::{GetOptions, delete, get, get_with, list, put, try_get};
#[cfg(feature = "distributed")]
pub use preemption::reached_preemption_sync_point;
#[cfg(feature = "distributed")]
pub use reduce::{ProcessReduction, process_allreduce};
#[cfg(feature = "distributed")]
pub use session::{
    BarrierOptions, barrier, barrier_with, initialize, is_initialized, process_names, shutdown,
};

pub use crate::runtime::{process_count, process_index};
