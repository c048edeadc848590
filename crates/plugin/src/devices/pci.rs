//! Lists PCI devices from `/sys/bus/pci/devices`.

use std::fs;
use std::path::Path;

/// One function of a PCI device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PciDevice {
    /// The address, `0000:00:05.0`: domain, bus, device, function.
    pub(super) address: String,
    /// Vendor id.
    pub(super) vendor: u32,
    /// Device id.
    pub(super) device: u32,
    /// Subsystem id.
    pub(super) subsystem: Option<u32>,
    /// The device class: the upper two of three bytes.
    pub(super) class: Option<u32>,
    /// The IOMMU group, as in `/dev/vfio/GROUP`.
    pub(super) iommu_group: Option<String>,
}

impl PciDevice {
    /// Returns the address without the function. Functions of one device share it.
    pub(super) fn slot(&self) -> &str {
        self.address.rsplit_once('.').map_or(&self.address, |(slot, _)| slot)
    }
}

/// Returns all devices, ordered by address. Skips devices that disappear meanwhile or that cannot
/// be read.
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

/// Parses a line such as `0x1ae0`.
fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

/// Returns the names in a folder of the host that consist of `prefix` and a number, ordered by
/// number.
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
