//! Reasons why a requested device cannot be used.

use std::path::PathBuf;

use super::gpu::DriverVersion;
use super::holders::Holder;

/// The reason why no client can be created on this host. Each message ends with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// There is no chip.
    #[error(
        "this host has no TPU: none of its {devices} PCI devices is one, and there is no \
         /dev/accelN or /dev/vfio/N of one\n  \
         help: OXIDAX_PLATFORM=cpu runs on the CPU; compiling for TPUs that are elsewhere needs \
         none here; docs/cloud-tpu.md says how to get a host with TPUs"
    )]
    NoTpu {
        /// Number of inspected devices.
        devices: usize,
    },

    /// There are chips, but no device files for them.
    #[error(
        "this host has {chips}, but no device file for them (/dev/accelN or /dev/vfio/N)\n  \
         help: in a container, pass them in: `docker run --privileged --net=host …`, or \
         `--device=/dev/vfio/N` for each; on the host itself the driver is missing: make the \
         machine from one of Google's TPU images"
    )]
    NoTpuNodes {
        /// Number and generation of the chips.
        chips: String,
    },

    /// Another user owns the device file.
    #[error(
        "cannot open {node}: permission denied (mode {mode:04o}, owner {owner}, group {group}; you \
         are user {user})\n  \
         help: {help}", node = .node.display()
    )]
    NotPermitted {
        /// The device file.
        node: PathBuf,
        /// Its mode.
        mode: u32,
        /// Its owner's user id.
        owner: u32,
        /// Its group.
        group: String,
        /// The user id of this process.
        user: u32,
        /// The remedy.
        help: String,
    },

    /// Other processes use the chips. A chip serves one process at a time.
    #[error(
        "the TPU is in use: {held}\n  \
         help: wait until it ends, or end it: `kill {pids}`; to share the host, give each process \
         its own chips with TPU_VISIBLE_CHIPS",
        held = listed(.holders),
        pids = pids(.holders)
    )]
    TpuHeld {
        /// The processes.
        holders: Vec<Holder>,
    },

    /// A process that this user may not see uses the chips.
    #[error(
        "the TPU is in use by a process that cannot be seen: the files of {hidden} processes are \
         closed to this user\n  \
         help: `sudo lsof -w {files}` names it; if it names nobody, a process left the lock \
         behind: `sudo rm {lock}`",
        lock = super::holders::LOCK_FILE
    )]
    HeldByUnseen {
        /// Number of processes that could not be inspected.
        hidden: usize,
        /// Files that the process may hold.
        files: String,
    },

    /// There is no GPU.
    #[error(
        "this host has no NVIDIA GPU: none of its {devices} PCI devices is one, and there is no \
         /dev/nvidiaN\n  \
         help: OXIDAX_PLATFORM=cpu runs on the CPU; compiling for GPUs that are elsewhere needs \
         none here; in a container, pass the GPUs in: `docker run --gpus all …`"
    )]
    NoGpu {
        /// Number of inspected devices.
        devices: usize,
    },

    /// There are GPUs, but no driver.
    #[error(
        "this host has {gpus} NVIDIA display devices, but no driver for them (/proc/driver/nvidia, \
         /dev/nvidiaN)\n  \
         help: install NVIDIA's driver, {needed} or later, then `nvidia-smi` lists them; in a \
         container, pass them in: `docker run --gpus all …`", needed = super::gpu::NEEDED_DRIVER
    )]
    NoGpuDriver {
        /// Number of GPUs.
        gpus: usize,
    },

    /// The driver is older than the plugin's CUDA version.
    #[error(
        "the NVIDIA driver is {found}, CUDA 13 needs {needed} or later\n  \
         help: install a newer driver, or use a plugin of the CUDA before: docs/gpu.md"
    )]
    OldGpuDriver {
        /// The host's driver.
        found: DriverVersion,
        /// The oldest supported driver.
        needed: DriverVersion,
    },
}

/// Formats items as a comma-separated list.
pub(super) fn listed(things: &[impl ToString]) -> String {
    things.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn pids(holders: &[Holder]) -> String {
    holders.iter().map(|holder| holder.pid.to_string()).collect::<Vec<_>>().join(" ")
}
