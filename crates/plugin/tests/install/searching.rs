//! Tests of the search order, and of the errors if no plugin is found.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use oxidax_plugin::{
    Error, Origin, Platform, Request, Silent, find, find_or_install, find_usable, install_file,
    pins,
};

use crate::elf::plugin_library;
use crate::machine::{Machine, Notes};

fn touch(path: PathBuf) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "").unwrap();
    path
}

fn found(machine: &Machine, platform: Platform) -> Option<(PathBuf, Origin)> {
    let plugin = find(platform, &machine.config, &mut Silent).unwrap();
    plugin.map(|plugin| (plugin.path, plugin.origin))
}

fn only(platform: Platform) -> Request {
    Request { platform: Some(platform), path: None }
}

#[test]
fn locations_are_searched_in_order() {
    let mut machine = Machine::new();
    assert_eq!(found(&machine, Platform::Tpu), None);

    let package = "root/usr/lib/python3.11/site-packages/libtpu/libtpu.so";
    let package = touch(machine.path(package));
    assert_eq!(found(&machine, Platform::Tpu), Some((package, Origin::SitePackages)));

    let file = touch(machine.path("downloads/libtpu.so"));
    fs::write(&file, plugin_library()).unwrap();
    let local = install_file(&file, None, &machine.config, &mut Silent).unwrap();
    assert_eq!(found(&machine, Platform::Tpu), Some((local, Origin::Local)));

    let listed = touch(machine.path("listed/libtpu.so"));
    machine.config.plugin_library_path = vec![machine.path("nowhere"), machine.path("listed")];
    let list = Origin::Variable("PJRT_PLUGIN_LIBRARY_PATH");
    assert_eq!(found(&machine, Platform::Tpu), Some((listed, list)));

    let theirs = touch(machine.path("theirs.so"));
    machine.config.tpu_library_path = Some(theirs.clone());
    let variable = Origin::Variable("TPU_LIBRARY_PATH");
    assert_eq!(found(&machine, Platform::Tpu), Some((theirs, variable)));

    let ours = touch(machine.path("ours.so"));
    machine.config.plugin_paths.insert(Platform::Tpu, ours.clone());
    let variable = Origin::Variable("OXIDAX_PLUGIN_TPU");
    assert_eq!(found(&machine, Platform::Tpu), Some((ours, variable)));

    let given = touch(machine.path("given.so"));
    let request = Request { platform: Some(Platform::Tpu), path: Some(given.clone()) };
    let plugin = find_or_install(&request, &machine.config, &mut Silent).unwrap();
    assert_eq!((plugin.path, plugin.origin), (given, Origin::Caller));
}

#[test]
fn a_wrong_path_is_an_error_that_names_its_origin() {
    let mut machine = Machine::new();
    let wrong = machine.path("no/such/plugin.so");
    let request = Request { platform: Some(Platform::Cpu), path: Some(wrong.clone()) };
    let text = find_or_install(&request, &machine.config, &mut Silent).unwrap_err().to_string();
    assert!(text.starts_with("the caller names the cpu plugin "), "{text}");
    assert!(text.contains(&wrong.display().to_string()), "{text}");

    for wrong in [wrong, machine.path("bin")] {
        machine.config.plugin_paths.insert(Platform::Cpu, wrong);
        let error = find_or_install(&only(Platform::Cpu), &machine.config, &mut Silent);
        let error = error.unwrap_err();
        assert!(matches!(error, Error::MissingPlugin { .. }), "{error}");
        assert!(error.to_string().starts_with("OXIDAX_PLUGIN_CPU names"), "{error}");
    }
    assert!(machine.calls().is_empty());
}

#[test]
fn a_file_name_in_a_listed_folder_must_contain_plugin_and_platform() {
    let mut machine = Machine::new();
    for name in ["libcpu.so", "pjrt_notes_cpu.txt", "pjrt_plugin.so"] {
        touch(machine.path("listed").join(name));
    }
    machine.config.plugin_library_path = vec![machine.path("listed")];
    assert_eq!(found(&machine, Platform::Cpu), None);
    let good = touch(machine.path("listed/pjrt_c_api_cpu_plugin.so"));
    assert_eq!(found(&machine, Platform::Cpu).unwrap().0, good);
    assert_eq!(found(&machine, Platform::Cuda), None);
}

