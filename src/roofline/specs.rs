//! What devices can do: the type. The figures stand in `table.rs`.

use super::device_table;
use crate::core::{Contraction, DType};
use serde::Serialize;

/// What one device can do, by its maker's figures: one [`Device`](crate::core::Device) of a program, which is a chip or
/// one core of a chip.
///
/// Rates are peaks that no program reaches. [`DeviceSpec::ALL`] is the table, dated and with sources; `docs/roofline.md`
/// prints it. Fields are public, so that a machine that is not in it can be described:
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
    /// Its name: `v5e`, `h100`.
    pub name: &'static str,
    /// What one device is: `chip (2 cores)`, `core (half a chip)`.
    pub unit: &'static str,
    /// Peak rates of its matrix unit.
    pub peak: Peaks,
    /// Peak rate of its vector unit in `f32`, FLOP/s, where it is published or follows from the clock.
    pub vector_flops: Option<f64>,
    /// Main memory, bytes, that a program may use.
    pub hbm_bytes: u64,
    /// Main memory to core, bytes/s.
    pub hbm_bandwidth: f64,
    /// Fast memory that the compiler manages (VMEM) or the last cache, bytes.
    pub vmem_bytes: u64,
    /// Fast memory to matrix unit, bytes/s.
    pub vmem_bandwidth: f64,
    /// The side of the tile that the matrix unit works on: smaller axes are padded to it.
    pub mxu: usize,
    /// How devices are wired to each other.
    pub wires: Wires,
    /// To devices that are not wired to this one, over the data centre's network: bytes/s each way, per device.
    pub dcn_bandwidth: f64,
    /// When the figures were looked up: `2026-11`.
    pub date: &'static str,
    /// Where.
    pub source: &'static str,
}

/// Peak rates of a matrix unit, FLOP/s, two for a product and its sum, without sparsity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Peaks {
    /// `bf16` and `f16` operands.
    pub bf16: f64,
    /// 8-bit floats; `None`: multiplied as `bf16`.
    pub fp8: Option<f64>,
    /// 8-bit integers; `None`: multiplied as `bf16`.
    pub int8: Option<f64>,
    /// `f32` operands at default precision: one `bf16` pass on TPUs, TF32 on GPUs.
    pub f32: f64,
}

/// How devices of one machine or slice are wired.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Wires {
    /// Each to its neighbours along the axes of a grid.
    Torus {
        /// Axes of the grid.
        axes: usize,
        /// Bytes/s of one link, one way.
        link: f64,
        /// An axis of which sizes closes to a ring; others are lines.
        rings: Rings,
        /// Seconds for one hop.
        hop: f64,
    },
    /// Each to all through a switch.
    Switch {
        /// Bytes/s of one device, one way.
        bandwidth: f64,
        /// How many devices hang on one switch.
        devices: usize,
        /// Seconds from device to device.
        hop: f64,
    },
    /// None.
    Alone,
}

/// Which axes of a grid close to rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Rings {
    /// Those as long as the whole pod.
    Exactly(usize),
    /// Those whose size is a multiple, which optical switches close.
    MultiplesOf(usize),
}

impl Wires {
    /// Whether an axis of so many devices closes to a ring.
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
    /// Every device of the table.
    pub const ALL: &'static [DeviceSpec] = device_table::ALL;

    /// The device of this name, in any case: `v5e`, `TPU v5 lite`, `H100`.
    pub fn named(name: &str) -> Option<DeviceSpec> {
        let wanted = name.to_lowercase();
        let wanted = wanted.strip_prefix("nvidia ").unwrap_or(&wanted);
        let is_known = |aliases: &&(&str, &str)| aliases.0 == wanted;
        let wanted = device_table::ALIASES.iter().find(is_known).map_or(wanted, |(_, name)| name);
        DeviceSpec::ALL.iter().find(|spec| spec.name == wanted).copied()
    }

    /// What a [topology](crate::parallel::Topology) of this name calls a device: `v5e:4x4`, `7x:2x2x1`.
    ///
    /// A chip of two cores is two devices in topologies of v3 and 7x and one in those of v4 and v5p, as on Cloud TPU VMs.
    ///
    /// ```
    /// use oxidax::roofline::DeviceSpec;
    /// let chip = DeviceSpec::of_topology("v4:2x2x1").expect("it is in the table");
    /// assert_eq!((chip.name, chip.unit), ("v4", "chip (2 cores)"));
    /// ```
    pub fn of_topology(name: &str) -> Option<DeviceSpec> {
        DeviceSpec::named(name.split(':').next()?)
    }

    /// Peak rate for products of this type, FLOP/s, at one pass.
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

    /// FLOPs per byte of main memory from which on `bf16` products are bound by arithmetic.
    pub fn critical_intensity(&self) -> f64 {
        self.peak.bf16 / self.hbm_bandwidth
    }

    /// FLOPs per byte of fast memory from which on `bf16` products are bound by arithmetic.
    pub fn critical_intensity_from_vmem(&self) -> f64 {
        self.peak.bf16 / self.vmem_bandwidth
    }

    /// The part of a matrix unit's work on this product that is not padding, from 0 to 1: an axis of 129 takes as long as
    /// one of 256 where tiles are 128 wide. Rows are padded to 8.
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
