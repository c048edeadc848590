//! What later processes find.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use oxidax_cache::{About, Settings, Store};
use oxidax_plugin::{Config, Request, Silent, find_or_install};

use crate::caching::scene::{User, answers, disk};

/// A part is played twice: first everything is compiled and kept, then everything is found, with the same answers.
#[track_caller]
fn found_again(part: &str) -> User {
    let user = User::new();
    let first = user.play(part);
    let [_, misses, kept, damaged] = disk(&first);
    assert!(misses > 0 && kept == misses && damaged == 0, "{first:?}");
    assert_eq!(first["written"], "true");
    let second = user.play(part);
    let [hits, misses, kept, damaged] = disk(&second);
    assert!(hits > 0 && (misses, kept, damaged) == (0, 0, 0), "{second:?}");
    assert_eq!(second["times"], "true");
    assert_eq!(answers(&first), answers(&second));
    assert!(answers(&first).len() > 1, "{first:?}");
    assert_eq!((&*first["warnings"], &*second["warnings"]), ("[]", "[]"));
    user
}

#[test]
fn a_step_is_found_by_the_next_process_and_donates_as_before() {
    let user = found_again("step");
    let said = user.play("step");
    assert_eq!(said["Donated"], "(0, 1, 2, 1)");
    assert_eq!(said["loaded"], "1");
}

#[test]
fn a_program_that_was_loaded_tells_what_the_compiled_one_told() {
    let user = found_again("ahead");
    let said = user.play("ahead");
    assert_eq!((&*said["loaded"], &*said["Aliased"]), ("true", "256"));
    assert_eq!(said["Kept"], "(1, 0.1)", "what is held elsewhere stays");
}

#[test]
fn a_program_over_eight_devices_gives_its_results_as_before() {
    let user = found_again("eight");
    let said = user.play("eight");
    assert!(said["Lies"].contains("data"), "{said:?}");
    assert!(said["Collectives"].contains("all-reduce"), "{said:?}");
    // One device more or less is another client.
    assert_eq!(disk(&user.play("step"))[0], 0);
}

#[test]
fn programs_that_call_back_are_not_kept() {
    let user = User::new();
    let [first, second] = [user.play("callback"), user.play("callback")];
    assert_eq!(answers(&first), answers(&second));
    assert_eq!(second["loaded"], "0");
    assert_eq!(disk(&first), [0, 0, 0, 0], "it is not even looked for");
}

#[test]
fn programs_with_rules_of_the_users_are_kept() {
    let user = User::new();
    let first = user.play("rule");
    let second = user.play("rule");
    assert_eq!(answers(&first), answers(&second));
    assert_eq!(disk(&second)[1], 0, "{second:?}");
}

#[test]
fn where_the_source_says_it_makes_no_difference_but_the_name_does() {
    let said = User::new().play("lines");
    assert_eq!((&*said["Equal"], &*said["second"], &*said["third"]), ("true", "1", "0"));
}

#[test]
fn other_flags_are_other_programs() {
    let mut user = User::new();
    let first = user.play("step");
    for (name, value) in [
        ("XLA_FLAGS", "--xla_cpu_enable_fast_math=true"),
        ("NPROC", "3"),
        ("LIBTPU_INIT_ARGS", "--xla_tpu_anything=1"),
        ("OXIDAX_CPU_DEVICES", "2"),
    ] {
        user.set(name, value);
        let changed = user.play("step");
        assert_eq!(disk(&changed)[0], 0, "{name}={value}: {changed:?}");
        assert_eq!(disk(&user.play("step"))[1], 0, "{name}={value} again");
    }
    assert_eq!(user.entries().len() as u64, 5 * disk(&first)[2]);
}

#[test]
fn a_compiler_that_is_to_write_files_compiles() {
    let mut user = User::new();
    user.play("step");
    let dump = user.cache.path().join("dump");
    user.set("XLA_FLAGS", &format!("--xla_dump_to={}", dump.display()));
    for _ in 0..2 {
        let said = user.play("step");
        assert_eq!(disk(&said), [0, 0, 0, 0]);
        assert!(
            said["warnings"].contains("XLA_FLAGS asks the compiler to write files"),
            "{said:?}"
        );
        assert!(fs::read_dir(&dump).unwrap().count() > 0);
        fs::remove_dir_all(&dump).unwrap();
    }
}