#[test]
fn a_listed_file_is_used_unless_its_name_contains_another_platform() {
    let mut machine = Machine::new();
    let (tpu, plain) = (touch(machine.path("libtpu.so")), touch(machine.path("x.so")));
    machine.config.plugin_library_path = vec![tpu, plain.clone()];
    assert_eq!(found(&machine, Platform::Cpu).unwrap().0, plain);
}

#[test]
fn the_virtual_environment_comes_first_and_newer_pythons_before_older() {
    let mut machine = Machine::new();
    let so = "site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so";
    touch(machine.path("root/usr/lib/python3.9").join(so));
    let newer = touch(machine.path("root/usr/lib/python3.13").join(so));
    assert_eq!(found(&machine, Platform::Cuda).unwrap().0, newer);
    let in_environment = touch(machine.path("venv/lib/python3.10").join(so));
    machine.config.virtual_env = Some(machine.path("venv"));
    assert_eq!(found(&machine, Platform::Cuda).unwrap().0, in_environment);
}

#[test]
fn cuda_13_is_preferred_to_cuda_12() {
    let machine = Machine::new();
    let folder = machine.path("root/usr/lib/python3.12/site-packages/jax_plugins");
    let older = touch(folder.join("xla_cuda12/xla_cuda_plugin.so"));
    assert_eq!(found(&machine, Platform::Cuda).unwrap().0, older);
    let newer = touch(folder.join("xla_cuda13/xla_cuda_plugin.so"));
    assert_eq!(found(&machine, Platform::Cuda).unwrap().0, newer);
}

#[test]
fn python_runs_at_most_once() {
    let machine = Machine::new();
    let plugin = touch(machine.path("odd/place/libtpu/libtpu.so"));
    machine.behave(r#"echo "$folder/../odd/place""#);
    for _ in 0..3 {
        let path = found(&machine, Platform::Tpu).unwrap().0;
        assert_eq!(path.canonicalize().unwrap(), plugin);
        assert_eq!(found(&machine, Platform::Cuda), None);
    }
    assert_eq!(machine.calls().len(), 1);
}

#[test]
fn a_cpu_package_counts_only_if_it_is_the_pinned_build() {
    let machine = Machine::new();
    let path = machine.path("root/usr/lib/python3.11/site-packages").join(pins::CPU.member);
    touch(path.clone());
    assert_eq!(found(&machine, Platform::Cpu), None);
    // A sparse file of that size: only the size is checked.
    File::create(&path).unwrap().set_len(pins::CPU.library_size).unwrap();
    assert_eq!(found(&machine, Platform::Cpu).unwrap().0, path);
}

#[test]
fn a_failed_search_lists_every_location_and_the_command() {
    let machine = Machine::new();
    let error = find_or_install(&only(Platform::Tpu), &machine.config, &mut Silent).unwrap_err();
    let text = error.to_string();
    for part in [
        "no tpu plugin found",
        "OXIDAX_PLUGIN_TPU: not set",
        "TPU_LIBRARY_PATH: not set",
        "PJRT_PLUGIN_LIBRARY_PATH: not set",
        "libtpu-0.0.51/libtpu.so",
        "site-packages",
        "`oxidax plugin install tpu`",
        "195.3 MiB",
        "Google Cloud Platform Terms of Service",
    ] {
        assert!(text.contains(part), "`{part}` is missing from: {text}");
    }
    let fetched = machine.calls().iter().any(|call| call.contains("download"));
    assert!(!fetched, "{:?}", machine.calls());
}

#[test]
fn on_another_host_the_error_names_the_plugin_variable() {
    let mut machine = Machine::new();
    machine.config.host = ("macos".to_owned(), "aarch64".to_owned());
    let error = find_or_install(&only(Platform::Cpu), &machine.config, &mut Silent).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("is for linux x86_64, this host is macos aarch64"), "{text}");
    assert!(text.contains("oxidax plugin install PATH"), "{text}");
}

