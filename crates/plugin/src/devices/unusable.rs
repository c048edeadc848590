//! Why a device that was asked for cannot be used.

use std::path::PathBuf;

use super::gpu::DriverVersion;
use super::holders::Holder;

/// Why no client can be made on this host. Each message ends with what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// No chip.
    #[error(
        "this host has no TPU: none of its {devices} PCI devices is one, and there is no /dev/accelN or /dev/vfio/N of \
         one\n  help: OXIDAX_PLATFORM=cpu runs on the CPU; compiling for TPUs that are elsewhere needs none here; \
         docs/cloud-tpu.md says how to get a host with TPUs"
    )]
    NoTpu {
        /// How many devices were looked at.
        devices: usize,
    },

    /// Chips, but no way to them.
    #[error(
        "this host has {chips}, but no device file for them (/dev/accelN or /dev/vfio/N)\n  help: in a container, pass \
         them in: `docker run --privileged --net=host …`, or `--device=/dev/vfio/N` for each; on the host itself the \
         driver is missing: make the machine from one of Google's TPU images"
    )]
    NoTpuNodes {
        /// How many of which.
        chips: String,
    },

    /// The device file is another user's.
    #[error(
        "cannot open {node}: permission denied (mode {mode:04o}, owner {owner}, group {group}; you are user {user})\n  \
         help: {help}", node = .node.display()
    )]
    NotPermitted {
        /// The device file.
        node: PathBuf,
        /// Its permissions.
        mode: u32,
        /// The number of the user that it belongs to.
        owner: u32,
        /// The group that it belongs to.
        group: String,
        /// The number of the user who asks.
        user: u32,
        /// The command that repairs it.
        help: String,
    },

    /// Other processes have the chips, and a chip serves one process at a time.
    #[error("the TPU is in use: {held}\n  help: wait until it ends, or end it: `kill {pids}`; to share the host, give each \
             process its own chips with TPU_VISIBLE_CHIPS", held = listed(.holders), pids = pids(.holders))]
    TpuHeld {
        /// Who.
        holders: Vec<Holder>,
    },

    /// Somebody has the chips whom this user may not see.
    #[error(
        "the TPU is in use by a process that cannot be seen: the files of {hidden} processes are closed to this user\n  \
         help: `sudo lsof -w {files}` names it; if it names nobody, a process left the lock behind: `sudo rm {lock}`",
        lock = super::holders::LOCK_FILE
    )]
    HeldByUnseen {
        /// Processes that could not be looked into.
        hidden: usize,
        /// Files that it may hold.
        files: String,
    },

    /// No GPU.
    #[error(
        "this host has no NVIDIA GPU: none of its {devices} PCI devices is one, and there is no /dev/nvidiaN\n  help: \
         OXIDAX_PLATFORM=cpu runs on the CPU; compiling for GPUs that are elsewhere needs none here; in a container, pass \
         the GPUs in: `docker run --gpus all …`"
    )]
    NoGpu {
        /// How many devices were looked at.
        devices: usize,
    },

    /// GPUs, but no driver.
    #[error(
        "this host has {gpus} NVIDIA display devices, but no driver for them (/proc/driver/nvidia, /dev/nvidiaN)\n  help: \
         install NVIDIA's driver, {needed} or later, then `nvidia-smi` lists them; in a container, pass them in: `docker \
         run --gpus all …`", needed = super::gpu::NEEDED_DRIVER
    )]
    NoGpuDriver {
        /// How many.
        gpus: usize,
    },

    /// A driver from before the plugin's CUDA.
    #[error(
        "the NVIDIA driver is {found}, CUDA 13 needs {needed} or later\n  help: install a newer driver, or use a plugin of \
         the CUDA before: docs/gpu.md"
    )]
    OldGpuDriver {
        /// The host's.
        found: DriverVersion,
        /// The oldest that will do.
        needed: DriverVersion,
    },
}

/// Things one behind the other.
pub(super) fn listed(things: &[impl ToString]) -> String {
    things.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn pids(holders: &[Holder]) -> String {
    holders.iter().map(|holder| holder.pid.to_string()).collect::<Vec<_>>().join(" ")
}
