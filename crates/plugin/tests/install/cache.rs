//! Tests of the cache: contents, recorded hashes and permissions.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use oxidax_plugin::{Check, Condition, Error, Silent, install, install_file, list, remove};

use crate::elf::plugin_library;
use crate::machine::{Machine, Notes};

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_cache_is_private() {
    let machine = Machine::new();
    install(&machine.pin, &machine.config, &mut Silent).unwrap();
    for path in ["home/.cache/oxidax", "home/.cache/oxidax/plugins"] {
        let mode = machine.path(path).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{path}");
    }
}

#[test]
fn a_damaged_library_is_replaced() {
    let machine = Machine::new();
    let path = install(&machine.pin, &machine.config, &mut Silent).unwrap();
    let mut bytes = machine.library.clone();
    bytes[200_000] ^= 1;
    for damaged in [&bytes[..], &bytes[..1000], &[]] {
        fs::write(&path, damaged).unwrap();
        let mut notes = Notes::default();
        assert_eq!(install(&machine.pin, &machine.config, &mut notes).unwrap(), path);
        assert!(notes.0[0].contains("is damaged and is not used"), "{:?}", notes.0);
        assert_eq!(fs::read(&path).unwrap(), machine.library);
    }
    assert_eq!(machine.calls().len(), 4);
}

#[test]
fn a_damaged_library_offline_is_an_error() {
    let mut machine = Machine::new();
    let path = install(&machine.pin, &machine.config, &mut Silent).unwrap();
    fs::write(&path, b"half").unwrap();
    machine.config.offline = true;
    let error = install(&machine.pin, &machine.config, &mut Silent).unwrap_err();
    assert!(matches!(error, Error::Offline { .. }), "{error}");
}

#[test]
fn a_library_without_its_record_is_hashed() {
    let machine = Machine::new();
    let path = install(&machine.pin, &machine.config, &mut Silent).unwrap();
    let record = path.with_extension("so.verified");
    let before = fs::read_to_string(&record).unwrap();
    for text in [None, Some("garbage"), Some("")] {
        match text {
            None => fs::remove_file(&record).unwrap(),
            Some(text) => fs::write(&record, text).unwrap(),
        }
        assert_eq!(install(&machine.pin, &machine.config, &mut Silent).unwrap(), path);
        assert_eq!(fs::read_to_string(&record).unwrap(), before);
    }
    assert_eq!(machine.calls().len(), 1);
}

#[test]
fn leftovers_of_a_killed_installation_are_deleted() {
    let machine = Machine::new();
    let half = machine.plugins().join(".new-4711");
    fs::create_dir_all(half.join("fetch-0")).unwrap();
    fs::write(half.join("plugin.so"), b"half").unwrap();
    for folder in [machine.plugins().as_path(), machine.plugins().parent().unwrap()] {
        chmod(folder, 0o700);
    }
    install(&machine.pin, &machine.config, &mut Silent).unwrap();
    assert_eq!(machine.left_in_cache(), ["fake-plugin-1.0"]);
}

#[test]
fn a_read_only_cache_with_the_plugin_works() {
    let machine = Machine::new();
    let path = install(&machine.pin, &machine.config, &mut Silent).unwrap();
    // Root may write everywhere, so a folder also blocks the path of the record. The record then
    // cannot be renewed, whichever user runs this test.
    let record = path.with_extension("so.verified");
    fs::remove_file(&record).unwrap();
    fs::create_dir(&record).unwrap();
    let folders = [path.parent().unwrap().to_owned(), machine.plugins()];
    folders.iter().for_each(|folder| chmod(folder, 0o500));

    let mut notes = Notes::default();
    let found = install(&machine.pin, &machine.config, &mut notes);
    folders.iter().for_each(|folder| chmod(folder, 0o700));
    assert_eq!(found.unwrap(), path);
    assert!(notes.0.is_empty(), "{:?}", notes.0);
    assert!(record.is_dir());
}

