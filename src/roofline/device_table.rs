//! The table of devices. `docs/roofline.md` lists wrong figures in circulation.
//!
//! Sources, all from 2026-11:
//! - "book": *How to Scale Your Model* (jax-ml.github.io/scaling-book, chapters 2 and 12);
//! - "docs": docs.cloud.google.com/tpu/docs, one page for each generation;
//! - "pallas": JAX's table, `jax/_src/pallas/mosaic/tpu_info.py`;
//! - "libtpu": the usable memory that libtpu 0.0.51 reports for the devices of a topology;
//! - "NVIDIA": the data sheets of A100, H100, H200 and B200 (SXM), halved where they count
//!   sparsity.
//!
//! PCIe: "book" has 15 GB/s per chip as typical, 16 for v4 and 32 for v6e; devices that are half a
//! chip have half. Those of GPUs are 16 lanes of the fourth and the fifth generation. Pods: "book",
//! and docs/tpu7x.

use super::specs::{DeviceSpec, Peaks, Rings, Wires};

const DATE: &str = "2026-11";
/// Seconds per hop (book, chapter 2).
const HOP: f64 = 1e-6;
const MIB: u64 = 1 << 20;
/// The ratio of fast to main memory bandwidth, if it is not published (book, chapter 2, for v5e).
const VMEM_OVER_HBM: f64 = 22.0;

const fn torus(axes: usize, link: f64, rings: Rings) -> Wires {
    Wires::Torus { axes, link, rings, hop: HOP }
}

const fn tpu_peaks(bf16: f64, fp8: Option<f64>, int8: Option<f64>) -> Peaks {
    Peaks { bf16, fp8, int8, f32: bf16 }
}

/// A TPU v3's core.
const V3: DeviceSpec = DeviceSpec {
    name: "v3",
    unit: "core (half a chip)",
    peak: tpu_peaks(6.15e13, None, None),
    vector_flops: None,
    hbm_bytes: 16_624_107_520,
    hbm_bandwidth: 4.5e11,
    host_bandwidth: Some(7.5e9),
    vmem_bytes: 16 * MIB,
    vmem_bandwidth: 4.5e11 * VMEM_OVER_HBM,
    mxu: 128,
    wires: torus(2, 1e11, Rings::Exactly(32)),
    pod_chips: Some(1024),
    dcn_bandwidth: 3.125e9,
    date: DATE,
    source: "docs: 123 TFLOP/s and 900 GB/s a chip; memory: libtpu; VMEM: pallas; ICI: book",
};

/// A TPU v4 chip, whose two cores are one device.
const V4: DeviceSpec = DeviceSpec {
    name: "v4",
    unit: "chip (2 cores)",
    peak: tpu_peaks(2.75e14, None, Some(2.75e14)),
    // 8·128 lanes of 2 units on each of 2 cores at 1.05 GHz.
    vector_flops: Some(4.3e12),
    hbm_bytes: 32_745_971_712,
    hbm_bandwidth: 1.2e12,
    host_bandwidth: Some(1.6e10),
    vmem_bytes: 32 * MIB,
    vmem_bandwidth: 1.2e12 * VMEM_OVER_HBM,
    mxu: 128,
    wires: torus(3, 4.5e10, Rings::MultiplesOf(4)),
    pod_chips: Some(4096),
    dcn_bandwidth: 6.25e9,
    date: DATE,
    source: "book; docs; memory: libtpu; VMEM: pallas",
};

const V5E: DeviceSpec = DeviceSpec {
    name: "v5e",
    unit: "chip (1 core)",
    peak: tpu_peaks(1.97e14, None, Some(3.94e14)),
    // 8·128 lanes of 4 units at 1.5 GHz.
    vector_flops: Some(6.1e12),
    hbm_bytes: 16_909_334_528,
    hbm_bandwidth: 8.19e11,
    host_bandwidth: Some(1.5e10),
    vmem_bytes: 128 * MIB,
    vmem_bandwidth: 8.19e11 * VMEM_OVER_HBM,
    mxu: 128,
    wires: torus(2, 4.5e10, Rings::Exactly(16)),
    pod_chips: Some(256),
    dcn_bandwidth: 3.125e9,
    date: DATE,
    source: "docs/v5e (197 TFLOP/s, 819 GB/s); book; memory: libtpu",
};

/// A TPU v5p chip, whose two cores are one device.
const V5P: DeviceSpec = DeviceSpec {
    name: "v5p",
    unit: "chip (2 cores)",
    peak: tpu_peaks(4.59e14, None, Some(9.18e14)),
    vector_flops: Some(1.4e13),
    hbm_bytes: 102_786_660_352,
    hbm_bandwidth: 2.765e12,
    host_bandwidth: Some(1.5e10),
    vmem_bytes: 128 * MIB,
    // "Around 40 TB/s" (book, chapter 12).
    vmem_bandwidth: 4e13,
    mxu: 128,
    wires: torus(3, 9e10, Rings::MultiplesOf(4)),
    pod_chips: Some(8960),
    dcn_bandwidth: 6.25e9,
    date: DATE,
    source: "docs/v5p (459 TFLOP/s, 2765 GB/s); book; memory: libtpu; VMEM: pallas",
};

