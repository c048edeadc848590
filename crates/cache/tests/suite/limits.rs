//! Tests of the size and age limits, of the minimum size, and of clearing.

use std::fs;
use std::time::Duration;

use oxidax_cache::{Cleared, Put, Settings, Store};

use crate::scene::{Scene, key};

const DAY: Duration = Duration::from_secs(86_400);

/// Creates a store with space for three entries of 1000 bytes and their headers.
fn small() -> Scene {
    Scene::with(|settings| Settings { max_bytes: 4000, max_age: 10 * DAY, ..settings })
}

fn put_aged(scene: &Scene, word: &str, days: u32) {
    scene.put(&key(word), &[0; 1000]);
    scene.age(&key(word), days * DAY);
}

#[test]
fn the_least_recently_used_entry_is_evicted_first() {
    let scene = small();
    for (word, days) in [("a", 1), ("b", 3), ("c", 2)] {
        put_aged(&scene, word, days);
    }
    // A lookup marks the entry as used.
    assert!(scene.payload(&key("b")).is_some());
    let Put::Kept { bytes, evicted } = scene.put(&key("d"), &[0; 1000]) else { panic!("it fits") };
    assert_eq!(bytes, fs::metadata(scene.store.path(&key("d"))).unwrap().len());
    assert_eq!(evicted, 1);
    let left = ["a", "b", "c", "d"].map(|word| scene.payload(&key(word)).is_some());
    assert_eq!(left, [true, true, false, true]);
}

#[test]
fn as_many_entries_as_needed_are_evicted() {
    let scene = small();
    for (word, days) in [("a", 3), ("b", 2), ("c", 1)] {
        put_aged(&scene, word, days);
    }
    assert!(matches!(scene.put(&key("d"), &[0; 2200]), Put::Kept { evicted: 2, .. }));
    assert_eq!(scene.store.summary().unwrap().entries, 2);
    assert!(scene.store.summary().unwrap().bytes <= 4000);
}

#[test]
fn old_entries_are_evicted() {
    let scene = small();
    put_aged(&scene, "a", 11);
    put_aged(&scene, "b", 9);
    assert_eq!(scene.payload(&key("a")), None, "went when `b` was kept");
    assert!(scene.payload(&key("b")).is_some());
}

#[test]
fn an_old_entry_that_is_used_is_not_evicted() {
    let scene = small();
    put_aged(&scene, "a", 11);
    assert!(scene.payload(&key("a")).is_some());
    scene.put(&key("b"), b"");
    assert!(scene.payload(&key("a")).is_some());
}

#[test]
fn programs_outside_the_size_limits_are_not_stored() {
    let scene = Scene::with(|settings| Settings { max_bytes: 4000, min_bytes: 10, ..settings });
    scene.put(&key("a"), &[0; 10]);
    assert_eq!(scene.put(&key("b"), &[0; 9]), Put::TooSmall);
    assert_eq!(scene.put(&key("c"), &[0; 4001]), Put::TooLarge);
    assert_eq!(scene.files().len(), 1, "and nothing goes for it");
}

#[test]
fn a_limit_of_zero_disables_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let none = Settings { max_bytes: 0, ..Settings::in_folder(folder.path()) };
    assert!(Store::open(&none).unwrap().is_none());
    assert!(Store::open(&Settings::off()).unwrap().is_none());
}

#[test]
fn the_summary_describes_the_contents() {
    let scene = Scene::new();
    let empty = scene.store.summary().unwrap();
    assert_eq!((empty.entries, empty.oldest), (0, None), "the folder need not exist");
    put_aged(&scene, "a", 2);
    put_aged(&scene, "b", 1);
    fs::write(scene.store.path(&key("c")), b"no entry").unwrap();
    fs::write(scene.path(".new-1-1"), b"").unwrap();
    fs::write(scene.path("README"), b"the user's").unwrap();
    let summary = scene.store.summary().unwrap();
    assert_eq!((summary.entries, summary.damaged, summary.unfinished), (3, 1, 1));
    let cpu = summary.platforms["cpu"];
    assert_eq!((cpu.entries, cpu.compile_time), (2, Duration::from_millis(2468)));
    assert_eq!(summary.bytes, cpu.bytes + 8);
    let apart = summary.newest.unwrap().duration_since(summary.oldest.unwrap()).unwrap();
    assert!(apart >= 2 * DAY, "the last was written now");
}

#[test]
fn clear_deletes_all_or_old_entries() {
    let scene = Scene::new();
    for (word, days) in [("a", 20), ("b", 8), ("c", 1)] {
        put_aged(&scene, word, days);
    }
    fs::write(scene.path("README"), b"the user's").unwrap();
    let each = fs::metadata(scene.store.path(&key("a"))).unwrap().len();
    let cleared = scene.store.clear(Some(7 * DAY)).unwrap();
    assert_eq!(cleared, Cleared { entries: 2, bytes: 2 * each });
    assert!(scene.payload(&key("c")).is_some());
    assert_eq!(scene.store.clear(None).unwrap(), Cleared { entries: 1, bytes: each });
    assert_eq!(scene.files(), ["README"], "what is not ours stays");
    assert_eq!(scene.store.clear(None).unwrap(), Cleared::default());
}
