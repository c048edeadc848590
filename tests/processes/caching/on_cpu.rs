//! Programs that one process stores and later ones load.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use oxidax_cache::{About, Settings, Store};
use oxidax_plugin::{Config, Request, Silent, find_or_install};

use crate::caching::scene::{User, answers, disk};

/// Runs a scenario twice: the first process compiles and stores everything, the second loads
/// everything, with equal results.
#[track_caller]
fn run_twice(part: &str) -> User {
    let user = User::new();
    let first = user.run(part);
    let [_, misses, kept, damaged] = disk(&first);
    assert!(misses > 0 && kept == misses && damaged == 0, "{first:?}");
    assert_eq!(first["written"], "true");
    let second = user.run(part);
    let [hits, misses, kept, damaged] = disk(&second);
    assert!(hits > 0 && (misses, kept, damaged) == (0, 0, 0), "{second:?}");
    assert_eq!(second["times"], "true");
    assert_eq!(answers(&first), answers(&second));
    assert!(answers(&first).len() > 1, "{first:?}");
    assert_eq!((&*first["warnings"], &*second["warnings"]), ("[]", "[]"));
    user
}

#[test]
fn loaded_step_donates() {
    let user = run_twice("step");
    let report = user.run("step");
    assert_eq!(report["Donated"], "(0, 1, 2, 1)");
    assert_eq!(report["loaded"], "1");
    assert_eq!(report["timed"], "[true, false]", "loading and compiling are told apart");
}

#[test]
fn loaded_program_has_the_same_report() {
    let user = run_twice("ahead");
    let report = user.run("ahead");
    assert_eq!((&*report["loaded"], &*report["Aliased"]), ("true", "256"));
    assert_eq!(report["Kept"], "(1, 0.1)", "what is held elsewhere stays");
}

#[test]
fn loaded_program_of_eight_devices_keeps_shardings() {
    let user = run_twice("eight");
    let report = user.run("eight");
    assert!(report["Sharding"].contains("data"), "{report:?}");
    assert!(report["Collectives"].contains("all-reduce"), "{report:?}");
    // A loaded program is refused as a compiled one.
    assert!(report["Refused"].contains("all-reduce of 16 B over `data`"), "{report:?}");
    assert!(report["Refused"].contains("caching/parts.rs:"), "{report:?}");
    // Another number of devices is another client.
    assert_eq!(disk(&user.run("step"))[0], 0);
}

#[test]
fn programs_with_callbacks_are_not_stored() {
    let user = User::new();
    let [first, second] = [user.run("callback"), user.run("callback")];
    assert_eq!(answers(&first), answers(&second));
    assert_eq!(second["loaded"], "0");
    assert_eq!(disk(&first), [0, 0, 0, 0], "it is not looked up");
}

#[test]
fn programs_with_custom_derivatives_are_stored() {
    let user = User::new();
    let first = user.run("rule");
    let second = user.run("rule");
    assert_eq!(answers(&first), answers(&second));
    assert_eq!(disk(&second)[1], 0, "{second:?}");
}

#[test]
fn key_has_the_name_and_no_source_location() {
    let report = User::new().run("lines");
    assert_eq!((&*report["Equal"], &*report["second"], &*report["third"]), ("true", "1", "0"));
}

#[test]
fn key_has_flags_and_variables() {
    let mut user = User::new();
    let first = user.run("step");
    for (name, value) in [
        ("XLA_FLAGS", "--xla_cpu_enable_fast_math=true"),
        ("NPROC", "3"),
        ("LIBTPU_INIT_ARGS", "--xla_tpu_anything=1"),
        ("OXIDAX_CPU_DEVICES", "2"),
    ] {
        user.set(name, value);
        let changed = user.run("step");
        assert_eq!(disk(&changed)[0], 0, "{name}={value}: {changed:?}");
        assert_eq!(disk(&user.run("step"))[1], 0, "{name}={value} again");
    }
    assert_eq!(user.entries().len() as u64, 5 * disk(&first)[2]);
}

#[test]
fn programs_are_compiled_if_dumps_are_requested() {
    let mut user = User::new();
    user.run("step");
    let dump = user.cache.path().join("dump");
    user.set("XLA_FLAGS", &format!("--xla_dump_to={}", dump.display()));
    for _ in 0..2 {
        let report = user.run("step");
        assert_eq!(disk(&report), [0, 0, 0, 0]);
        assert!(report["warnings"].contains("XLA_FLAGS requests dumps"), "{report:?}");
        assert!(fs::read_dir(&dump).unwrap().count() > 0);
        fs::remove_dir_all(&dump).unwrap();
    }
}

