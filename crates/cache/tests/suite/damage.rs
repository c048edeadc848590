//! Tests of damaged entries.

use std::fs;

use oxidax_cache::{About, Lookup};

use crate::scene::{Scene, about, key};

const PAYLOAD: &[u8] = b"\x7fELF and so on, with \0 and \n\n in it";

/// Overwrites the entry with these bytes, looks it up, and returns the reported damage. Checks that
/// the lookup deletes the entry and that it can be stored again.
fn damage(scene: &Scene, bytes: &[u8]) -> String {
    let key = key("a");
    let file = scene.store.path(&key);
    fs::write(&file, bytes).unwrap();
    let Lookup::Damaged { path, reason } = scene.store.get(&key).unwrap() else {
        panic!("handed out with {} bytes changed", bytes.len());
    };
    assert_eq!(path, file);
    assert!(!file.exists(), "a damaged entry is deleted");
    scene.put(&key, PAYLOAD);
    assert_eq!(scene.payload(&key).unwrap(), PAYLOAD, "and replaced");
    reason
}

fn kept() -> (Scene, Vec<u8>) {
    let scene = Scene::new();
    scene.put(&key("a"), PAYLOAD);
    let bytes = fs::read(scene.store.path(&key("a"))).unwrap();
    (scene, bytes)
}

#[test]
fn stored_programs_are_returned() {
    let scene = Scene::new();
    assert_eq!(scene.payload(&key("a")), None);
    for payload in [PAYLOAD, b"", &vec![7; 100_000]] {
        scene.put(&key("a"), payload);
        assert_eq!(scene.payload(&key("a")).unwrap(), payload, "a later one replaces it");
    }
    assert_eq!(scene.payload(&key("b")), None);
    scene.store.remove(&key("a")).unwrap();
    scene.store.remove(&key("a")).unwrap();
    assert_eq!(scene.payload(&key("a")), None);
}

#[test]
fn stored_metadata_is_returned() {
    let scene = Scene::new();
    let long = "é".repeat(1000);
    for (name, shown) in [("step", "step"), ("", ""), ("a\nb", "ab"), (&long, &long[..256])] {
        let about = About { name: name.to_owned(), ..about("") };
        scene.store.put(&key("a"), &about, PAYLOAD).unwrap();
        let Lookup::Found(entry) = scene.store.get(&key("a")).unwrap() else { panic!("{name}") };
        assert_eq!(entry.about, About { name: shown.to_owned(), ..about });
    }
}

#[test]
fn a_flipped_bit_anywhere_is_detected() {
    let (scene, bytes) = kept();
    for at in 0..bytes.len() {
        for bit in [0, 3, 7] {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            damage(&scene, &changed);
        }
    }
}

#[test]
fn truncation_anywhere_and_trailing_bytes_are_detected() {
    let (scene, bytes) = kept();
    for end in 0..bytes.len() {
        damage(&scene, &bytes[..end]);
    }
    damage(&scene, &[&bytes[..], b"\0"].concat());
    damage(&scene, &bytes.repeat(2));
}

#[test]
fn other_files_are_reported_by_their_content() {
    let (scene, bytes) = kept();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let later = text.replace("oxidax program 1", "oxidax program 2");
    let reason = damage(&scene, later.as_bytes());
    assert_eq!(reason, "its format is `oxidax program 2`, not `oxidax program 1`");
    assert_eq!(damage(&scene, b"#!/bin/sh\n\necho"), "it is no entry");
    assert_eq!(damage(&scene, &[0; 5000]), "it has no header");
    let huge =
        text.replace(&format!("payload {}", PAYLOAD.len()), &format!("payload {}", u64::MAX));
    assert!(damage(&scene, huge.as_bytes()).contains("18446744073709551615 are the program's"));
}

#[test]
fn an_entry_of_another_key_is_not_used() {
    let (scene, _) = kept();
    scene.put(&key("b"), b"of b");
    let of_b = fs::read(scene.store.path(&key("b"))).unwrap();
    assert_eq!(damage(&scene, &of_b), format!("it is the entry of {}", key("b")));
    assert_eq!(scene.payload(&key("b")).unwrap(), b"of b");
}

#[test]
fn errors_contain_the_path() {
    let (scene, _) = kept();
    let path = scene.store.path(&key("b"));
    fs::create_dir(&path).unwrap();
    let shown = path.display().to_string();
    let error = scene.store.get(&key("b")).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot read {shown}: ")), "{error}");
    let error = scene.store.put(&key("b"), &about("b"), PAYLOAD).unwrap_err().to_string();
    assert!(error.starts_with("cannot rename ") && error.contains(".new-"), "{error}");
    assert!(scene.files().iter().all(|name| !name.starts_with(".new-")), "nothing is left behind");
}
