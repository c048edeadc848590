//! The PJRT runtime: clients, buffers, transfers, compilation, execution and eager evaluation.
//!
//! This folder is the only one that uses `oxidax-pjrt`. A program is compiled in [`compile`] and
//! run in [`executable`]; [`transfer`] copies arrays between the host and devices; [`evaluator`] is
//! the backend of operations outside of traces.

mod cache_key;
mod callbacks;
mod client;
mod collectives;
mod compile;
mod compile_error;
mod compile_scope;
mod compiler_options;
mod compiler_report;
mod config;
mod cpu_malloc;
mod cuda;
mod default_device;
mod device_buffer;
mod digested_file;
mod disk_cache;
mod dlpack;
mod dump_ir;
mod eager_collectives;
mod effects;
mod evaluator;
mod executable;
mod ffi_targets;
mod first_device;
#[cfg(feature = "import")]
mod foreign_module;
mod hlo_sharding;
mod host_blocks;
mod host_copy;
mod host_view;
mod late_copies;
mod layouts;
mod live_arrays;
mod lowering_target;
mod memory_report;
mod memory_stats;
mod operation_times;
mod placement;
mod plugin_profilers;
mod processes;
mod recompiles;
mod recording;
mod refused_kernels;
mod registered_plugins;
mod scratch;
mod serialized;
mod sharded_buffer;
#[cfg(feature = "distributed")]
mod shared_programs;
mod stalls;
mod topology;
mod topology_executable;
mod transfer;
mod unfinished;

pub(crate) use client::{
    configured_platform, cpu_malloc, register_plugin, requested_cpu_devices, set_cpu_devices,
    set_cpu_malloc, set_cuda_options, set_default_platform,
};
pub use collectives::{Collectives, CompiledCollective};
pub(crate) use collectives::{ExchangedAxes, NamedLine, over_axes};
pub(crate) use compile_scope::CompileScope;
pub use compile_scope::{
    disable_loop_kernels, disable_most_optimizations, disable_outlining, disable_rewrites,
    enable_program_kernels,
};
pub use compiler_options::CompilerOptions;
pub use compiler_report::{CompilerReport, MemoryAnalysis};
#[cfg(feature = "distributed")]
pub(crate) use config::{cluster_variables, host_has_tpu};
pub(crate) use config::{matmul_precision, options};
pub use cpu_malloc::CpuMalloc;
pub use cuda::{CudaAllocator, CudaOptions};
pub(crate) use default_device::{
    configured_device, default_device, set_default_device, with_default_device,
};
pub(crate) use device_buffer::{any_deleted, is_deleted};
pub(crate) use digested_file::DigestedFile;
#[cfg(test)]
pub(crate) use digested_file::digest;
pub use disk_cache::DiskCacheStats;
pub(crate) use disk_cache::{disk_settings, disk_stats, set_disk};
pub(crate) use dlpack::{from_dlpack, is_dlpack_dtype, to_dlpack};
pub(crate) use dump_ir::{dump_ir_to, set_dump_ir_to};
pub use effects::effects_barrier;
pub use evaluator::CacheCounts;
pub(crate) use evaluator::{
    backend, is_nan_checked, locate_nan, operation_counts, program_counts, set_eager_limits,
    set_eager_max_bytes,
};
pub(crate) use executable::Executable;
pub(crate) use ffi_targets::{register_foreign_handler, register_rust_handler};
#[cfg(feature = "import")]
pub(crate) use foreign_module::ModuleCode;
#[cfg(feature = "import")]
pub(crate) use hlo_sharding::{prime_factors, sharding_of_text};
pub(crate) use host_view::{buffer_address, put_shared, shared_view};
pub(crate) use layouts::with_layout;
pub use live_arrays::LiveArray;
pub(crate) use live_arrays::{is_tracked, live_arrays, set_tracked};
pub(crate) use lowering_target::target_of;
pub(crate) use memory_report::HeldValues;
pub use memory_stats::MemoryStats;
pub(crate) use memory_stats::{layout_of, local_hardware_id, memory_stats, on_device_bytes};
pub(crate) use operation_times::OperationTime;
pub use oxidax_cache::Settings;
pub(crate) use oxidax_pjrt::DeviceMemory;
pub(crate) use oxidax_pjrt::ProfilerOptions;
pub(crate) use oxidax_pjrt::SharedView;
pub use oxidax_pjrt::ffi::ForeignHandler;
pub use oxidax_pjrt::{DlpackDevice, DlpackTensor};
pub use oxidax_pjrt::{EffortLevel, Fusion, OptionValue, SourceLocation};
pub(crate) use placement::{
    committed_placement, device_by_id, devices, devices_of, placement_of, platform,
};
pub(crate) use plugin_profilers::{PluginRecording, start_plugin_profilers, stop_plugin_profilers};
#[cfg(feature = "distributed")]
pub(crate) use processes::{Exchange, Joined, is_too_late, join};
pub use processes::{process_count, process_index};
pub use recording::RecordOptions;
pub(crate) use recording::{
    is_recording, keeps_arguments, process_recording, recording, set_recording, with_recording,
};
pub use registered_plugins::{PluginOption, PluginOptions};
pub(crate) use scratch::{NonDonatable, Scratch};
pub(crate) use serialized::{ProgramHeader, SerializedProgram};
pub use sharded_buffer::Shard;
pub(crate) use sharded_buffer::addressable_shards;
#[cfg(feature = "checkpoint")]
pub(crate) use sharded_buffer::{HostShard, host_shards};
#[cfg(all(test, feature = "distributed"))]
pub(crate) use shared_programs::{
    Ballot, Participant, SharedProgram, VotesFailed, load_or_compile, tests::TestProgram,
};
pub use topology::Topology;
pub(crate) use topology_executable::TopologyExecutable;
pub(crate) use transfer::{
    array_from_shards, array_on_devices, host_local, memory_kinds, put_host_local,
    put_process_local, transfer, with_default_sharding,
};
pub(crate) use unfinished::unfinished_launches;
