//! NVIDIA GPUs of this host.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::access::{self, User};
use super::pci::{self, numbered};
use super::unusable::Unusable;
use crate::config::Config;
use crate::error::Error;
use crate::search::{Origin, PluginFile};

/// NVIDIA's PCI vendor id.
const NVIDIA: u32 = 0x10de;
/// The PCI class of display controllers: the highest of three bytes.
const DISPLAY: u32 = 0x03;

/// The oldest driver for CUDA 13, the version that the pinned plugin is built for (NVIDIA's CUDA 13
/// release notes, "minor version compatibility").
pub const NEEDED_DRIVER: DriverVersion = DriverVersion(580, 0);

/// A driver version: release and update, as in `580.65`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DriverVersion(pub u32, pub u32);

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0, self.1)
    }
}

/// The GPUs of a host.
///
/// ```
/// use oxidax_plugin::{Config, devices::GpuHost};
/// assert_eq!(GpuHost::detect(&Config::bare()), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuHost {
    /// Device files of the GPUs: `/dev/nvidia0` and following, or `/dev/dxg` under WSL. The driver
    /// creates them on demand, so the list may be empty.
    pub nodes: Vec<PathBuf>,
    /// Number of GPUs that the driver lists.
    pub known_to_driver: usize,
    /// The driver's version. `None` under WSL, where the driver belongs to Windows.
    pub driver: Option<DriverVersion>,
}

impl GpuHost {
    /// Detects GPUs with a driver. Returns `None` if there are none.
    pub fn detect(config: &Config) -> Option<GpuHost> {
        let dev = config.root.join("dev");
        let mut nodes: Vec<PathBuf> =
            numbered(&dev, "nvidia").iter().map(|name| Path::new("/dev").join(name)).collect();
        if dev.join("dxg").exists() {
            nodes.push(PathBuf::from("/dev/dxg"));
        }
        let gpus = fs::read_dir(config.root.join("proc/driver/nvidia/gpus"));
        let known_to_driver = gpus.into_iter().flatten().count();
        let version = fs::read_to_string(config.root.join("proc/driver/nvidia/version"));
        let driver = version.ok().and_then(|text| driver_version(&text));
        (!nodes.is_empty() || known_to_driver != 0).then_some(GpuHost {
            nodes,
            known_to_driver,
            driver,
        })
    }
}

/// Parses the version in the driver's line: `NVRM version: NVIDIA UNIX x86_64 Kernel Module
/// 580.65.06 Sun Jul …`.
fn driver_version(text: &str) -> Option<DriverVersion> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    line.split_whitespace().find_map(|word| {
        let mut numbers = word.split('.').map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(release)), Some(Ok(update))) => Some(DriverVersion(release, update)),
            _ => None,
        }
    })
}

/// Returns an error if no GPU client can be created.
pub(super) fn check(config: &Config, user: &User) -> Result<(), Error> {
    let Some(host) = GpuHost::detect(config) else {
        let devices = pci::devices(&config.root);
        let is_gpu = |d: &&pci::PciDevice| {
            d.vendor == NVIDIA && d.class.is_some_and(|class| class >> 16 == DISPLAY)
        };
        return Err(match devices.iter().filter(is_gpu).count() {
            0 => Unusable::NoGpu { devices: devices.len() },
            gpus => Unusable::NoGpuDriver { gpus },
        }
        .into());
    };
    let control = PathBuf::from("/dev/nvidiactl");
    for node in host.nodes.iter().chain([&control]) {
        access::check(&config.root, node, user)?;
    }
    Ok(())
}

/// Returns an error if the driver is too old for a CUDA 13 plugin. These are the pinned plugin and
/// JAX's, recognized by its folder. The requirements of other plugins are unknown.
pub(super) fn check_driver(plugin: &PluginFile, config: &Config) -> Result<(), Unusable> {
    let path = plugin.path.to_string_lossy();
    if plugin.origin != Origin::Pinned && !path.contains("xla_cuda13") {
        return Ok(());
    }
    match GpuHost::detect(config).and_then(|host| host.driver) {
        Some(found) if found < NEEDED_DRIVER => {
            Err(Unusable::OldGpuDriver { found, needed: NEEDED_DRIVER })
        }
        _ => Ok(()),
    }
}
