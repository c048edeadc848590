//! Tests of the check of library files.

use std::fs;

use oxidax_plugin::{Error, check_library};

use crate::elf::{HERE_AND_ELSEWHERE, elf, plugin_library};

fn check(bytes: &[u8]) -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin.so");
    fs::write(&path, bytes).unwrap();
    check_library(&path)
}

fn message(bytes: &[u8]) -> String {
    check(bytes).unwrap_err().to_string()
}

#[test]
fn a_library_that_exports_the_entry_point_is_a_plugin() {
    check(&plugin_library()).unwrap();
}

#[test]
fn other_files_are_reported_with_their_first_bytes() {
    assert!(message(b"").contains("it has 0 bytes"));
    let text = message(&[b'#'; 100]);
    assert!(text.contains("begins with [23, 23, 23, 23], not with ELF"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let text = check_library(folder.path()).unwrap_err().to_string();
    assert!(text.contains("it is a folder"), "{text}");
}

#[test]
fn a_plugin_for_another_machine_is_reported_with_both_machines() {
    let text = message(&elf(HERE_AND_ELSEWHERE.1, &[("GetPjrtApi", 1)]));
    assert!(text.contains("aarch64") && text.contains("x86_64"), "{text}");
    let text = message(&elf(9999, &[("GetPjrtApi", 1)]));
    assert!(text.contains("ELF machine 9999"), "{text}");
}

#[test]
fn a_32_bit_library_and_a_program_are_refused() {
    let mut narrow = plugin_library();
    narrow[4] = 1;
    assert!(message(&narrow).contains("not 64-bit"));
    let mut program = plugin_library();
    program[16] = 2;
    assert!(message(&program).contains("ELF type is 2, not 3"));
}

#[test]
fn a_library_truncated_anywhere_is_refused() {
    let whole = plugin_library();
    for len in 0..whole.len() {
        let error = check(&whole[..len]).unwrap_err();
        assert!(matches!(error, Error::NotALibrary { .. }), "{len}: {error}");
    }
}

#[test]
fn no_byte_of_the_file_can_make_the_check_panic() {
    let whole = plugin_library();
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            // Some of these are still plugins. The test requires only that each call returns.
            check(&bytes).map_or_else(|error| error.to_string().len(), |()| 0);
        }
    }
}

#[test]
fn importing_the_entry_point_is_not_exporting_it() {
    let text = message(&elf(HERE_AND_ELSEWHERE.0, &[("GetPjrtApi", 0), ("cos", 1), ("sin", 1)]));
    assert!(text.contains("does not export GetPjrtApi (it exports 2 symbols)"), "{text}");
    let text = message(&elf(HERE_AND_ELSEWHERE.0, &[("GetPjrtApiX", 1)]));
    assert!(text.contains("it exports 1 symbols"), "{text}");
}

#[test]
fn a_system_library_is_not_a_plugin() {
    // The test program itself is position-independent, so it has the format of a library.
    let error = check_library(&std::env::current_exe().unwrap()).unwrap_err();
    assert!(matches!(error, Error::NotAPlugin { .. }), "{error}");
}