/// Trillium.
const V6E: DeviceSpec = DeviceSpec {
    name: "v6e",
    unit: "chip (1 core)",
    peak: tpu_peaks(9.18e14, Some(9.18e14), Some(1.836e15)),
    vector_flops: None,
    hbm_bytes: 33_546_041_344,
    hbm_bandwidth: 1.638e12,
    host_bandwidth: Some(3.2e10),
    vmem_bytes: 128 * MIB,
    vmem_bandwidth: 1.638e12 * VMEM_OVER_HBM,
    mxu: 256,
    wires: torus(2, 9e10, Rings::Exactly(16)),
    pod_chips: Some(256),
    dcn_bandwidth: 1.25e10,
    date: DATE,
    source: "docs/tpu7x and docs/v6e (918 TFLOP/s, 1638 GB/s); book; memory: libtpu; VMEM: pallas",
};

/// Ironwood: a chip is two devices.
const V7X: DeviceSpec = DeviceSpec {
    name: "7x",
    unit: "core (half a chip)",
    peak: tpu_peaks(2.307e15 / 2.0, Some(4.614e15 / 2.0), None),
    vector_flops: None,
    hbm_bytes: 101_724_450_816,
    hbm_bandwidth: 7.38e12 / 2.0,
    host_bandwidth: Some(7.5e9),
    vmem_bytes: 64 * MIB,
    vmem_bandwidth: 7.38e12 / 2.0 * VMEM_OVER_HBM,
    mxu: 256,
    wires: torus(3, 9e10, Rings::MultiplesOf(4)),
    pod_chips: Some(9216),
    dcn_bandwidth: 6.25e9,
    date: DATE,
    source: "docs/tpu7x, halved; memory: libtpu; VMEM: as a core of v5p; ICI: as v5p, 1200 GB/s",
};

const A100: DeviceSpec = DeviceSpec {
    name: "a100",
    unit: "GPU (SXM, 80 GB)",
    peak: Peaks { bf16: 3.12e14, fp8: None, int8: Some(6.24e14), f32: 1.56e14 },
    vector_flops: Some(1.95e13),
    hbm_bytes: 80_000_000_000,
    hbm_bandwidth: 2.039e12,
    host_bandwidth: Some(3.2e10),
    vmem_bytes: 40 * MIB,
    // Read bandwidth of the L2 cache, 5120 bytes a clock at 1.41 GHz (NVIDIA, A100 whitepaper).
    vmem_bandwidth: 7.2e12,
    mxu: 16,
    wires: Wires::Switch { bandwidth: 3e11, devices: 8, hop: HOP },
    pod_chips: Some(8),
    dcn_bandwidth: 2.5e10,
    date: DATE,
    source: "NVIDIA, without sparsity; one 200 Gb/s adapter a GPU",
};

const H100: DeviceSpec = DeviceSpec {
    name: "h100",
    unit: "GPU (SXM)",
    peak: Peaks { bf16: 9.89e14, fp8: Some(1.979e15), int8: Some(1.979e15), f32: 4.94e14 },
    vector_flops: Some(6.7e13),
    hbm_bytes: 80_000_000_000,
    hbm_bandwidth: 3.35e12,
    host_bandwidth: Some(6.4e10),
    vmem_bytes: 50 * MIB,
    // Measured, not published (book, chapter 12).
    vmem_bandwidth: 5.5e12,
    mxu: 16,
    wires: Wires::Switch { bandwidth: 4.5e11, devices: 8, hop: HOP },
    pod_chips: Some(8),
    dcn_bandwidth: 5e10,
    date: DATE,
    source: "NVIDIA, without sparsity; L2: book; one 400 Gb/s adapter a GPU",
};

const H200: DeviceSpec =
    DeviceSpec { name: "h200", hbm_bytes: 141_000_000_000, hbm_bandwidth: 4.8e12, ..H100 };

const B200: DeviceSpec = DeviceSpec {
    name: "b200",
    unit: "GPU (SXM)",
    peak: Peaks { bf16: 2.25e15, fp8: Some(4.5e15), int8: Some(4.5e15), f32: 1.125e15 },
    vector_flops: Some(7.5e13),
    hbm_bytes: 180_000_000_000,
    hbm_bandwidth: 8e12,
    host_bandwidth: Some(6.4e10),
    // As the driver reports it (Chips and Cheese, "Nvidia's B200", 2025).
    vmem_bytes: 126 * MIB,
    // An assumption, since it is not published: the ratio to main memory is that of H100.
    vmem_bandwidth: 1.3e13,
    mxu: 16,
    wires: Wires::Switch { bandwidth: 9e11, devices: 8, hop: HOP },
    pod_chips: Some(8),
    dcn_bandwidth: 5e10,
    date: DATE,
    source: "NVIDIA, data sheets of HGX and DGX B200 over 8, without sparsity; L2 bandwidth: an \
             assumption; one 400 Gb/s adapter a GPU",
};

/// Oldest first, TPUs before GPUs.
pub(super) const ALL: &[DeviceSpec] = &[V3, V4, V5E, V5P, V6E, V7X, A100, H100, H200, B200];

/// Other names in lower case, including those used by plugins.
pub(super) const ALIASES: &[(&str, &str)] = &[
    ("tpu v3", "v3"),
    ("tpu v4", "v4"),
    ("v4p", "v4"),
    ("tpu v5 lite", "v5e"),
    ("tpu v5e", "v5e"),
    ("v5litepod", "v5e"),
    ("tpu v5", "v5p"),
    ("tpu v5p", "v5p"),
    ("tpu v6 lite", "v6e"),
    ("tpu v6e", "v6e"),
    ("trillium", "v6e"),
    ("tpu7x", "7x"),
    ("v7x", "7x"),
    ("ironwood", "7x"),
    ("a100-sxm4-80gb", "a100"),
    ("h100 80gb hbm3", "h100"),
];
