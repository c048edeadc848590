//! Tests of several processes that share a folder. Each process is this test binary, started again
//! with a variable that selects its part.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use oxidax_cache::{Lookup, Settings, Store};

use crate::scene::{Scene, about, key};

const PART: &str = "OXIDAX_TEST_PART";
const FOLDER: &str = "OXIDAX_TEST_FOLDER";
const KEYS: [&str; 4] = ["a", "b", "c", "d"];
/// Large enough that a write takes more than one system call.
const SIZE: usize = 300_000;

fn start(part: &str, scene: &Scene) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "processes::play", "--nocapture", "--test-threads=1"])
        .env(PART, part)
        .env(FOLDER, scene.store.folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the payload of a process. A mixture of two payloads is recognizable.
fn payload(process: u8) -> Vec<u8> {
    vec![process; SIZE]
}

/// Runs the part of a started process. Not a test by itself.
#[test]
fn play() {
    let Ok(part) = env::var(PART) else { return };
    let settings = Settings::in_folder(env::var_os(FOLDER).unwrap());
    let store = Store::open(&settings).unwrap().unwrap();
    if part == "dies" {
        // Imitates a process that is killed during a write: a temporary file with half of the
        // bytes.
        let half = store.folder().join(format!(".new-{}-0", std::process::id()));
        File::create(half).unwrap().write_all(&payload(0)[..SIZE / 2]).unwrap();
        println!("\nhalf");
        loop {
            std::thread::park();
        }
    }
    if part == "identity" {
        println!("\nidentity {}", store.identity().unwrap());
        return;
    }
    let process: u8 = part.parse().unwrap();
    for round in 0..50 {
        let key = key(KEYS[(round + usize::from(process)) % KEYS.len()]);
        store.put(&key, &about("step"), &payload(process)).unwrap();
        match store.get(&key).unwrap() {
            Lookup::Found(entry) => {
                let bytes = entry.payload();
                assert!(bytes.len() == SIZE && bytes.iter().all(|byte| *byte == bytes[0]));
            }
            Lookup::Absent => {}
            Lookup::Damaged { reason, .. } => panic!("round {round}: {reason}"),
        }
        if round % 10 == usize::from(process) {
            store.clear(None).unwrap();
        }
    }
}

#[test]
fn concurrent_writes_and_clears_never_show_partial_entries() {
    let scene = Scene::new();
    let children: Vec<Child> = (1..=4).map(|process| start(&process.to_string(), &scene)).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    assert!(scene.files().iter().all(|name| name.ends_with(".program")), "{:?}", scene.files());
}

#[test]
fn a_process_killed_during_a_write_leaves_only_a_temporary_file() {
    let scene = Scene::new();
    scene.put(&key("a"), b"whole");
    let mut child = start("dies", &scene);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "half"));
    child.kill().unwrap();
    child.wait().unwrap();
    let left: Vec<String> = scene.files().into_iter().filter(|n| n.starts_with(".new-")).collect();
    assert_eq!(left.len(), 1);
    assert_eq!(scene.payload(&key("a")).unwrap(), b"whole");
    assert_eq!(scene.store.summary().unwrap().unfinished, 1);
    // The file may belong to a running process, so it is deleted only when it is old.
    scene.put(&key("b"), b"");
    assert!(scene.path(&left[0]).exists());
    let file = File::options().append(true).open(scene.path(&left[0])).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(7200)).unwrap();
    scene.put(&key("c"), b"");
    assert!(!scene.path(&left[0]).exists());
    assert_eq!(fs::read_dir(scene.store.folder()).unwrap().count(), 3);
}

#[test]
fn processes_agree_on_the_identity_of_a_folder() {
    let scene = Scene::new();
    let children: Vec<Child> = (0..6).map(|_| start("identity", &scene)).collect();
    let mut identities: Vec<String> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("identity "));
            line.unwrap_or_else(|| panic!("{text}")).to_owned()
        })
        .collect();
    identities.dedup();
    assert_eq!(identities.len(), 1, "{identities:?}");
    assert_eq!(identities[0], scene.store.identity().unwrap());
    assert_ne!(identities[0], Scene::new().store.identity().unwrap());
    assert_eq!(scene.files(), [".identity"]);
    // A damaged file is replaced.
    fs::write(scene.path(".identity"), "x").unwrap();
    let new = scene.store.identity().unwrap();
    assert!(new.len() == 32 && new != identities[0], "{new}");
    assert_eq!(scene.store.identity().unwrap(), new);
}
