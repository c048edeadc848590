//! The specification of a device. The table of devices is in `device_table.rs`.

use super::device_table;
use crate::core::{Contraction, DType};
use serde::Serialize;

/// The published peak rates and memory sizes of one device, a [`Device`](crate::core::Device) of a
/// program, which is a chip or one core of a chip.
///
/// [`DeviceSpec::ALL`] is a table with dates and sources, printed in `docs/roofline.md`. Fields are
/// public, so other machines can be described:
///
/// ```
/// use oxidax::roofline::DeviceSpec;
/// let v5e = DeviceSpec::named("v5e").expect("it is in the table");
/// assert_eq!(v5e.critical_intensity() as u32, 240); // FLOPs per byte, in bf16
/// let slow = DeviceSpec { hbm_bandwidth: v5e.hbm_bandwidth / 2.0, ..v5e };
/// assert_eq!(slow.critical_intensity() as u32, 481);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DeviceSpec {
    /// The name, such as `v5e` or `h100`.
    pub name: &'static str,
    /// The unit that is one device, such as `chip (2 cores)` or `core (half a chip)`.
    pub unit: &'static str,
    /// The peak rates of the matrix unit.
    pub peak: Peaks,
    /// The peak rate of the vector unit in `f32`, FLOP/s, if it is published or follows from the
    /// clock.
    pub vector_flops: Option<f64>,
    /// The main memory that a program can use, in bytes.
    pub hbm_bytes: u64,
    /// The bandwidth of main memory, in bytes/s.
    pub hbm_bandwidth: f64,
    /// The bandwidth to the host over PCIe, in bytes/s each way, if it is known.
    pub host_bandwidth: Option<f64>,
    /// The size of fast memory managed by the compiler (VMEM), or of the last cache, in bytes.
    pub vmem_bytes: u64,
    /// The bandwidth of fast memory, in bytes/s.
    pub vmem_bandwidth: f64,
    /// The side of a tile of the matrix unit. Smaller axes are padded to it.
    pub mxu: usize,
    /// The interconnect between devices.
    pub wires: Wires,
    /// The largest number of chips that this interconnect joins: of a TPU pod, or of the GPUs at
    /// one switch, if it is known.
    pub pod_chips: Option<usize>,
    /// The bandwidth over the network of the data centre, in bytes/s per device and direction.
    pub dcn_bandwidth: f64,
    /// The date of the figures, such as `2026-11`.
    pub date: &'static str,
    /// The source of the figures.
    pub source: &'static str,
}

/// Peak rates of a matrix unit in FLOP/s, without sparsity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Peaks {
    /// `bf16` and `f16` operands.
    pub bf16: f64,
    /// 8-bit floats. `None` if they are multiplied as `bf16`.
    pub fp8: Option<f64>,
    /// 8-bit integers. `None` if they are multiplied as `bf16`.
    pub int8: Option<f64>,
    /// `f32` operands at default precision: one `bf16` pass on TPUs, TF32 on GPUs.
    pub f32: f64,
}

/// The interconnect of the devices of one machine or slice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Wires {
    /// A grid in which each device is connected to its neighbours.
    Torus {
        /// The number of axes of the grid.
        axes: usize,
        /// Bytes/s of one link in one direction.
        link: f64,
        /// The axes that are rings. Others are lines.
        rings: Rings,
        /// Seconds of one hop.
        hop: f64,
    },
    /// A switch that connects all devices.
    Switch {
        /// Bytes/s of one device in one direction.
        bandwidth: f64,
        /// The number of devices at one switch.
        devices: usize,
        /// Seconds from device to device.
        hop: f64,
    },
    /// No interconnect.
    Alone,
}

/// The axes of a grid that are rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Rings {
    /// Axes of the size of the whole pod.
    Exactly(usize),
    /// Axes whose size is a multiple, which optical switches connect.
    MultiplesOf(usize),
}

impl Wires {
    /// Returns true if an axis of this size is a ring.
    pub fn is_ring(&self, size: usize) -> bool {
        match *self {
            Wires::Torus { rings: Rings::Exactly(pod), .. } => size == pod,
            Wires::Torus { rings: Rings::MultiplesOf(cube), .. } => {
                size > 0 && size.is_multiple_of(cube)
            }
            Wires::Switch { .. } | Wires::Alone => false,
        }
    }
}

impl DeviceSpec {
    /// All devices of the table.
    pub const ALL: &'static [DeviceSpec] = device_table::ALL;

    /// Returns the device of this name, in any case: `v5e`, `TPU v5 lite`, `H100`.
    pub fn named(name: &str) -> Option<DeviceSpec> {
        let name = name.to_lowercase();
        let name = name.strip_prefix("nvidia ").unwrap_or(&name);
        let mut aliases = device_table::ALIASES.iter();
        let name = aliases.find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
        DeviceSpec::ALL.iter().find(|spec| spec.name == name).copied()
    }

    /// Returns the device of a [topology](crate::parallel::Topology) name such as `v5e:4x4` or
    /// `7x:2x2x1`.
    ///
    /// A chip with two cores is two devices in topologies of v3 and 7x, and one in those of v4 and
    /// v5p, as on Cloud TPU VMs.
    ///
    /// ```
    /// use oxidax::roofline::DeviceSpec;
    /// let chip = DeviceSpec::of_topology("v4:2x2x1").expect("it is in the table");
    /// assert_eq!((chip.name, chip.unit), ("v4", "chip (2 cores)"));
    /// ```
    pub fn of_topology(name: &str) -> Option<DeviceSpec> {
        DeviceSpec::named(name.split(':').next()?)
    }

    /// Returns the peak rate of products of this dtype in one pass, in FLOP/s.
    pub fn peak_of(&self, dtype: DType) -> f64 {
        let Peaks { bf16, fp8, int8, f32 } = self.peak;
        match dtype {
            DType::F32 | DType::F64 | DType::C64 | DType::C128 => f32,
            DType::BF16 | DType::F16 => bf16,
            _ if dtype.is_float() => fp8.unwrap_or(bf16),
            _ if dtype.is_bool() || dtype.bits() > 8 => bf16,
            _ => int8.unwrap_or(bf16),
        }
    }

    /// Returns the FLOPs per byte of main memory above which `bf16` products are bound by
    /// arithmetic.
    pub fn critical_intensity(&self) -> f64 {
        self.peak.bf16 / self.hbm_bandwidth
    }

    /// Returns the FLOPs per byte of fast memory above which `bf16` products are bound by
    /// arithmetic.
    pub fn critical_intensity_from_vmem(&self) -> f64 {
        self.peak.bf16 / self.vmem_bandwidth
    }

    /// Returns the fraction of the work of the matrix unit on a product that is not padding.
    ///
    /// With tiles of 128 an axis of 129 takes as long as one of 256. Rows are padded to 8.
    ///
    /// ```
    /// use oxidax::core::Contraction;
    /// use oxidax::roofline::DeviceSpec;
    /// let v5e = DeviceSpec::named("v5e").expect("it is in the table");
    /// let product = Contraction { batch: 1, m: 1024, n: 129, k: 1024, passes: 1 };
    /// assert_eq!(v5e.tile_use(&product), 129.0 / 256.0);
    /// ```
    pub fn tile_use(&self, product: &Contraction) -> f64 {
        let part =
            |size: usize, tile: usize| size as f64 / size.max(1).next_multiple_of(tile) as f64;
        part(product.n, self.mxu) * part(product.k, self.mxu) * part(product.m, 8)
    }
}
