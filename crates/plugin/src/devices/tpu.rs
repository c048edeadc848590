//! TPUs of this host.

use std::fmt;
use std::path::{Path, PathBuf};

use super::access::{self, User};
use super::environment::TpuEnvironment;
use super::holders;
use super::pci::{self, PciDevice, numbered};
use super::unusable::{Unusable, listed};
use crate::config::Config;
use crate::error::Error;

/// Google's PCI vendor id.
const GOOGLE: u32 = 0x1ae0;

/// Device ids of Google's network card and disk, which every Google VM has and which are not TPUs.
const NOT_TPUS: [u32; 2] = [0x0042, 0x001f];

/// A TPU generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Generation {
    /// TPU v2.
    V2,
    /// TPU v3.
    V3,
    /// TPU v4.
    V4,
    /// TPU v5e, `v5litepod` in machine type names.
    V5e,
    /// TPU v5p.
    V5p,
    /// TPU v6e, Trillium.
    V6e,
    /// TPU7x, Ironwood.
    Tpu7x,
}

impl Generation {
    /// Returns the name used in topologies: `v5e`, `tpu7x`.
    pub fn name(self) -> &'static str {
        match self {
            Generation::V2 => "v2",
            Generation::V3 => "v3",
            Generation::V4 => "v4",
            Generation::V5e => "v5e",
            Generation::V5p => "v5p",
            Generation::V6e => "v6e",
            Generation::Tpu7x => "tpu7x",
        }
    }

    /// Returns the generation of a device. The ids are those of JAX (`jax/_src/hardware_utils.py`)
    /// and `tpu-info`. The first two generations share a device id and differ in the subsystem id.
    fn of(device: &PciDevice) -> Option<Generation> {
        match (device.device, device.subsystem) {
            (0x0027, Some(0x004e)) => Some(Generation::V2),
            (0x0027, _) => Some(Generation::V3),
            (0x005e, _) => Some(Generation::V4),
            (0x0062, _) => Some(Generation::V5p),
            (0x0063, _) => Some(Generation::V5e),
            (0x006f, _) => Some(Generation::V6e),
            (0x0076, _) => Some(Generation::Tpu7x),
            _ => None,
        }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The TPUs of a host.
///
/// ```
/// use oxidax_plugin::{Config, devices::TpuHost};
/// assert_eq!(TpuHost::detect(&Config::bare()), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TpuHost {
    /// The generation. `None` for one that is newer than this program.
    pub generation: Option<Generation>,
    /// Number of chips on the PCI bus.
    pub chips: usize,
    /// The chips' device files: `/dev/accel0`, or `/dev/vfio/17` on newer hosts. Empty without a
    /// driver, or in a container that was started without them.
    pub nodes: Vec<PathBuf>,
}

impl TpuHost {
    /// Detects chips. Returns `None` if there are none.
    ///
    /// An unknown Google device counts if it has a device file `/dev/accelN`, which only TPUs have
    /// had so far.
    pub fn detect(config: &Config) -> Option<TpuHost> {
        let google = google_devices(&config.root);
        let known: Vec<&PciDevice> =
            google.iter().filter(|d| Generation::of(d).is_some()).collect();
        let accel = numbered(&config.root.join("dev"), "accel");
        let accel: Vec<PathBuf> = accel.iter().map(|name| Path::new("/dev").join(name)).collect();
        if known.is_empty() {
            // Any of the Google devices may be a chip, and each device file belongs to one chip.
            let plausible = !google.is_empty() && !accel.is_empty();
            let host = TpuHost { generation: None, chips: accel.len(), nodes: accel };
            return plausible.then_some(host);
        }
        let mut slots: Vec<&str> = known.iter().map(|device| device.slot()).collect();
        slots.dedup();
        let nodes = if accel.is_empty() { vfio_nodes(&config.root, &known) } else { accel };
        Some(TpuHost { generation: Generation::of(known[0]), chips: slots.len(), nodes })
    }

    /// Describes the chips in messages: `4 TPU v5e chips`.
    fn describe(&self) -> String {
        let generation = self.generation.map(|g| format!(" {g}")).unwrap_or_default();
        let plural = if self.chips == 1 { "" } else { "s" };
        format!("{} TPU{generation} chip{plural}", self.chips)
    }
}

