//! The PCI bus, as the kernel shows it in `/sys/bus/pci/devices`.

use std::fs;
use std::path::Path;

/// One function of a device on the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PciDevice {
    /// `0000:00:05.0`: domain, bus, device, function.
    pub(super) address: String,
    /// Who made it.
    pub(super) vendor: u32,
    /// Which of the vendor's devices it is.
    pub(super) device: u32,
    /// Which variant of it.
    pub(super) subsystem: Option<u32>,
    /// What kind of device: the class in the upper two bytes of three.
    pub(super) class: Option<u32>,
    /// The group by which it is handed to programs, as in `/dev/vfio/GROUP`.
    pub(super) iommu_group: Option<String>,
}

impl PciDevice {
    /// The address without the function: parts of one device share it.
    pub(super) fn slot(&self) -> &str {
        self.address.rsplit_once('.').map_or(&self.address, |(slot, _)| slot)
    }
}

/// All devices, by address. A device that disappears meanwhile, or that says nothing of itself, is
/// passed over.
pub(super) fn devices(root: &Path) -> Vec<PciDevice> {
    let folder = root.join("sys/bus/pci/devices");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PciDevice> = entries
        .filter_map(|entry| {
            let path = entry.path();
            let number = |name: &str| hexadecimal(&fs::read_to_string(path.join(name)).ok()?);
            let group = fs::read_link(path.join("iommu_group")).ok();
            Some(PciDevice {
                address: entry.file_name().to_string_lossy().into_owned(),
                vendor: number("vendor")?,
                device: number("device")?,
                subsystem: number("subsystem_device"),
                class: number("class"),
                iommu_group: group
                    .and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned())),
            })
        })
        .collect();
    found.sort_by(|a, b| a.address.cmp(&b.address));
    found
}

/// `0x1ae0` and a line's end.
fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

/// The names in a folder of the host that are `prefix` and then a number, by number.
pub(super) fn numbered(folder: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<(u64, String)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let number = name.strip_prefix(prefix)?;
            let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            Some((number.parse().ok().filter(|_| digits)?, name))
        })
        .collect();
    names.sort();
    names.into_iter().map(|(_, name)| name).collect()
}
