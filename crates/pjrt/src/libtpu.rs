//! Environment variables that libtpu needs during initialization.
//!
//! libtpu reads the environment only in `PJRT_Plugin_Initialize`, so the variables [are
//! set](crate::environment::lend) only during that call. Variables that the user has set are not
//! changed. Measured with libtpu 0.0.51 on a machine without a TPU:
//!
//! | variable | without it, libtpu |
//! |---|---|
//! | `TPU_SKIP_MDS_QUERY` | queries the cloud's metadata server for the machine type: ten values, with 30 attempts each, one second apart |
//! | `TPU_ACCELERATOR_TYPE`, `TPU_WORKER_HOSTNAMES`, `TPU_WORKER_ID` | reports missing values on standard error |
//! | `ALLOW_MULTIPLE_LIBTPU_LOAD` | locks `/tmp/libtpu_lockfile`: a second process ends with `ABORTED` |
//! | `TPU_LOG_DIR`, `TPU_MIN_LOG_LEVEL` | writes logs to `/tmp/tpu_logs`; with only the first set, to `/tmp` |
//! | `LIBTPU_INIT_ARGS` | installs a `SIGTERM` handler that prints a stack trace and ends the process, even if the program handles the signal |
//!
//! Topologies do not depend on these values: programs can be compiled for every generation from
//! `v2` to `tpu7x`.

use std::fs;
use std::path::Path;

use crate::environment::Variable;

/// The libtpu argument that leaves signal handling to the program.
const LEAVE_SIGNALS: &str = "--install_signal_handlers=false";

/// A function that only libtpu exports. It identifies libtpu under any file name.
pub(crate) const SYMBOL: &[u8] = b"TfTpu_Initialize\0";

/// Variables for a libtpu that has no devices and only compiles.
const COMPILE_ONLY: [(&str, &str); 7] = [
    ("TPU_SKIP_MDS_QUERY", "1"),
    ("TPU_ACCELERATOR_TYPE", "v5litepod-4"),
    ("TPU_WORKER_HOSTNAMES", "localhost"),
    ("TPU_WORKER_ID", "0"),
    ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
    ("TPU_LOG_DIR", "disabled"),
    ("TPU_MIN_LOG_LEVEL", "3"),
];

/// Returns the variables to set on this host. `root` is the root of the host's file system.
pub(crate) fn variables(root: &Path) -> Vec<Variable> {
    let signals = ("LIBTPU_INIT_ARGS", LEAVE_SIGNALS);
    let compile_only = if may_have_chips(root) { &[][..] } else { &COMPILE_ONLY };
    let all = std::iter::once(&signals).chain(compile_only);
    all.map(|&(name, value)| (name, value.to_owned())).collect()
}

/// Returns true if this host may have a TPU: a device file of the kind used by TPU chips and a
/// Google PCI device exist. The PCI device can be something else; libtpu then detects it.
/// (`oxidax-plugin` knows the chips' PCI ids, for messages to users.)
fn may_have_chips(root: &Path) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let any = |folder: &str, matches: &dyn Fn(&str) -> bool| {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| matches(&entry.file_name().to_string_lossy()))
    };
    let accel = |name: &str| name.strip_prefix("accel").is_some_and(is_number);
    let of_google = |name: &str| {
        let vendor = root.join("sys/bus/pci/devices").join(name).join("vendor");
        fs::read_to_string(vendor).is_ok_and(|vendor| vendor.trim() == "0x1ae0")
    };
    (any("dev", &accel) || any("dev/vfio", &is_number)) && any("sys/bus/pci/devices", &of_google)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[(&str, &str)]) -> Vec<&'static str> {
        let root = tempfile::tempdir().expect("a folder");
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("inside")).expect("made");
            fs::write(path, content).expect("written");
        }
        variables(root.path()).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn only_signal_handling_is_set_on_a_host_with_chips() {
        let google = ("sys/bus/pci/devices/0000:00:05.0/vendor", "0x1ae0\n");
        for node in ["dev/accel0", "dev/vfio/17"] {
            assert_eq!(names(&[(node, ""), google]), ["LIBTPU_INIT_ARGS"]);
        }
    }

    #[test]
    fn a_host_without_chips_only_compiles() {
        let google = ("sys/bus/pci/devices/0000:00:05.0/vendor", "0x1ae0\n");
        let other = ("sys/bus/pci/devices/0000:00:05.0/vendor", "0x8086\n");
        for files in [
            &[][..],
            // A Google network card, which every Google Cloud virtual machine has.
            &[google, ("dev/vfio/vfio", ""), ("dev/accelerometer", "")],
            // A passed-through device of another vendor.
            &[other, ("dev/vfio/3", "")],
        ] {
            let names = names(files);
            assert!(names.contains(&"TPU_SKIP_MDS_QUERY"), "{names:?}");
            assert!(names.contains(&"ALLOW_MULTIPLE_LIBTPU_LOAD"), "{names:?}");
        }
    }
}
