//! The supported platforms, and the choice among those of this host.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::config::Config;
use crate::devices::{GpuHost, TpuHost};
use crate::error::Error;

/// A kind of device that a PJRT plugin drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Platform {
    /// The host's own processor.
    Cpu,
    /// Google's tensor processing units.
    Tpu,
    /// NVIDIA GPUs.
    Cuda,
}

impl Platform {
    /// All platforms, in the order in which messages list them.
    pub const ALL: [Platform; 3] = [Platform::Cpu, Platform::Tpu, Platform::Cuda];

    /// Returns the name used in settings and messages: `cpu`, `tpu` or `cuda`.
    ///
    /// ```
    /// assert_eq!(oxidax_plugin::Platform::Tpu.name(), "tpu");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Platform::Cpu => "cpu",
            Platform::Tpu => "tpu",
            Platform::Cuda => "cuda",
        }
    }

    /// Returns the environment variable that sets this platform's plugin file.
    pub fn variable(self) -> &'static str {
        match self {
            Platform::Cpu => "OXIDAX_PLUGIN_CPU",
            Platform::Tpu => "OXIDAX_PLUGIN_TPU",
            Platform::Cuda => "OXIDAX_PLUGIN_CUDA",
        }
    }

    /// Returns the platform contained in a plugin's file name, if any.
    ///
    /// ```
    /// use oxidax_plugin::Platform;
    /// # use std::path::Path;
    /// assert_eq!(Platform::of_file_name(Path::new("/opt/libtpu.so")), Some(Platform::Tpu));
    /// assert_eq!(Platform::of_file_name(Path::new("plugin.so")), None);
    /// ```
    pub fn of_file_name(path: &Path) -> Option<Platform> {
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        let words = [
            ("tpu", Platform::Tpu),
            ("cuda", Platform::Cuda),
            ("gpu", Platform::Cuda),
            ("cpu", Platform::Cpu),
        ];
        words.into_iter().find(|(word, _)| name.contains(word)).map(|(_, platform)| platform)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Platform {
    type Err = Error;

    fn from_str(text: &str) -> Result<Platform, Error> {
        Platform::ALL
            .into_iter()
            .find(|platform| platform.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| Error::UnknownPlatform { name: text.to_owned() })
    }
}

/// The chosen platform and the reason. A platform selected by the user is never replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Selected by the caller or by `OXIDAX_PLATFORM`.
    Named(Platform),
    /// Detected: this host has such a device, or, for the CPU, no other device.
    Detected(Platform),
}

impl Choice {
    /// Returns the platform without the reason.
    pub fn platform(self) -> Platform {
        match self {
            Choice::Named(platform) | Choice::Detected(platform) => platform,
        }
    }
}

/// Chooses the platform: the caller's, else that of `OXIDAX_PLATFORM`, else TPU if this host has
/// one, else CUDA if it has an NVIDIA GPU, else CPU.
///
/// ```
/// use oxidax_plugin::{Choice, Config, Platform, choose_platform};
/// let config = Config::bare();
/// assert_eq!(choose_platform(Some(Platform::Cuda), &config), Choice::Named(Platform::Cuda));
/// ```
pub fn choose_platform(named: Option<Platform>, config: &Config) -> Choice {
    if let Some(platform) = named.or(config.platform) {
        return Choice::Named(platform);
    }
    let detected = if TpuHost::detect(config).is_some_and(|host| !host.nodes.is_empty()) {
        Platform::Tpu
    } else if GpuHost::detect(config).is_some() {
        Platform::Cuda
    } else {
        Platform::Cpu
    };
    Choice::Detected(detected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, Config) {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let config = Config { root: root.path().to_owned(), ..Config::bare() };
        (root, config)
    }

    #[test]
    fn a_bare_host_has_the_cpu() {
        let (_root, config) = host(&[("dev/null", ""), ("dev/accel/x", ""), ("dev/nvidiactl", "")]);
        assert_eq!(choose_platform(None, &config), Choice::Detected(Platform::Cpu));
    }

    #[test]
    fn tpus_precede_gpus_and_are_found_behind_vfio() {
        let vendor = ("sys/bus/pci/devices/0000:00:05.0/vendor", "0x1ae0\n");
        let device = ("sys/bus/pci/devices/0000:00:05.0/device", "0x0063\n");
        for node in ["dev/accel0", "dev/vfio/3"] {
            let (_root, config) = host(&[(node, ""), vendor, device, ("dev/nvidia0", "")]);
            assert_eq!(choose_platform(None, &config), Choice::Detected(Platform::Tpu));
        }
    }

    #[test]
    fn vfio_of_another_device_is_not_a_tpu() {
        // A device of another vendor, and the network card of every Google VM.
        for (vendor, device) in [("0x8086\n", "0x0063\n"), ("0x1ae0\n", "0x0042\n")] {
            let vendor = ("sys/bus/pci/devices/0000:00:05.0/vendor", vendor);
            let device = ("sys/bus/pci/devices/0000:00:05.0/device", device);
            let (_root, config) = host(&[("dev/vfio/3", ""), ("dev/accel0", ""), vendor, device]);
            assert_eq!(choose_platform(None, &config), Choice::Detected(Platform::Cpu));
        }
    }

    #[test]
    fn a_tpu_without_device_files_is_not_chosen() {
        let vendor = ("sys/bus/pci/devices/0000:00:05.0/vendor", "0x1ae0\n");
        let device = ("sys/bus/pci/devices/0000:00:05.0/device", "0x0063\n");
        let (_root, config) = host(&[vendor, device]);
        assert_eq!(choose_platform(None, &config), Choice::Detected(Platform::Cpu));
    }

    #[test]
    fn a_gpu_shows_in_dev_or_in_proc() {
        for node in ["dev/nvidia0", "proc/driver/nvidia/gpus/0000:01:00.0/information"] {
            let (_root, config) = host(&[(node, "")]);
            assert_eq!(choose_platform(None, &config), Choice::Detected(Platform::Cuda));
        }
    }

    #[test]
    fn the_caller_precedes_the_variable_and_the_variable_precedes_the_host() {
        let (_root, mut config) = host(&[("dev/nvidia0", "")]);
        config.platform = Some(Platform::Cpu);
        assert_eq!(choose_platform(None, &config), Choice::Named(Platform::Cpu));
        let choice = choose_platform(Some(Platform::Tpu), &config);
        assert_eq!(choice, Choice::Named(Platform::Tpu));
    }

    #[test]
    fn an_unknown_name_lists_the_valid_ones() {
        let error = "rocm".parse::<Platform>().unwrap_err().to_string();
        assert!(error.contains("rocm") && error.contains("cpu, tpu, cuda"), "{error}");
    }
}
