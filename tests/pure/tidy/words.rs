//! Words that may not appear, or only in certain files.

use std::fs;
use std::path::Path;

use crate::tidy::sources::{Source, files_below, line_of, root, rust_below, words};

/// Files that may read the environment, each with the reason.
const READERS: &[(&str, &str)] = &[
    ("src/runtime/config.rs", "the library's one place for settings"),
    (
        "src/distributed/shared_programs_tests.rs",
        "a process of a test learns its part and its cache folder",
    ),
    ("crates/plugin/src/config.rs", "where plugins are and what the user forbids"),
    ("crates/pjrt/src/environment.rs", "what a plugin needs to be told while it starts"),
    ("crates/pjrt/src/plugin.rs", "plugins read how much to say before they can be told otherwise"),
    ("crates/cache/src/config.rs", "where compiled programs are kept, and how many"),
    ("crates/storage/src/config.rs", "where credentials are, and servers other than the clouds'"),
    ("crates/parity/src/mlp.rs", "a test learns the folder of an example's run"),
    ("crates/pjrt/src/xla_flags.rs", "a flag that a plugin does not know would abort the process"),
];

fn sources() -> Vec<Source> {
    ["src", "crates", "xtask", "tests", "examples", "benches", "docs"]
        .iter()
        .flat_map(|folder| rust_below(folder))
        .collect()
}

fn found(source: &Source, phrase: &str) -> Vec<String> {
    words(&source.code, phrase)
        .map(|at| format!("{}:{}: {phrase}", source.path, line_of(&source.code, at)))
        .collect()
}

#[test]
fn unsafe_code_lives_in_the_pjrt_crates_only() {
    let ours =
        |s: &Source| !s.path.starts_with("crates/pjrt/") && !s.path.starts_with("crates/pjrt-sys/");
    let wrong: Vec<String> =
        sources().iter().filter(|s| ours(s)).flat_map(|s| found(s, "unsafe")).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn crates_without_unsafe_code_forbid_it() {
    for file in [
        "src/lib.rs",
        "crates/cache/src/lib.rs",
        "crates/proto/src/lib.rs",
        "crates/jax-export/src/lib.rs",
        "crates/vhlo/src/lib.rs",
        "crates/storage/src/lib.rs",
        "crates/weights/src/lib.rs",
        "crates/plugin/src/lib.rs",
        "crates/models/src/lib.rs",
        "crates/parity/src/lib.rs",
        "crates/cli/src/main.rs",
    ] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        assert!(text.contains("#![forbid(unsafe_code)]"), "{file} does not forbid unsafe code");
    }
}

#[test]
fn no_todo_comments_remain() {
    let mut wrong: Vec<String> = sources()
        .iter()
        .flat_map(|s| ["todo!", "unimplemented!"].map(|phrase| found(s, phrase)).concat())
        .collect();
    for source in sources().iter().filter(|s| !s.path.starts_with("tests/pure/tidy/")) {
        for (number, line) in source.text.lines().enumerate() {
            let marked = words(line, "TODO").chain(words(line, "FIXME")).next().is_some();
            if marked && !line.contains('#') {
                wrong.push(format!("{}:{}: TODO without an issue", source.path, number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_environment_is_read_in_few_places() {
    let library = |s: &&Source| {
        s.path.starts_with("src/") || (s.path.starts_with("crates/") && s.path.contains("/src/"))
    };
    let mut wrong = Vec::new();
    for source in sources().iter().filter(library) {
        if READERS.iter().any(|(path, _)| *path == source.path) {
            continue;
        }
        for phrase in ["env::var", "env::vars", "env::var_os", "env::vars_os"] {
            wrong.extend(found(source, phrase));
        }
    }
    assert!(wrong.is_empty(), "settings come from one place:\n{}", wrong.join("\n"));
}

#[test]
fn the_environment_is_not_changed() {
    let banner = "crates/pjrt/src/plugin.rs";
    let wrong: Vec<String> = sources()
        .iter()
        .filter(|s| s.path != banner)
        .flat_map(|s| ["set_var", "remove_var"].map(|phrase| found(s, phrase)).concat())
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn file_names_are_not_generic() {
    const BANNED: &[&str] =
        &["util", "utils", "helper", "helpers", "common", "misc", "manager", "managers", "stdx"];
    for source in sources() {
        for part in source.path.trim_end_matches(".rs").split('/') {
            assert!(!BANNED.contains(&part), "{}: say what is in `{part}`", source.path);
        }
    }
    for source in sources() {
        for banned in BANNED {
            let wrong = found(&source, &format!("mod {banned}"));
            assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        }
    }
}

#[test]
fn no_host_of_a_registry_and_no_machine_of_ours_is_named() {
    // Assembled here, so that this file does not contain the words either. Packages are named;
    // their origin is configured in the user's own tools.
    let banned = [
        ["py", "pi.org"].concat(),
        ["python", "hosted.org"].concat(),
        ["crates", ".io"].concat(),
        ["npm", "js.org"].concat(),
        ["npm", "js.com"].concat(),
        ["deb.", "debian.org"].concat(),
        ["huggingface", ".co"].concat(),
        ["/wo", "rk/"].concat(),
    ];
    let mut wrong = Vec::new();
    for path in files_below("") {
        // Lock files name the registry because cargo writes it there.
        if Path::new(&path).file_name() == Some("Cargo.lock".as_ref()) {
            continue;
        }
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        for phrase in &banned {
            for (at, _) in text.match_indices(phrase.as_str()) {
                wrong.push(format!("{path}:{}: {phrase}", line_of(&text, at)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
