//! Devices: which there are, where arrays lie, and how to bring them elsewhere.
//!
//! An array is made on the *default device*, the first of this process or that of [`with_default_device`], and moves
//! by itself to where the arrays are that it meets. What [`device_put`] put somewhere stays there, and so do results of programs on it.

mod inspect;
mod picture;
mod put;

pub use crate::core::Device;
pub use crate::runtime::{CudaAllocator, CudaOptions, Shard, Topology};
pub use inspect::{Sharding, default_device, devices, devices_of, local_devices};
pub use inspect::{set_cpu_devices, set_cuda_options, with_default_device};
pub use picture::visualize_sharding;
pub use put::{
    Target, device_put, device_put_replicated, device_put_sharded,
    make_array_from_process_local_data, with_default_sharding,
};
