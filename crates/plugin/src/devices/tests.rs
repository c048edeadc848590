//! Tests of detection and of its error messages with fake file trees.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use super::access::User;
use super::*;
use crate::platform::{Choice, choose_platform};
use crate::search::Origin;

const ROOT: User = User { uid: 0, groups: Vec::new() };

/// A fake host, deleted on drop.
struct Host {
    root: tempfile::TempDir,
    config: Config,
}

impl Host {
    fn new() -> Host {
        let root = tempfile::tempdir().unwrap();
        let config = Config { root: root.path().to_owned(), ..Config::bare() };
        Host { root, config }
    }

    /// A TPU VM with four chips assigned through VFIO. It also has the network card and the disk of
    /// every Google VM.
    fn v5e() -> Host {
        let host = Host::new();
        host.device("0000:00:03.0", 0x1ae0, 0x0042, &[]);
        host.device("0000:00:04.0", 0x1ae0, 0x001f, &[]);
        for chip in 5..9 {
            host.device(&format!("0000:00:0{chip}.0"), 0x1ae0, 0x0063, &[]);
            host.link(
                &format!("sys/bus/pci/devices/0000:00:0{chip}.0/iommu_group"),
                &format!("../{chip}"),
            );
            host.file(&format!("dev/vfio/{chip}"), "");
        }
        host.file("dev/vfio/vfio", "");
        host
    }

    /// An older TPU VM with `/dev/accelN` device files.
    fn v4() -> Host {
        let host = Host::new();
        for chip in 0..4 {
            host.device(&format!("0000:00:0{}.0", chip + 5), 0x1ae0, 0x005e, &[]);
            host.file(&format!("dev/accel{chip}"), "");
        }
        host
    }

    fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    fn mode(&self, path: &str, mode: u32) {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(self.root.path().join(path), permissions).unwrap();
    }

    fn device(&self, address: &str, vendor: u32, device: u32, more: &[(&str, &str)]) {
        let folder = format!("sys/bus/pci/devices/{address}");
        self.file(&format!("{folder}/vendor"), format!("0x{vendor:04x}\n"));
        self.file(&format!("{folder}/device"), format!("0x{device:04x}\n"));
        for (name, text) in more {
            self.file(&format!("{folder}/{name}"), text);
        }
    }

    /// Adds a process with one open file. `flags` are the flags of its `open` call.
    fn process(&self, pid: u32, command: &str, opened: &str, flags: &str) {
        self.file(&format!("proc/{pid}/cmdline"), command);
        self.file(&format!("proc/{pid}/fdinfo/7"), format!("pos:\t0\nflags:\t{flags}\n"));
        self.link(&format!("proc/{pid}/fd/7"), opened);
    }

    /// Adds libtpu's lock to the list of locks.
    fn lock(&self, pid: &str) {
        self.file("tmp/libtpu_lockfile", "");
        let meta = fs::metadata(self.root.path().join("tmp/libtpu_lockfile")).unwrap();
        let (major, minor) = (meta.dev() >> 8 & 0xfff, meta.dev() & 0xff);
        let line =
            format!("POSIX  ADVISORY  WRITE {pid} {major:02x}:{minor:02x}:{} 0 EOF", meta.ino());
        self.file("proc/locks", format!("1: FLOCK  ADVISORY  WRITE 1 00:05:1 0 EOF\n2: {line}\n"));
    }

    fn set(&mut self, name: &str, value: &str) {
        self.config.tpu_variables.insert(name.to_owned(), value.to_owned());
    }

    fn tpu(&self, user: &User) -> Result<(), String> {
        tpu::check(&self.config, user).map_err(|error| error.to_string())
    }

    fn gpu(&self, user: &User) -> Result<(), String> {
        gpu::check(&self.config, user).map_err(|error| error.to_string())
    }
}

#[test]
fn chips_are_counted_and_named() {
    let found = TpuHost::detect(&Host::v5e().config).unwrap();
    assert_eq!((found.generation, found.chips), (Some(Generation::V5e), 4));
    assert_eq!(
        found.nodes,
        [5, 6, 7, 8].map(|group| Path::new("/dev/vfio").join(group.to_string()))
    );
    let found = TpuHost::detect(&Host::v4().config).unwrap();
    assert_eq!((found.generation, found.chips), (Some(Generation::V4), 4));
    assert_eq!(found.nodes[3], Path::new("/dev/accel3"));
    for host in [Host::v5e(), Host::v4()] {
        assert_eq!(choose_platform(None, &host.config), Choice::Detected(Platform::Tpu));
        assert_eq!(host.tpu(&ROOT), Ok(()));
    }
}

