//! Tests of `oxidax port`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::user::User;

fn recorded(name: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    crates.join("port/tests/data").join(name)
}

#[test]
fn a_program_is_printed() {
    let user = User::new();
    let file = recorded("lstm.json");
    let outcome = user.oxidax(&["port", file.to_str().unwrap()]);
    assert!(outcome.succeeded, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("pub fn lstm(params: &Params, xs: &Array)"));
    assert!(outcome.stdout.contains("fn lstm_agrees_with_jax()"));
}

#[test]
fn a_package_has_the_program_and_the_recorded_arrays() {
    let user = User::new();
    let file = recorded("lstm.json");
    let arguments = ["port", file.to_str().unwrap(), "-o", "mine", "--tolerance", "1e-4"];
    let outcome = user.oxidax(&arguments);
    assert!(outcome.succeeded, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("cd mine && cargo test"), "{}", outcome.stderr);
    let folder = user.path("mine");
    let source = fs::read_to_string(folder.join("src/lib.rs")).unwrap();
    assert!(source.contains("\"/data/lstm.safetensors\"") && source.contains("0.0001"), "{source}");
    let arrays = fs::read(folder.join("data/lstm.safetensors")).unwrap();
    assert_eq!(arrays, fs::read(recorded("lstm.safetensors")).unwrap());
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    assert!(manifest.starts_with("[package]\nname = \"ported-lstm\"\n"), "{manifest}");
    assert!(manifest.contains("oxidax = { path = "), "{manifest}");
    // An existing folder is not changed.
    let again = user.oxidax(&arguments);
    assert!(!again.succeeded && again.stderr.contains("exists already"), "{}", again.stderr);
}

#[test]
fn a_missing_file_of_arrays_leaves_nothing() {
    let user = User::new();
    fs::copy(recorded("gelu.json"), user.path("gelu.json")).unwrap();
    let outcome = user.oxidax(&["port", "gelu.json", "-o", "gelu"]);
    assert!(!outcome.succeeded && outcome.stderr.contains("gelu.safetensors"));
    assert!(!user.path("gelu").exists());
}

#[test]
fn errors_name_the_file_and_the_remedy() {
    let user = User::new();
    let missing = user.oxidax(&["port", "nothing.json"]);
    assert!(!missing.succeeded && missing.stderr.contains("port.py"), "{}", missing.stderr);
    fs::write(user.path("other.json"), "{\"format\":\"other\"}").unwrap();
    let other = user.oxidax(&["port", "other.json"]);
    assert!(!other.succeeded && other.stderr.contains("oxidax-port"), "{}", other.stderr);
}
