//! Several processes that run one program, on one host or many: they find each other, wait for each other, and swap
//! values.
//!
//! Every process is started with the same program and calls `initialize` before its first array. One of them,
//! process 0, is the coordinator: it listens at an address that all know. From then on each knows its
//! [`process_index`] and the [`process_count`], and reads its own share of the data:
//!
//! ```
//! use oxidax::data::{Source as _, Synthetic};
//! use oxidax::distributed::{process_count, process_index};
//! let records = Synthetic::new(1000, |index| Ok(index));
//! let mine = records.shuffled(7).shard(process_index(), process_count()).stream();
//! assert_eq!(mine.count(), 1000 / process_count());
//! ```
//!
//! Those two are here always; the rest needs the feature `distributed`. What is here works on the host, over the
//! coordinator: it is for what is small or rare, such as "has everybody read the configuration", or a sum of
//! metrics. Sums of gradients are the devices' business, which meet through the plugin: TPUs over their own links, GPUs
//! through NCCL, which finds its peers in the coordinator's store. The CPU plugin compiles nothing across processes.
//!
//! Four promises. Nothing waits forever: every wait has a time-out, and its error names who did not come. A process
//! that dies is named to all others (host and process number included), at once if its connection ends and after
//! `Config::heartbeat_timeout` if it falls silent; whatever waits ends with that error, and so does every later call.
//! What is sent has bounds. And processes that call different functions, or with values that are unlike, are told so.
//!
//! There is no authentication and no encryption: whoever reaches the coordinator's port can read and change what
//! the processes tell each other. It listens at the coordinator's address only; keep that on a network whose machines
//! you trust. `docs/several-hosts.md` shows how processes are started on Cloud TPU, SLURM and Kubernetes.

#[cfg(feature = "distributed")]
mod cluster;
#[cfg(feature = "distributed")]
mod config;
#[cfg(feature = "distributed")]
mod contribution;
#[cfg(feature = "distributed")]
mod gather;
#[cfg(feature = "distributed")]
mod keys;
#[cfg(feature = "distributed")]
mod listen;
#[cfg(feature = "distributed")]
mod rendezvous;
#[cfg(feature = "distributed")]
mod session;

#[cfg(feature = "distributed")]
pub use config::Config;
#[cfg(feature = "distributed")]
pub use gather::{assert_equal, broadcast_one_to_all, process_allgather, sync_global_devices};
#[cfg(feature = "distributed")]
pub use keys::{delete, get, get_within, list, put, try_get};
#[cfg(feature = "distributed")]
pub use session::{barrier, barrier_among, initialize, is_initialized, process_names, shutdown};

pub use crate::runtime::{process_count, process_index};
