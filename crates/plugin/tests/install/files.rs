//! Tests of installation from local files.

use std::fs;

use oxidax_plugin::{Error, Origin, Platform, Silent, find, install_file, pins, reinstall_file};

use crate::elf::{HERE_AND_ELSEWHERE, elf, plugin_library};
use crate::machine::Machine;

#[test]
fn a_local_plugin_takes_precedence() {
    let machine = Machine::new();
    let file = machine.path("pjrt_c_api_tpu_plugin.so");
    fs::write(&file, plugin_library()).unwrap();
    let path = install_file(&file, None, &machine.config, &mut Silent).unwrap();
    let found = find(Platform::Tpu, &machine.config, &mut Silent).unwrap().unwrap();
    assert_eq!((&found.path, found.origin), (&path, Origin::Local));
    // Callers that cache compiled programs need not hash the file again.
    let record = fs::read_to_string(path.with_extension("so.verified")).unwrap();
    assert_eq!(found.sha256.as_deref(), record.split_whitespace().next());
    assert!(found.sha256.is_some_and(|hash| hash.len() == 64));
    assert_eq!(find(Platform::Cpu, &machine.config, &mut Silent).unwrap(), None);
}

#[test]
fn a_local_plugin_is_replaced_only_by_a_reinstallation() {
    let machine = Machine::new();
    let (first, second) = (machine.path("first_cpu.so"), machine.path("second_cpu.so"));
    for file in [&first, &second] {
        fs::write(file, plugin_library()).unwrap();
    }
    let old = install_file(&first, None, &machine.config, &mut Silent).unwrap();
    let error = install_file(&second, None, &machine.config, &mut Silent).unwrap_err();
    assert!(matches!(error, Error::AlreadyInstalled { .. }), "{error}");
    let new = reinstall_file(&second, None, &machine.config, &mut Silent).unwrap();
    assert!(!old.exists() && new.exists());
    assert_eq!(machine.left_in_cache(), ["local-cpu"]);
}

#[test]
fn a_damaged_local_plugin_is_an_error() {
    let machine = Machine::new();
    let file = machine.path("my_cpu.so");
    fs::write(&file, plugin_library()).unwrap();
    let path = install_file(&file, None, &machine.config, &mut Silent).unwrap();
    fs::write(&path, b"half").unwrap();
    let error = find(Platform::Cpu, &machine.config, &mut Silent).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
}

#[test]
fn a_file_name_without_a_platform_needs_an_explicit_one() {
    let machine = Machine::new();
    let file = machine.path("plugin.so");
    fs::write(&file, plugin_library()).unwrap();
    let error = install_file(&file, None, &machine.config, &mut Silent).unwrap_err();
    assert!(matches!(error, Error::PlatformUnclear { .. }), "{error}");
    install_file(&file, Some(Platform::Cuda), &machine.config, &mut Silent).unwrap();
    assert_eq!(machine.left_in_cache(), ["local-cuda"]);
}

#[test]
fn unsuitable_files_are_refused_before_the_cache_is_touched() {
    let machine = Machine::new();
    let file = machine.path("my_cpu.so");
    let foreign = elf(HERE_AND_ELSEWHERE.1, &[("GetPjrtApi", 1)]);
    let other = elf(HERE_AND_ELSEWHERE.0, &[("cos", 1)]);
    for (bytes, part) in [
        (b"#!/bin/sh".to_vec(), "not a shared library"),
        (foreign, "is a library for"),
        (other, "not a PJRT plugin"),
    ] {
        fs::write(&file, bytes).unwrap();
        let error = install_file(&file, None, &machine.config, &mut Silent).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(!machine.plugins().exists());
}

#[test]
fn a_wheel_must_be_pinned_and_complete() {
    let machine = Machine::new();
    let unknown = machine.path("wheels/fake_plugin-1.0-py3-none-any.whl");
    let error = install_file(&unknown, None, &machine.config, &mut Silent).unwrap_err();
    assert!(error.to_string().contains(pins::CPU.wheel), "{error}");

    let short = machine.path("wheels").join(pins::CPU.wheel);
    fs::write(&short, b"PK").unwrap();
    let error = install_file(&short, None, &machine.config, &mut Silent).unwrap_err();
    assert!(matches!(error, Error::WrongSize { found: 2, .. }), "{error}");
    assert!(machine.left_in_cache().is_empty());
}
