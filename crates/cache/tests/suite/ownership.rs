//! Tests of folders and files that others can write.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use oxidax_cache::{Error, Settings, Store};

use crate::scene::{Scene, about, key};

fn set_mode(path: &std::path::Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn folders_and_entries_are_private() {
    let scene = Scene::new();
    scene.put(&key("a"), b"x");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(scene.store.folder()), 0o700);
    assert_eq!(mode(&scene.store.path(&key("a"))), 0o600);
}

#[test]
fn a_folder_that_others_can_write_is_refused() {
    let scene = Scene::new();
    scene.put(&key("a"), b"x");
    for mode in [0o777, 0o770, 0o1777] {
        set_mode(scene.store.folder(), mode);
        let error = Store::open(&Settings::in_folder(scene.store.folder())).unwrap_err();
        assert!(matches!(error, Error::Unsafe { .. }));
        let text = error.to_string();
        let shown = scene.store.folder().display();
        assert!(
            text.starts_with(&format!("{shown} can be written by others (mode {mode:04o})")),
            "{text}"
        );
        assert!(text.contains(&format!("chmod go-w {shown}")), "{text}");
        let error = scene.store.put(&key("b"), &about("b"), b"x").unwrap_err();
        assert!(matches!(error, Error::Unsafe { .. }), "one that became so later, too");
    }
    set_mode(scene.store.folder(), 0o755);
    assert!(Store::open(&Settings::in_folder(scene.store.folder())).unwrap().is_some());
}

#[test]
fn an_entry_that_others_can_write_is_refused() {
    let scene = Scene::new();
    scene.put(&key("a"), b"x");
    set_mode(&scene.store.path(&key("a")), 0o666);
    let error = scene.store.get(&key("a")).unwrap_err();
    assert!(matches!(error, Error::Unsafe { .. }), "{error}");
    scene.put(&key("a"), b"y");
    assert_eq!(scene.payload(&key("a")).unwrap(), b"y", "one of our own takes its place");
}

#[test]
fn a_read_only_folder_still_works() {
    let scene = Scene::new();
    scene.put(&key("a"), b"x");
    set_mode(scene.store.folder(), 0o500);
    // Root may write anywhere, so success is accepted too.
    let written = scene.store.put(&key("b"), &about("b"), b"x");
    assert_eq!(scene.payload(&key("a")).unwrap(), b"x");
    if let Err(error) = written {
        assert!(error.to_string().starts_with("cannot write "), "{error}");
    }
    set_mode(scene.store.folder(), 0o700);
}

#[test]
fn a_file_at_the_path_of_the_folder_is_an_error_without_a_panic() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, b"").unwrap();
    let store = Store::open(&Settings::in_folder(file.join("programs"))).unwrap().unwrap();
    assert!(store.put(&key("a"), &about("a"), b"x").is_err());
    assert_eq!(store.get(&key("a")).unwrap(), oxidax_cache::Lookup::Absent);
    assert_eq!(store.summary().unwrap().entries, 0);
}
