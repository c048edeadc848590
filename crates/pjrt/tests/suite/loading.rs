//! Loading of plugins and creation of clients.

use std::path::Path;

use oxidax_pjrt::{Client, Code, Error, NamedValue, PjrtValue, Plugin};

use crate::plugins::{ALL, Api, client, on_each, plugin, plugin_path};

#[test]
fn a_plugin_states_its_version_and_attributes() {
    for api in ALL {
        let plugin = plugin(api);
        assert_eq!(plugin.api_version().minor, api.minor());
        assert_eq!(plugin.api_version().to_string(), format!("0.{}", api.minor()));
        let attributes = plugin.attributes().expect("attributes");
        let version = attributes.iter().find(|a| a.name == "stablehlo_current_version");
        let version = version.expect("every plugin tells its StableHLO version");
        assert!(
            matches!(&version.value, PjrtValue::Int64List(v) if v.len() == 3 && v[0] == 1),
            "{version:?}"
        );
        assert!(plugin.extensions().contains(&5), "FFI: {:?}", plugin.extensions());
    }
}

#[test]
fn the_same_file_gives_the_same_plugin() {
    let path = plugin_path(Api::V115);
    let first = Plugin::load(&path).expect("loads");
    let link = tempfile::tempdir().expect("a folder");
    let other = link.path().join("other.so");
    std::os::unix::fs::symlink(&path, &other).expect("a link");
    assert_eq!(Plugin::load(&other).expect("loads"), first);
    assert_ne!(plugin(Api::V106), first);
}

#[test]
fn files_that_are_not_plugins_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    };
    let refusal = |path: &Path| Plugin::load(path).expect_err("must be refused");

    assert!(matches!(refusal(Path::new("/nowhere/plugin.so")), Error::PluginNotFound { .. }));
    assert!(refusal(folder.path()).to_string().contains("it is a folder"));
    assert!(matches!(refusal(&file("text.so", b"not a library")), Error::NotALibrary { .. }));
    assert!(matches!(refusal(&file("empty.so", b"")), Error::NotALibrary { .. }));

    let mut foreign = std::fs::read(plugin_path(Api::V115)).expect("readable");
    foreign.truncate(4096);
    let short = file("short.so", &foreign);
    assert!(
        refusal(&short).to_string().contains("cut short: 4096 of at least"),
        "{}",
        refusal(&short)
    );
    let machine = if cfg!(target_arch = "x86_64") { 183_u16 } else { 62 };
    foreign[18..20].copy_from_slice(&machine.to_le_bytes());
    let error = refusal(&file("foreign.so", &foreign)).to_string();
    assert!(error.contains("built for") && error.contains("this machine is"), "{error}");

    // The C library is a shared library without `GetPjrtApi`.
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let libc = maps
        .lines()
        .find_map(|line| line.split_whitespace().nth(5).filter(|p| p.contains("libc.so")));
    let error = refusal(Path::new(libc.expect("libc is loaded")));
    assert!(matches!(error, Error::NotAPlugin { .. }), "{error}");
}

#[test]
fn a_client_lists_devices_and_memories() {
    on_each(|client, _| {
        assert_eq!(client.platform_name(), "cpu");
        assert!(client.is_cpu());
        assert_eq!(client.process_index(), 0);
        assert_eq!(client.addressable_devices().len(), 8);
        let device = client.device(3).expect("exists");
        assert_eq!(device.id(), 3);
        assert_eq!(device.kind(), "cpu");
        assert!(!device.debug_string().expect("described").is_empty());
        device.attributes().expect("a list, even if empty");
        let memory = device.default_memory().expect("has one");
        assert_eq!(memory.devices(), std::slice::from_ref(&device));
        assert!(client.memories().contains(&memory));
        assert_eq!(device.memory(memory.kind()).as_ref(), Some(&memory));
        assert!(device.memory("no such kind").is_none());
        assert_eq!(
            device.memory_stats().expect_err("CPUs do not count").code(),
            Some(Code::Unimplemented)
        );

        let error = client.device(77).expect_err("no such device");
        assert_eq!(
            error.to_string(),
            "device: no device has id 77; there are [0, 1, 2, 3, 4, 5, 6, 7]"
        );
        let rows = client.default_device_assignment(2, 4).expect("fits");
        assert_eq!(rows, [[0, 1, 2, 3], [4, 5, 6, 7]]);
        assert!(client.default_device_assignment(3, 3).is_err());
        assert!(client.default_device_assignment(0, 1).is_err());
        assert!(client.default_device_assignment(usize::MAX, 2).is_err());
    });
}

#[test]
fn wrong_client_options_are_errors() {
    for api in ALL {
        if api != Api::V115 {
            continue; // Older plugins ignore unknown options.
        }
        let unknown = Client::new(plugin(api), &[NamedValue::new("no_such_option", 1)]);
        let unknown = unknown.expect_err("must be refused");
        assert!(unknown.code().is_some(), "{unknown}");
        assert!(unknown.to_string().contains(&format!("(API 0.{})", api.minor())), "{unknown}");
        let mistyped = Client::new(plugin(api), &[NamedValue::new("cpu_device_count", "eight")]);
        assert!(mistyped.expect_err("must be refused").code().is_some());
    }
    // Existing clients still work.
    assert_eq!(client(Api::V115).devices().len(), 8);
}
