//! Files stay small enough to be read in one sitting.

use crate::tidy::sources::{children, relative, root, rust_below, without_tests};

/// Number of lines of code, without tests, from which a file is too long.
const FAIL: usize = 800;
/// Number of lines from which a file is reported.
const WARN: usize = 500;

/// Files that may be longer, each with the reason.
const LONG: &[(&str, &str)] =
    &[("crates/pjrt-sys/src/bindings.rs", "generated: one file, as bindgen wrote it")];

#[test]
fn no_file_is_too_long() {
    let mut long = Vec::new();
    for folder in ["src", "crates", "xtask", "tests", "examples", "benches", "docs"] {
        for source in rust_below(folder) {
            if LONG.iter().any(|(path, _)| *path == source.path) {
                continue;
            }
            // The blanked tests leave trailing blanks.
            let lines = without_tests(&source.code).trim_end().lines().count();
            let written = source.text.lines().count().min(lines);
            if written > WARN {
                eprintln!("{}: {written} lines; think of parting it at {WARN}", source.path);
            }
            if written > FAIL {
                long.push(format!("{}: {written} lines, at most {FAIL}", source.path));
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn listed_long_files_exist() {
    for (path, reason) in LONG {
        let folder = path.rsplit_once('/').unwrap().0;
        // A generated file may be absent as long as its folder has not been generated either.
        if root().join(path).exists() {
            continue;
        }
        let empty = children(&root().join(folder)).len() <= 1;
        assert!(empty, "{path} ({reason}) is gone: take it off the list");
    }
}

#[test]
fn no_folder_is_empty() {
    let mut open: Vec<_> = ["src", "crates", "xtask", "tests", "examples", "benches", "docs"]
        .iter()
        .map(|folder| root().join(folder))
        .filter(|folder| folder.exists())
        .collect();
    while let Some(folder) = open.pop() {
        let inside = children(&folder);
        assert!(!inside.is_empty(), "{} is empty", relative(&folder));
        open.extend(inside.into_iter().filter(|path| path.is_dir()));
    }
}
