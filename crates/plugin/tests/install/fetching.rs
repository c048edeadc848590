//! Tests of installation into an empty cache, and of its errors.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::thread;

use oxidax_plugin::{Error, Silent, Stderr, install, reinstall};

use crate::machine::{Machine, Notes, wheel_of};

/// Environment variable with the machine's folder, for the second process of the two-process test.
const CHILD: &str = "OXIDAX_PLUGIN_TEST_CHILD";

fn message(machine: &Machine) -> String {
    install(&machine.pin, &machine.config, &mut Silent).unwrap_err().to_string()
}

#[test]
fn an_empty_cache_is_filled_once_with_progress_messages() {
    let machine = Machine::new();
    let mut notes = Notes::default();
    let path = install(&machine.pin, &machine.config, &mut notes).unwrap();

    assert_eq!(path, machine.plugins().join("fake-plugin-1.0/plugin.so"));
    assert_eq!(fs::read(&path).unwrap(), machine.library);
    assert_eq!(machine.left_in_cache(), ["fake-plugin-1.0"]);
    let first = &notes.0[0];
    for part in ["fake-plugin==1.0", "nobody", "CC0-1.0", "to download", "400000 bytes on disk"] {
        assert!(first.contains(part), "`{part}` is missing from: {first}");
    }
    assert!(notes.0.last().unwrap().starts_with("installed "), "{:?}", notes.0);

    let mut again = Notes::default();
    assert_eq!(install(&machine.pin, &machine.config, &mut again).unwrap(), path);
    assert!(again.0.is_empty(), "{:?}", again.0);
    assert_eq!(machine.calls().len(), 1);
}

#[test]
fn pip_gets_the_version_and_the_tags_and_runs_no_package_code() {
    let machine = Machine::new();
    install(&machine.pin, &machine.config, &mut Silent).unwrap();
    let call = &machine.calls()[0];
    for part in [
        "python3 -m pip download",
        "--no-deps",
        "--only-binary :all:",
        "--python-version 3.11",
        "--implementation py",
        "--abi none",
        "--platform any",
        "fake-plugin==1.0",
    ] {
        assert!(call.contains(part), "`{part}` is missing from: {call}");
    }
}

#[test]
fn only_the_library_is_extracted_from_the_wheel() {
    let machine = Machine::new();
    let path = install(&machine.pin, &machine.config, &mut Silent).unwrap();
    let mut names: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["plugin.so", "plugin.so.verified"]);
}

#[test]
fn threads_that_install_at_once_share_one_download() {
    let machine = Machine::new();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| install(&machine.pin, &machine.config, &mut Silent).unwrap());
        }
    });
    assert_eq!(machine.calls().len(), 1);
}

#[test]
fn two_processes_that_install_at_once_share_one_download() {
    if let Some(root) = std::env::var_os(CHILD) {
        let (config, pin) = Machine::seen_again(root.as_ref());
        install(&pin, &config, &mut Stderr::new()).unwrap();
        return;
    }
    let machine = Machine::new();
    let fifo = |name: &str| {
        let path = machine.path(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    };
    let (started, go) = (fifo("started"), fifo("go"));
    machine.behave(
        r#"echo here > "$folder/../started"; read word < "$folder/../go"
           cp "$folder/../wheels/$wheel" "$dest""#,
    );
    let child = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "fetching::two_processes_that_install_at_once_share_one_download"])
            .arg("--nocapture")
            .env(CHILD, machine.path(""))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut first = child();
    // The first process holds the lock while its tool runs. It continues only when the second is
    // waiting.
    assert_eq!(fs::read_to_string(&started).unwrap(), "here\n");
    let mut second = child();
    let mut lines = BufReader::new(second.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("waiting for another process")));
    fs::File::options().write(true).open(&go).unwrap().write_all(b"go\n").unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();

    assert!(first.wait().unwrap().success());
    assert!(second.wait().unwrap().success(), "{rest:?}");
    assert!(!rest.iter().any(|line| line.contains("fetching")), "{rest:?}");
    assert_eq!(machine.calls().len(), 1);
}

