//! Tests of remembered file hashes.

use std::fs::{self, File};
use std::time::{Duration, UNIX_EPOCH};

use oxidax_cache::{Lookup, file_hash};

use crate::scene::{Scene, key};

const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const OF_ABD: &str = "a52d159f262b2c6ddb724a61840befc36eb30c88877a4030b65cbe86298449c9";

#[test]
fn cached_hash_is_not_used_for_a_changed_file() {
    let scene = Scene::new();
    let file = scene.root.path().join("plugin.so");
    let write = |text: &str| {
        fs::write(&file, text).unwrap();
        // Package managers set modification times, so the time shows nothing.
        let file = File::options().append(true).open(&file).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    };
    write("abc");
    assert_eq!(file_hash(&file, Some(&scene.store)).unwrap(), OF_ABC);
    let record = fs::read_to_string(scene.path(".plugins")).unwrap();
    assert!(record.starts_with(OF_ABC) && record.contains("plugin.so"), "{record}");
    // A wrong record is returned, which shows that remembered hashes are used.
    fs::write(scene.path(".plugins"), record.replace(OF_ABC, OF_ABD)).unwrap();
    assert_eq!(file_hash(&file, Some(&scene.store)).unwrap(), OF_ABD);
    write("abd");
    assert_eq!(file_hash(&file, Some(&scene.store)).unwrap(), OF_ABD);
    write("abc");
    assert_eq!(file_hash(&file, Some(&scene.store)).unwrap(), OF_ABC);
    let record = fs::read_to_string(scene.path(".plugins")).unwrap();
    assert_eq!(record.trim_end().lines().count(), 1, "one line for each path: {record}");
}

#[test]
fn several_files_are_remembered_and_a_damaged_record_is_replaced() {
    let scene = Scene::new();
    for name in ["a", "b"] {
        fs::write(scene.root.path().join(name), "abc").unwrap();
        assert_eq!(file_hash(&scene.root.path().join(name), Some(&scene.store)).unwrap(), OF_ABC);
    }
    let record = fs::read_to_string(scene.path(".plugins")).unwrap();
    assert_eq!(record.trim_end().lines().count(), 2, "{record}");
    fs::write(scene.path(".plugins"), b"\xff\xfe nonsense").unwrap();
    assert_eq!(file_hash(&scene.root.path().join("a"), Some(&scene.store)).unwrap(), OF_ABC);
    assert_eq!(scene.store.get(&key("a")).unwrap(), Lookup::Absent, "it is no entry");
    assert_eq!(scene.store.summary().unwrap().entries, 0);
}

#[test]
fn a_missing_file_is_reported() {
    let scene = Scene::new();
    let missing = scene.root.path().join("missing.so");
    let error = file_hash(&missing, Some(&scene.store)).unwrap_err().to_string();
    assert!(error.contains("missing.so"), "{error}");
}