#[test]
fn another_plugin_is_another_compiler() {
    let mut user = User::new();
    let found = find_or_install(&Request::default(), &Config::from_env().unwrap(), &mut Silent);
    let copy = user.cache.path().join("copy_cpu_plugin.so");
    fs::copy(found.unwrap().path, &copy).unwrap();
    user.set("OXIDAX_PLUGIN_CPU", &copy.display().to_string());
    let first = user.play("step");
    assert!(user.programs().join(".plugins").exists(), "its hash is remembered");
    assert_eq!(disk(&user.play("step"))[1], 0);
    // One byte behind the end, which the loader passes over.
    let mut file = fs::File::options().append(true).open(&copy).unwrap();
    std::io::Write::write_all(&mut file, b"\0").unwrap();
    drop(file);
    let changed = user.play("step");
    assert_eq!(disk(&changed)[..2], [0, disk(&first)[1]]);
    assert_eq!(answers(&changed), answers(&first));
}

#[test]
fn a_damaged_entry_is_named_compiled_anew_and_replaced() {
    let user = User::new();
    let first = user.play("step");
    for path in user.entries() {
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let second = user.play("step");
    assert_eq!(answers(&second), answers(&first));
    let [_, misses, kept, _] = disk(&first);
    assert_eq!(disk(&second), [0, misses, kept, kept]);
    let name = user.entries()[0].file_name().unwrap().to_string_lossy().into_owned();
    assert!(second["warnings"].contains(&name), "{second:?}");
    assert!(second["warnings"].contains("SHA-256"), "{second:?}");
    assert_eq!(disk(&user.play("step")), [misses, 0, 0, 0]);
}

#[test]
fn an_entry_that_the_plugin_refuses_is_replaced() {
    let user = User::new();
    let first = user.play("step");
    let store = Store::open(&Settings::in_folder(user.programs())).unwrap().unwrap();
    let largest = user.entries().remove(0);
    let key = largest.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let compile_time = std::time::Duration::from_secs(1);
    let about = About { name: "step".into(), platform: "cpu".into(), compile_time };
    store.put(&key, &about, b"no program of this plugin's").unwrap();
    let second = user.play("step");
    assert_eq!(answers(&second), answers(&first));
    assert_eq!(disk(&second)[1..], [1, 1, 1], "{second:?}");
    assert!(second["warnings"].contains(&key.to_string()), "{second:?}");
    assert_eq!(disk(&user.play("step"))[1..], [0, 0, 0]);
}

#[test]
fn processes_at_once_share_what_they_keep() {
    let user = User::new();
    let all = user.play_at_once("step", 4);
    assert!(all.iter().all(|said| answers(said) == answers(&all[0])));
    assert!(all.iter().all(|said| said["warnings"] == "[]" && disk(said)[3] == 0), "{all:?}");
    assert_eq!(disk(&user.play("step"))[1], 0);
    let left = fs::read_dir(user.programs()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with(".new-")));
}

#[test]
fn what_cannot_be_written_fails_no_call_and_is_said_once() {
    let mut user = User::new();
    let first = user.play("step");
    let file = user.cache.path().join("file");
    fs::write(&file, b"").unwrap();
    let plugin = find_or_install(&Request::default(), &Config::from_env().unwrap(), &mut Silent);
    user.set("OXIDAX_PLUGIN_CPU", &plugin.unwrap().path.display().to_string());
    user.set("OXIDAX_CACHE", &file.display().to_string());
    let said = user.play("step");
    assert_eq!(answers(&said), answers(&first));
    assert_eq!((disk(&said)[0], disk(&said)[2]), (0, 0));
    let shown = file.display().to_string();
    assert_eq!(said["warnings"].matches(&shown).count(), 1, "{said:?}");
}

#[test]
fn a_folder_that_others_can_write_is_not_used() {
    let user = User::new();
    let first = user.play("step");
    fs::set_permissions(user.programs(), Permissions::from_mode(0o777)).unwrap();
    let said = user.play("step");
    assert_eq!((answers(&said), disk(&said)), (answers(&first), [0, 0, 0, 0]));
    assert!(said["warnings"].contains("can be written by others (mode 0777)"), "{said:?}");
}

#[test]
fn off_is_off() {
    for (name, value) in [("OXIDAX_CACHE", "off"), ("OXIDAX_CACHE_MAX_BYTES", "0")] {
        let mut user = User::new();
        user.set(name, value);
        assert_eq!(disk(&user.play("step")), [0, 0, 0, 0]);
        assert!(!user.programs().exists());
    }
}

#[test]
fn fast_and_small_programs_are_not_kept_and_settings_may_change() {
    let said = User::new().play("settings");
    assert_eq!(said["off"], "(0, 0)");
    assert_eq!((&*said["fast"], &*said["small"], &*said["own"]), ("(true, 0)", "0", "true"));
    assert!(said["refused"].contains("chmod go-w"), "{said:?}");
}

#[test]
fn caches_in_memory_keep_to_their_limits() {
    let said = User::new().play("limits");
    // Three sizes in turn in two places: each is gone when it comes back, but for the one asked for twice.
    assert_eq!(said["operations"], "(2, 2, 2, 6)");
    assert_eq!(said["programs"], "(1, 1, 1, 3, 2)");
}