#[test]
fn a_truncated_wheel_is_refused_with_both_sizes() {
    let machine = Machine::new();
    machine.behave(r#"head -c 1000 "$folder/../wheels/$wheel" > "$dest/$wheel""#);
    let error = install(&machine.pin, &machine.config, &mut Silent).unwrap_err();
    let expected = machine.pin.wheel_size;
    assert!(
        matches!(error, Error::WrongSize { found: 1000, expected: e, .. } if e == expected),
        "{error}"
    );
    assert!(machine.left_in_cache().is_empty());
}

#[test]
fn a_wheel_with_another_hash_is_refused_with_both_hashes() {
    let mut machine = Machine::new();
    machine.pin.wheel_sha256 = crate::machine::sha256(b"another wheel");
    let text = message(&machine);
    assert!(text.contains(machine.pin.wheel_sha256) && text.contains("it was not installed"));
    assert!(machine.left_in_cache().is_empty());
}

#[test]
fn a_library_with_another_hash_or_size_is_refused() {
    let mut machine = Machine::new();
    machine.pin.library_sha256 = crate::machine::sha256(b"another library");
    assert!(message(&machine).contains("fake_plugin/plugin.so has SHA-256"));
    for (wrong, found) in [(399_999, 400_000), (400_001, 400_000), (10, 11)] {
        machine.pin.library_size = wrong;
        let text = message(&machine);
        let numbers = format!("has {found} bytes, expected {wrong}");
        assert!(text.contains(&numbers), "{text}");
    }
    assert!(machine.left_in_cache().is_empty());
}

#[test]
fn a_wheel_without_the_library_and_one_that_is_not_a_zip_are_refused() {
    let mut machine = Machine::new();
    for wheel in [wheel_of(&[("other.txt", b"x")]), b"not a zip archive at all".to_vec()] {
        fs::write(machine.path("wheels").join(machine.pin.wheel), &wheel).unwrap();
        machine.pin.wheel_size = wheel.len() as u64;
        machine.pin.wheel_sha256 = crate::machine::sha256(&wheel);
        let error = install(&machine.pin, &machine.config, &mut Silent).unwrap_err();
        assert!(matches!(error, Error::BadWheel { .. }), "{error}");
    }
    assert!(machine.left_in_cache().is_empty());
}

#[test]
fn another_file_than_the_pinned_one_is_refused_by_name() {
    let machine = Machine::new();
    machine.behave(r#"cp "$folder/../wheels/$wheel" "$dest/fake_plugin-2.0-py3-none-any.whl""#);
    let text = message(&machine);
    assert!(text.contains("fetched fake_plugin-2.0-py3-none-any.whl"), "{text}");
    assert!(text.contains("expected the file fake_plugin-1.0-py3-none-any.whl"), "{text}");
}

#[test]
fn without_a_network_the_error_contains_the_output_of_each_tool() {
    let machine = Machine::new();
    machine.tool("uv");
    machine.behave(r#"echo "$name: no route to host" >&2; exit 7"#);
    let text = message(&machine);
    for part in ["fake-plugin==1.0", "python3: no route", "uv: no route", "exit status: 7"] {
        assert!(text.contains(part), "`{part}` is missing from: {text}");
    }
    assert!(text.contains("`oxidax plugin install fake` again"), "{text}");
    assert!(machine.left_in_cache().is_empty());
}

#[test]
fn uv_is_used_if_python_has_no_pip() {
    let machine = Machine::without_tools();
    machine.tool("python3");
    machine.tool("uv");
    fs::write(machine.path("bin/no-pip-for-python3"), "").unwrap();
    fs::write(machine.path("library"), &machine.library).unwrap();
    machine.behave(
        r#"mkdir "$dest/fake_plugin"; cp "$folder/../library" "$dest/fake_plugin/plugin.so""#,
    );
    let path = install(&machine.pin, &machine.config, &mut Silent).unwrap();
    assert_eq!(fs::read(path).unwrap(), machine.library);
    let calls = machine.calls();
    assert_eq!(calls.len(), 1);
    for part in ["uv pip install", "--require-hashes", "--no-deps", "--only-binary :all:"] {
        assert!(calls[0].contains(part), "`{part}` is missing from: {}", calls[0]);
    }
}

#[test]
fn a_library_unpacked_by_uv_is_checked() {
    let machine = Machine::without_tools();
    machine.tool("uv");
    machine.behave(r#"mkdir "$dest/fake_plugin"; echo evil > "$dest/fake_plugin/plugin.so""#);
    let error = install(&machine.pin, &machine.config, &mut Silent).unwrap_err();
    assert!(matches!(error, Error::WrongSize { found: 5, .. }), "{error}");
    assert!(machine.left_in_cache().is_empty());
}

#[test]
fn the_pip_script_is_used_if_the_module_is_missing() {
    let machine = Machine::new();
    machine.tool("pip3");
    fs::write(machine.path("bin/no-pip-for-python3"), "").unwrap();
    install(&machine.pin, &machine.config, &mut Silent).unwrap();
    assert!(machine.calls()[0].starts_with("pip3 download "), "{:?}", machine.calls());
}

#[test]
fn without_pip_and_uv_the_error_names_the_remedies() {
    let text = message(&Machine::without_tools());
    assert_eq!(
        text.lines().next().unwrap().replace(char::is_numeric, "N"),
        "fetching fake-plugin==N.N (NNNNNN bytes) needs pip or uv, and neither is on the PATH"
    );
    assert!(text.contains("copy the wheel fake_plugin-1.0-py3-none-any.whl"), "{text}");
}

#[test]
fn offline_means_no_tool_is_started() {
    let mut machine = Machine::new();
    machine.config.offline = true;
    let text = message(&machine);
    assert!(text.starts_with("OXIDAX_OFFLINE forbids fetching fake-plugin==1.0"), "{text}");
    assert!(machine.calls().is_empty());
}

#[test]
fn another_host_gets_an_error_with_the_supported_one() {
    let mut machine = Machine::new();
    machine.config.host = ("macos".to_owned(), "aarch64".to_owned());
    let text = message(&machine);
    assert!(text.contains("is for linux x86_64, this host is macos aarch64"), "{text}");
    assert!(text.contains("OXIDAX_PLUGIN_CPU"), "{text}");
    assert!(machine.calls().is_empty());
}

#[test]
fn a_failed_reinstallation_keeps_the_old_file() {
    let machine = Machine::new();
    let path = install(&machine.pin, &machine.config, &mut Silent).unwrap();
    machine.behave("exit 1");
    reinstall(&machine.pin, &machine.config, &mut Silent).unwrap_err();
    assert_eq!(install(&machine.pin, &machine.config, &mut Silent).unwrap(), path);
    machine.behave(r#"cp "$folder/../wheels/$wheel" "$dest""#);
    reinstall(&machine.pin, &machine.config, &mut Silent).unwrap();
    assert_eq!(fs::read(path).unwrap(), machine.library);
    assert_eq!(machine.calls().len(), 3);
}