/// Returns Google's devices on the bus, without those that are known not to be TPUs.
fn google_devices(root: &Path) -> Vec<PciDevice> {
    let mut devices = pci::devices(root);
    devices.retain(|d| d.vendor == GOOGLE && !NOT_TPUS.contains(&d.device));
    devices
}

/// Returns the device files of these devices' IOMMU groups, or all numbered files if no group is
/// known.
fn vfio_nodes(root: &Path, devices: &[&PciDevice]) -> Vec<PathBuf> {
    let present = numbered(&root.join("dev/vfio"), "");
    let groups: Vec<&String> = devices.iter().filter_map(|d| d.iommu_group.as_ref()).collect();
    let ours = present.iter().filter(|name| groups.is_empty() || groups.contains(name));
    ours.map(|name| Path::new("/dev/vfio").join(name)).collect()
}

/// Returns an error if no TPU client can be created.
pub(super) fn check(config: &Config, user: &User) -> Result<(), Error> {
    let Some(host) = TpuHost::detect(config) else {
        return if libtpu_knows(&config.root) {
            Ok(())
        } else {
            Err(Unusable::NoTpu { devices: pci::devices(&config.root).len() }.into())
        };
    };
    let environment = TpuEnvironment::from_variables(&config.tpu_variables)?;
    agree(&host, &environment)?;
    if host.nodes.is_empty() {
        return Err(Unusable::NoTpuNodes { chips: host.describe() }.into());
    }
    for node in &host.nodes {
        access::check(&config.root, node, user)?;
    }
    if environment.is_partial(host.chips) {
        // Other processes may use the remaining chips. libtpu detects conflicts.
        return Ok(());
    }
    let own = std::process::id();
    let mut scan = holders::of_files(&config.root, &host.nodes, own);
    if !environment.without_lock
        && let Some(holder) = holders::of_lock(&config.root, own)
        && scan.holders.iter().all(|known| known.pid != holder.pid)
    {
        scan.holders.push(holder);
    }
    if scan.holders.is_empty() {
        return Ok(());
    }
    Err(Unusable::TpuHeld { holders: scan.holders }.into())
}

/// Returns true if there may be chips that this program cannot recognize: a newer generation, or a
/// container that hides the PCI bus.
fn libtpu_knows(root: &Path) -> bool {
    let hidden_bus = pci::devices(root).is_empty();
    let vfio = !numbered(&root.join("dev/vfio"), "").is_empty();
    !numbered(&root.join("dev"), "accel").is_empty()
        || vfio && (hidden_bus || !google_devices(root).is_empty())
}

/// Returns an error if the environment variables contradict this host.
fn agree(host: &TpuHost, environment: &TpuEnvironment) -> Result<(), Error> {
    if let Some(kind) = &environment.accelerator_type
        && let (Some(said), Some(found)) = (kind.generation, host.generation)
        && said != found
    {
        return Err(Error::BadVariable {
            name: "TPU_ACCELERATOR_TYPE",
            value: kind.name.clone(),
            expected: format!("a kind of {found}: this host has {}", host.describe()).into(),
        });
    }
    if let Some(chips) = &environment.visible_chips
        && let Some(beyond) = chips.iter().find(|&&chip| chip >= host.chips)
    {
        return Err(Error::BadVariable {
            name: "TPU_VISIBLE_CHIPS",
            value: listed(chips),
            expected: format!("numbers below {}: chip {beyond} is not here", host.chips).into(),
        });
    }
    Ok(())
}

/// Explains libtpu's message about a device in use, which does not name the process.
pub(super) fn explain(config: &Config, message: &str) -> Option<Unusable> {
    let about_others = ["already in use", "lockfile", "resource busy", "Device or resource"];
    if !about_others.iter().any(|words| message.contains(words)) {
        return None;
    }
    let nodes = TpuHost::detect(config).map(|host| host.nodes).unwrap_or_default();
    let own = std::process::id();
    let mut scan = holders::of_files(&config.root, &nodes, own);
    scan.holders.extend(holders::of_lock(&config.root, own));
    if !scan.holders.is_empty() {
        return Some(Unusable::TpuHeld { holders: scan.holders });
    }
    let files = nodes.iter().map(|node| node.display().to_string());
    let files: Vec<String> = files.chain([holders::LOCK_FILE.to_owned()]).collect();
    Some(Unusable::HeldByUnseen { hidden: scan.hidden, files: files.join(" ") })
}