#[test]
fn key_has_the_plugin() {
    let mut user = User::new();
    let found = find_or_install(&Request::default(), &Config::from_env().unwrap(), &mut Silent);
    let copy = user.cache.path().join("copy_cpu_plugin.so");
    fs::copy(found.unwrap().path, &copy).unwrap();
    user.set("OXIDAX_PLUGIN_CPU", &copy.display().to_string());
    let first = user.run("step");
    assert!(user.programs().join(".plugins").exists(), "its hash is stored");
    assert_eq!(disk(&user.run("step"))[1], 0);
    // One byte after the end, which the loader ignores.
    let mut file = fs::File::options().append(true).open(&copy).unwrap();
    std::io::Write::write_all(&mut file, b"\0").unwrap();
    drop(file);
    let changed = user.run("step");
    assert_eq!(disk(&changed)[..2], [0, disk(&first)[1]]);
    assert_eq!(answers(&changed), answers(&first));
}

#[test]
fn damaged_entry_is_logged_and_replaced() {
    let user = User::new();
    let first = user.run("step");
    for path in user.entries() {
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let second = user.run("step");
    assert_eq!(answers(&second), answers(&first));
    let [_, misses, kept, _] = disk(&first);
    assert_eq!(disk(&second), [0, misses, kept, kept]);
    let name = user.entries()[0].file_name().unwrap().to_string_lossy().into_owned();
    assert!(second["warnings"].contains(&name), "{second:?}");
    assert!(second["warnings"].contains("SHA-256"), "{second:?}");
    assert_eq!(disk(&user.run("step")), [misses, 0, 0, 0]);
}

#[test]
fn entry_refused_by_the_plugin_is_replaced() {
    let user = User::new();
    let first = user.run("step");
    let store = Store::open(&Settings::in_folder(user.programs())).unwrap().unwrap();
    let largest = user.entries().remove(0);
    let key = largest.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let compile_time = std::time::Duration::from_secs(1);
    let about = About { name: "step".into(), platform: "cpu".into(), compile_time };
    store.put(&key, &about, b"not a program of this plugin").unwrap();
    let second = user.run("step");
    assert_eq!(answers(&second), answers(&first));
    assert_eq!(disk(&second)[1..], [1, 1, 1], "{second:?}");
    assert!(second["warnings"].contains(&key.to_string()), "{second:?}");
    assert_eq!(disk(&user.run("step"))[1..], [0, 0, 0]);
}

#[test]
fn concurrent_processes_share_the_cache() {
    let user = User::new();
    let all = user.run_at_once("step", 4);
    assert!(all.iter().all(|report| answers(report) == answers(&all[0])));
    assert!(all.iter().all(|report| report["warnings"] == "[]" && disk(report)[3] == 0), "{all:?}");
    assert_eq!(disk(&user.run("step"))[1], 0);
    let left = fs::read_dir(user.programs()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with(".new-")));
}

#[test]
fn unwritable_folder_is_logged_once() {
    let mut user = User::new();
    let first = user.run("step");
    let file = user.cache.path().join("file");
    fs::write(&file, b"").unwrap();
    let plugin = find_or_install(&Request::default(), &Config::from_env().unwrap(), &mut Silent);
    user.set("OXIDAX_PLUGIN_CPU", &plugin.unwrap().path.display().to_string());
    user.set("OXIDAX_CACHE", &file.display().to_string());
    let report = user.run("step");
    assert_eq!(answers(&report), answers(&first));
    assert_eq!((disk(&report)[0], disk(&report)[2]), (0, 0));
    let shown = file.display().to_string();
    assert_eq!(report["warnings"].matches(&shown).count(), 1, "{report:?}");
}

#[test]
fn folder_writable_by_others_is_not_used() {
    let user = User::new();
    let first = user.run("step");
    fs::set_permissions(user.programs(), Permissions::from_mode(0o777)).unwrap();
    let report = user.run("step");
    assert_eq!((answers(&report), disk(&report)), (answers(&first), [0, 0, 0, 0]));
    assert!(report["warnings"].contains("can be written by others (mode 0777)"), "{report:?}");
}

#[test]
fn cache_can_be_disabled() {
    for (name, value) in [("OXIDAX_CACHE", "off"), ("OXIDAX_CACHE_MAX_BYTES", "0")] {
        let mut user = User::new();
        user.set(name, value);
        assert_eq!(disk(&user.run("step")), [0, 0, 0, 0]);
        assert!(!user.programs().exists());
    }
}

#[test]
fn fast_and_small_programs_are_not_stored() {
    let report = User::new().run("settings");
    assert_eq!(report["off"], "(0, 0)");
    assert_eq!((&*report["fast"], &*report["small"], &*report["own"]), ("(true, 0)", "0", "true"));
    assert!(report["refused"].contains("chmod go-w"), "{report:?}");
}

#[test]
fn memory_caches_respect_their_limits() {
    let report = User::new().run("limits");
    // Three sizes in turn with a limit of two: each is evicted before it is used again, except the
    // one used twice in a row.
    assert_eq!(report["operations"], "(2, 2, 2, 6)");
    assert_eq!(report["programs"], "(1, 1, 1, 3, 2)");
}