#[test]
fn aarch64_linux_wheel_is_installed_on_request_only() {
    let mut machine = Machine::new();
    machine.config.host = ("linux".to_owned(), "aarch64".to_owned());
    let error = find_or_install(&only(Platform::Cpu), &machine.config, &mut Silent).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("`oxidax plugin install cpu-aarch64` installs xla-cpu-pjrt==0.0.1"),
        "{text}"
    );
    assert!(text.contains("untested on this architecture"), "{text}");
}

#[test]
fn only_a_detected_platform_falls_back_with_a_message() {
    let mut machine = Machine::new();
    touch(machine.path("root/dev/nvidia0"));
    let cpu = touch(machine.path("cpu.so"));
    machine.config.plugin_paths.insert(Platform::Cpu, cpu.clone());

    let mut notes = Notes::default();
    let plugin = find_or_install(&Request::default(), &machine.config, &mut notes).unwrap();
    assert_eq!((plugin.platform, plugin.path), (Platform::Cpu, cpu));
    assert!(notes.0[0].contains("`oxidax plugin install cuda`"), "{:?}", notes.0);

    machine.config.platform = Some(Platform::Cuda);
    let error = find_or_install(&Request::default(), &machine.config, &mut notes).unwrap_err();
    assert!(matches!(error, Error::NotFound { platform: Platform::Cuda, .. }), "{error}");
}

#[test]
fn device_errors_precede_plugin_errors() {
    let mut machine = Machine::new();
    let usable = |machine: &Machine, notes: &mut Notes| {
        let found = find_usable(&Request::default(), &machine.config, notes);
        found.map_err(|error| error.to_string())
    };
    let mut notes = Notes::default();
    machine.config.platform = Some(Platform::Tpu);
    let error = usable(&machine, &mut notes).unwrap_err();
    assert!(error.starts_with("this host has no TPU"), "{error}");

    touch(machine.path("root/dev/accel0"));
    let device = machine.path("root/sys/bus/pci/devices/0000:00:05.0");
    fs::create_dir_all(&device).unwrap();
    fs::write(device.join("vendor"), "0x1ae0\n").unwrap();
    fs::write(device.join("device"), "0x005e\n").unwrap();
    let error = usable(&machine, &mut notes).unwrap_err();
    assert!(error.starts_with("no tpu plugin found; looked at:"), "{error}");
    let help = "`oxidax plugin install tpu` installs libtpu==0.0.51 (195.3 MiB to download, \
                licence: Google Cloud";
    assert!(error.contains(help), "{error}");

    // A detected chip that another process uses does not prevent the use of the CPU if libtpu is
    // missing.
    let process = machine.path("root/proc/4711");
    fs::create_dir_all(process.join("fd")).unwrap();
    std::os::unix::fs::symlink("/dev/accel0", process.join("fd/3")).unwrap();
    let cpu = touch(machine.path("cpu.so"));
    machine.config.plugin_paths.insert(Platform::Cpu, cpu.clone());
    machine.config.platform = None;
    assert_eq!(usable(&machine, &mut notes).unwrap().path, cpu);
    // With libtpu installed it is an error: a busy TPU is not silently replaced by the CPU.
    machine.config.tpu_library_path = Some(touch(machine.path("libtpu.so")));
    let error = usable(&machine, &mut notes).unwrap_err();
    assert!(error.starts_with("the TPU is in use: process 4711 holds /dev/accel0"), "{error}");
    // Compiling for TPUs requires neither.
    assert!(found(&machine, Platform::Tpu).is_some());
}

#[test]
fn a_path_without_a_platform_uses_its_file_name_or_fails() {
    let machine = Machine::new();
    let request = |path: &Path| Request { platform: None, path: Some(path.to_owned()) };
    let cuda = touch(machine.path("xla_cuda_plugin.so"));
    let plugin = find_or_install(&request(&cuda), &machine.config, &mut Silent).unwrap();
    assert_eq!(plugin.platform, Platform::Cuda);
    let plain = touch(machine.path("plain.so"));
    let error = find_or_install(&request(&plain), &machine.config, &mut Silent).unwrap_err();
    assert!(matches!(error, Error::PlatformUnclear { .. }), "{error}");
}