#[test]
fn the_subsystem_distinguishes_v2_from_v3_and_functions_of_one_device_are_one_chip() {
    for (subsystem, generation) in [("0x004e\n", Generation::V2), ("0x004f\n", Generation::V3)] {
        let host = Host::new();
        host.device("0000:00:05.0", 0x1ae0, 0x0027, &[("subsystem_device", subsystem)]);
        assert_eq!(TpuHost::detect(&host.config).unwrap().generation, Some(generation));
    }
    let host = Host::new();
    for address in ["0000:00:05.0", "0000:00:05.1", "0000:00:06.0", "0000:00:06.1"] {
        host.device(address, 0x1ae0, 0x0076, &[]);
    }
    let found = TpuHost::detect(&host.config).unwrap();
    assert_eq!((found.generation, found.chips), (Some(Generation::Tpu7x), 2));
}

#[test]
fn a_laptop_gets_an_error_at_once() {
    let host = Host::new();
    host.device("0000:00:02.0", 0x8086, 0x9a49, &[("class", "0x030000\n")]);
    let error = host.tpu(&ROOT).unwrap_err();
    assert!(error.starts_with("this host has no TPU: none of its 1 PCI devices is one"), "{error}");
    assert!(
        error.contains("OXIDAX_PLATFORM=cpu") && error.contains("docs/cloud-tpu.md"),
        "{error}"
    );
    // The network card of every Google VM is not a TPU.
    host.device("0000:00:03.0", 0x1ae0, 0x0042, &[]);
    host.file("dev/vfio/3", "");
    assert!(host.tpu(&ROOT).unwrap_err().contains("none of its 2 PCI devices"));
}

#[test]
fn unknown_devices_are_left_to_libtpu() {
    let newer = Host::new();
    newer.device("0000:00:05.0", 0x1ae0, 0x0099, &[]);
    newer.file("dev/vfio/5", "");
    assert_eq!(newer.tpu(&ROOT), Ok(()));
    // But the TPU is not chosen by default.
    assert_eq!(choose_platform(None, &newer.config), Choice::Detected(Platform::Cpu));
    let hidden_bus = Host::new();
    hidden_bus.file("dev/accel0", "");
    assert_eq!(hidden_bus.tpu(&ROOT), Ok(()));
}

#[test]
fn chips_without_device_files_point_to_the_container() {
    let host = Host::v5e();
    fs::remove_dir_all(host.root.path().join("dev")).unwrap();
    let error = host.tpu(&ROOT).unwrap_err();
    assert!(error.starts_with("this host has 4 TPU v5e chips, but no device file"), "{error}");
    assert!(error.contains("docker run --privileged"), "{error}");
}

#[test]
fn a_closed_device_file_names_its_group() {
    let host = Host::v4();
    let gid = fs::metadata(host.root.path().join("dev/accel1")).unwrap().gid();
    host.file("etc/group", format!("daemon:x:{}:\ntpu:x:{gid}:ada\n", gid + 1));
    host.mode("dev/accel0", 0o666);
    host.mode("dev/accel1", 0o660);
    let stranger = User { uid: 54321, groups: vec![gid + 7] };
    let error = host.tpu(&stranger).unwrap_err();
    assert!(
        error.starts_with("cannot open /dev/accel1: permission denied (mode 0660, owner "),
        "{error}"
    );
    assert!(error.contains(&format!("group tpu ({gid}); you are user 54321")), "{error}");
    assert!(error.contains("sudo"), "{error}");
    for node in ["dev/accel2", "dev/accel3"] {
        host.mode(node, 0o660);
    }
    assert_eq!(host.tpu(&User { uid: 54321, groups: vec![gid] }), Ok(()));
    host.mode("dev/accel1", 0o600);
    let error = host.tpu(&User { uid: 54321, groups: vec![gid] }).unwrap_err();
    assert!(error.contains("`sudo chmod a+rw /dev/accel1`"), "{error}");
}

#[test]
fn the_process_that_holds_a_chip_is_named() {
    let host = Host::v5e();
    host.process(4711, "python3\0train.py\0--steps\x1b=9\0", "/dev/vfio/6", "0100002");
    host.process(1200, "monitor\0", "/dev/vfio/5", "0100000");
    host.process(1201, "editor\0", "/home/ada/vfio/5", "0100002");
    let error = host.tpu(&ROOT).unwrap_err();
    assert!(
        error.starts_with(
            "the TPU is in use: process 4711 (`python3 train.py --steps =9`) holds /dev/vfio/6\n"
        ),
        "{error}"
    );
    assert!(error.contains("`kill 4711`") && error.contains("TPU_VISIBLE_CHIPS"), "{error}");
    // This process's own open files do not count.
    let host = Host::v5e();
    host.process(std::process::id(), "this\0", "/dev/vfio/6", "0100002");
    assert_eq!(host.tpu(&ROOT), Ok(()));
}

