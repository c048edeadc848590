//! Limits of devices that kernels meet: cores, shared memory and registers.

use crate::roofline::DeviceSpec;

/// The parts of a device on which programs of a kernel run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cores {
    /// The cores of a TPU, which run the programs of a grid one after the other.
    Tpu {
        /// The number of cores, to which the programs of parallel axes are distributed.
        cores: usize,
        /// Seconds of each program beside arithmetic and traffic.
        step: f64,
    },
    /// The multiprocessors of a GPU.
    Gpu {
        /// The number of multiprocessors.
        multiprocessors: usize,
        /// The shared memory of a program, in bytes.
        shared: u64,
        /// The registers of a multiprocessor, in bytes.
        registers: u64,
        /// Seconds of a launch.
        launch: f64,
        /// Seconds of each step along a sequential axis beside arithmetic and traffic.
        step: f64,
    },
}

/// Seconds of each program of a TPU's grid: an assumption, not measured here.
const TPU_STEP: f64 = 0.35e-6;
/// Seconds of a kernel's launch on a GPU: an assumption, not measured here.
const GPU_LAUNCH: f64 = 3e-6;
/// Seconds of a step that waits for memory: an assumption, not measured here.
const GPU_STEP: f64 = 0.1e-6;

/// Returns the cores of a device.
///
/// Multiprocessors: NVIDIA's white papers on A100 and H100; those of B200 as its driver reports
/// them (Chips and Cheese, "Nvidia's B200", 2025). Shared memory and registers: the table of
/// compute capabilities in the CUDA C++ programming guide (163 KiB a block at 8.0, 227 KiB at 9.0
/// and 10.0, 64 Ki registers of 32 bits a multiprocessor).
pub(super) fn cores(device: &DeviceSpec) -> Cores {
    let gpu = |multiprocessors, shared: u64| Cores::Gpu {
        multiprocessors,
        shared: shared << 10,
        registers: 256 << 10,
        launch: GPU_LAUNCH,
        step: GPU_STEP,
    };
    match device.name {
        "a100" => gpu(108, 163),
        "h100" | "h200" => gpu(132, 227),
        "b200" => gpu(148, 227),
        "v4" | "v5p" => Cores::Tpu { cores: 2, step: TPU_STEP },
        _ => Cores::Tpu { cores: 1, step: TPU_STEP },
    }
}