#[test]
fn a_cache_that_cannot_be_created_is_reported_with_the_remedy() {
    let mut machine = Machine::new();
    // Not even root can create a folder below a file.
    fs::write(machine.path("file"), "").unwrap();
    machine.config.cache = Some(machine.path("file/oxidax"));
    let error = install(&machine.pin, &machine.config, &mut Silent).unwrap_err();
    assert!(matches!(error, Error::CacheNotWritable { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("file/oxidax/plugins"), "{text}");
    assert!(text.contains("OXIDAX_CACHE") && text.contains("OXIDAX_PLUGIN_CPU"), "{text}");
    assert!(machine.calls().is_empty());
}

#[test]
fn without_a_home_the_error_lists_the_variables() {
    let mut machine = Machine::new();
    machine.config.cache = None;
    let error = install(&machine.pin, &machine.config, &mut Silent).unwrap_err();
    assert!(matches!(error, Error::NoCache), "{error}");
}

#[test]
fn files_that_others_can_write_are_refused_at_every_level() {
    let machine = Machine::new();
    let library = install(&machine.pin, &machine.config, &mut Silent).unwrap();
    let cache = machine.config.cache.clone().unwrap();
    let levels = [cache, machine.plugins(), library.parent().unwrap().to_owned(), library];
    for path in levels {
        let before = path.metadata().unwrap().permissions().mode() & 0o777;
        for extra in [0o020, 0o002] {
            chmod(&path, before | extra);
            let error = install(&machine.pin, &machine.config, &mut Silent).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, Error::UnsafeCache { .. }), "{text}");
            assert!(text.contains(&format!("mode {:04o}", before | extra)), "{text}");
            assert!(text.contains(&format!("chmod go-w {}", path.display())), "{text}");
        }
        chmod(&path, before);
    }
    install(&machine.pin, &machine.config, &mut Silent).unwrap();
}

#[test]
fn files_of_another_user_are_refused() {
    let machine = Machine::new();
    let library = install(&machine.pin, &machine.config, &mut Silent).unwrap();
    // Only root can give a file to another user.
    if chown(&library, Some(54_321), None).is_err() {
        return;
    }
    let text = install(&machine.pin, &machine.config, &mut Silent).unwrap_err().to_string();
    assert!(text.contains("belongs to user 54321"), "{text}");
}

#[test]
fn records_are_trusted_unless_every_byte_is_verified() {
    let machine = Machine::new();
    let file = machine.path("my_cpu_plugin.so");
    fs::write(&file, plugin_library()).unwrap();
    let path = install_file(&file, None, &machine.config, &mut Silent).unwrap();
    let local = |check| {
        let entries = list(&machine.config, check).unwrap();
        entries.into_iter().find(|entry| entry.name == "local-cpu").unwrap().condition
    };
    assert_eq!(local(Check::EveryByte), Condition::Intact);

    let time = path.metadata().unwrap().modified().unwrap();
    let mut bytes = plugin_library();
    bytes[70] ^= 1;
    fs::write(&path, &bytes).unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    assert_eq!(local(Check::Records), Condition::Intact);
    assert!(matches!(local(Check::EveryByte), Condition::Damaged(_)));
}

#[test]
fn the_list_shows_pins_local_plugins_and_leftovers() {
    let machine = Machine::new();
    install(&machine.pin, &machine.config, &mut Silent).unwrap();
    let entries = list(&machine.config, Check::Records).unwrap();
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "cpu",
            "cpu-aarch64",
            "tpu",
            "cuda",
            "cuda-ptxas",
            "cuda-libdevice",
            "cuda-mosaic",
            "cpu-api-0.106",
            "cpu-api-0.81",
            "fake-plugin-1.0"
        ]
    );
    assert!(entries[..9].iter().all(|entry| entry.condition == Condition::NotInstalled));
    assert_eq!(entries[9].condition, Condition::Unused);
}

#[test]
fn remove_deletes_the_folder_and_rejects_unknown_names() {
    let machine = Machine::new();
    install(&machine.pin, &machine.config, &mut Silent).unwrap();
    for wrong in ["cpu", "..", "", ".lock", "fake-plugin-1.0/.."] {
        let error = remove(wrong, &machine.config, &mut Silent).unwrap_err();
        assert!(matches!(error, Error::NoSuchEntry { .. }), "{wrong}: {error}");
        assert!(error.to_string().contains("installed: fake-plugin-1.0"), "{error}");
    }
    remove("fake-plugin-1.0", &machine.config, &mut Silent).unwrap();
    assert!(machine.left_in_cache().is_empty());
}