#[test]
fn the_lock_names_processes_whose_files_are_closed() {
    let mut host = Host::v5e();
    host.lock("815");
    host.file("proc/815/cmdline", "serve\0");
    let error = host.tpu(&ROOT).unwrap_err();
    let expected = "the TPU is in use: process 815 (`serve`) holds /tmp/libtpu_lockfile\n";
    assert!(error.starts_with(expected), "{error}");
    host.set("ALLOW_MULTIPLE_LIBTPU_LOAD", "1");
    assert_eq!(host.tpu(&ROOT), Ok(()));
    // A waiting process and a process of another container are not reported as holders.
    for pid in ["-> 815", "0", "-1"] {
        let host = Host::v5e();
        host.lock(pid);
        assert_eq!(host.tpu(&ROOT), Ok(()), "{pid}");
    }
}

#[test]
fn processes_that_share_the_host_ignore_each_other() {
    let mut host = Host::v5e();
    host.process(4711, "python3\0", "/dev/vfio/6", "0100002");
    host.set("TPU_VISIBLE_CHIPS", "2,3");
    assert_eq!(host.tpu(&ROOT), Ok(()));
    host.set("TPU_VISIBLE_CHIPS", "2,4");
    let error = host.tpu(&ROOT).unwrap_err();
    assert!(error.starts_with("TPU_VISIBLE_CHIPS is `2, 4`, expected numbers below 4"), "{error}");
}

#[test]
fn a_type_of_another_host_is_reported() {
    let mut host = Host::v4();
    host.set("TPU_ACCELERATOR_TYPE", "v5litepod-4");
    let error = host.tpu(&ROOT).unwrap_err();
    assert!(error.contains("expected a kind of v4: this host has 4 TPU v4 chips"), "{error}");
    host.set("TPU_ACCELERATOR_TYPE", "v4-8");
    assert_eq!(host.tpu(&ROOT), Ok(()));
}

#[test]
fn messages_of_libtpu_are_explained() {
    let host = Host::v4();
    // A process of another user, whose list of files is not readable.
    host.file("proc/99/cmdline", "secret\0");
    let complaint = "Internal error when accessing libtpu multi-process lockfile.";
    let unseen = explain(Platform::Tpu, &host.config, complaint).unwrap();
    assert_eq!(
        unseen.to_string(),
        "the TPU is in use by a process that cannot be seen: the files of 1 processes are closed \
         to this user\n  \
         help: `sudo lsof -w /dev/accel0 /dev/accel1 /dev/accel2 /dev/accel3 /tmp/libtpu_lockfile` \
         names it; if it names nobody, a process left the lock behind: `sudo rm \
         /tmp/libtpu_lockfile`"
    );
    host.lock("815");
    let seen = explain(Platform::Tpu, &host.config, complaint).unwrap().to_string();
    assert!(seen.contains("process 815"), "{seen}");
    assert_eq!(explain(Platform::Tpu, &host.config, "out of memory"), None);
}

#[test]
fn gpus_need_a_recent_driver() {
    let host = Host::new();
    assert!(host.gpu(&ROOT).unwrap_err().starts_with("this host has no NVIDIA GPU: none of its 0"));
    host.device("0000:01:00.0", 0x10de, 0x2335, &[("class", "0x030200\n")]);
    // The sound device of the graphics card.
    host.device("0000:01:00.1", 0x10de, 0x22bb, &[("class", "0x040300\n")]);
    let error = host.gpu(&ROOT).unwrap_err();
    assert!(error.starts_with("this host has 1 NVIDIA display devices, but no driver"), "{error}");
    host.file("dev/nvidia0", "");
    let version = |text: &str| {
        let line = format!(
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {text}  Sun Jul 27\nGCC version: \
             12.2.0\n"
        );
        host.file("proc/driver/nvidia/version", line);
    };
    version("550.54.15");
    assert_eq!(host.gpu(&ROOT), Ok(()));
    let plugin = |folder: &str, origin| PluginFile {
        sha256: None,
        platform: Platform::Cuda,
        path: format!("/env/jax_plugins/{folder}/xla_cuda_plugin.so").into(),
        origin,
    };
    let packages = Origin::SitePackages;
    for known in [plugin("xla_cuda13", packages), plugin("x", Origin::Pinned)] {
        let error = check_plugin(&known, &host.config).unwrap_err().to_string();
        let expected = "the NVIDIA driver is 550.54, CUDA 13 needs 580.00 or later";
        assert!(error.starts_with(expected), "{error}");
    }
    // The driver is recent enough for CUDA 12.
    assert!(check_plugin(&plugin("xla_cuda12", packages), &host.config).is_ok());
    version("580.65.06");
    assert!(check_plugin(&plugin("xla_cuda13", packages), &host.config).is_ok());
    assert_eq!(GpuHost::detect(&host.config).unwrap().driver, Some(DriverVersion(580, 65)));
    host.mode("dev/nvidia0", 0o600);
    let error = host.gpu(&User { uid: 54321, groups: Vec::new() }).unwrap_err();
    assert!(error.starts_with("cannot open /dev/nvidia0: permission denied (mode 0600"), "{error}");
}
