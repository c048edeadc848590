//! The functions of `python-compat/port_functions.py` are ported to the sources in `tests/ported`,
//! which are compiled and run by another test.
//!
//! `UPDATE_EXPECT=1 cargo test -p oxidax-port --test golden` writes them again.

use std::fs;
use std::path::{Path, PathBuf};

use oxidax_port::{Options, port, rustfmt};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(folder("data")).expect("the recorded functions");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn functions_are_ported_to_the_committed_sources() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut options = Options::default();
    options.data_folder = "tests/data/".into();
    let names = names();
    assert!(names.len() >= 30, "{} functions", names.len());
    let mut wrong = Vec::new();
    for name in &names {
        let bytes = fs::read(folder("data").join(format!("{name}.json"))).expect("the file");
        let ported = match port(&bytes, &options) {
            Ok(ported) => ported,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        let Some(source) = rustfmt(&ported.source) else {
            wrong.push(format!("{name}: rustfmt refuses it:\n{}", ported.source));
            continue;
        };
        let path = folder("ported").join(format!("{name}.rs"));
        if update {
            fs::write(&path, &source).expect("the source is written");
        } else if fs::read_to_string(&path).expect("the committed source") != source {
            wrong.push(format!("{name}: {} differs", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}\nset UPDATE_EXPECT=1 to write them again", wrong.join("\n"));
}

#[test]
fn every_source_is_compiled() {
    let main = fs::read_to_string(folder("ported").join("main.rs")).expect("the test");
    for name in names() {
        assert!(main.contains(&format!("mod {name};")), "{name} is not in tests/ported/main.rs");
    }
}

#[test]
fn the_guide_shows_a_committed_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/guide/src/porting-from-jax.md")).expect("a page");
    let source = fs::read_to_string(folder("ported").join("mlp_loss.rs")).expect("the source");
    let (_, program) = source.split_once("use oxidax::prelude::*;\n").expect("its imports");
    let (program, _) = program.split_once("#[cfg(test)]").expect("its test");
    assert!(page.contains(program.trim()), "copy tests/ported/mlp_loss.rs to the guide's page");
}
