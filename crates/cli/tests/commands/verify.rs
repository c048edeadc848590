//! Tests of `oxidax verify`, with a script in place of the user's Python.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Runs `oxidax verify` with the environment of the tests, which has a plugin.
fn verify(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxidax"));
    let output = command.arg("verify").args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Writes three cases of the fixture `special`, changed by `change`.
fn write_fixture(folder: &Path, change: impl FnOnce(&mut Value)) {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python-compat/fixtures/special");
    let text = fs::read(format!("{fixtures}.json")).unwrap();
    let mut index: Value = serde_json::from_slice(&text).unwrap();
    let cases = index["cases"].as_array_mut().unwrap();
    let names = ["lgamma_f32", "lgamma_empty", "digamma_f32"];
    cases.retain(|case| names.iter().any(|name| case["name"] == *name));
    change(&mut index);
    fs::write(folder.join("special.json"), index.to_string()).unwrap();
    fs::copy(format!("{fixtures}.safetensors"), folder.join("special.safetensors")).unwrap();
}

/// Writes a script that answers as a Python with JAX does: its version, and the fixture.
fn write_python(folder: &Path, version: &str) -> PathBuf {
    let reports = [
        json!({"versions": {"python": "3.11", "jax": version, "jaxlib": version, "numpy": "2.4",
            "device": "cpu:0"}}),
        json!({"suite": "ops", "error": "ImportError: no flax"}),
        json!({"suite": "special", "failures": {"zeta": "AttributeError: zeta"}}),
    ];
    let reports: Vec<String> = reports.iter().map(Value::to_string).collect();
    let script = r#"#!/bin/sh
if [ "$1" = -m ]; then
  test -f "${PYTHONPATH%%:*}/oxidax_compat/__main__.py" || exit 3
  cp FOLDER/special.* "$4"
  cat <<'END'
printed by a module
REPORTS
END
else
  case "$2" in *jaxlib*) echo '{"python": "3.11", "jax": "VERSION"}' ;; esac
fi
"#;
    let script = script.replace("FOLDER", folder.to_str().unwrap());
    let script = script.replace("REPORTS", &reports.join("\n")).replace("VERSION", version);
    let path = folder.join("python3");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_python_without_jax_is_named_with_the_reason() {
    let folder = folder();
    let missing = folder.path().join("missing");
    let (code, _, stderr) = verify(&["ops", "--python", missing.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("missing (--python): it does not start"), "{stderr}");
    let old = write_python(folder.path(), "0.4.30");
    let (code, _, stderr) = verify(&["ops", "--python", old.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("with JAX 0.4.30, which is older than 0.4.31"), "{stderr}");
    assert!(stderr.contains("pip install jax"), "{stderr}");
}

#[test]
fn unknown_suites_are_refused() {
    let (code, _, stderr) = verify(&["opps"]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("`opps` is neither a function"), "{stderr}");
}

mod on_cpu {
    use super::*;

    #[test]
    fn equal_results_are_a_success() {
        let folder = folder();
        write_fixture(folder.path(), |_| ());
        let python = write_python(folder.path(), "0.10.2");
        let (code, stdout, stderr) =
            verify(&["ops", "special", "--python", python.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{stdout}{stderr}");
        for expected in [
            "JAX 0.10.2 (jaxlib 0.10.2, NumPy 2.4, Python 3.11,",
            "ops             not computed by JAX: ImportError: no flax",
            "special zeta: not computed by JAX: AttributeError: zeta",
        ] {
            assert!(stdout.contains(expected), "`{expected}` in {stdout}");
        }
        let row = stdout.lines().find(|line| line.starts_with("special ")).unwrap();
        assert_eq!(row.split_whitespace().nth(1), Some("3"), "{stdout}");
    }

    #[test]
    fn differences_name_case_values_tolerance_and_line() {
        let folder = folder();
        write_fixture(folder.path(), |index| {
            // `digamma` is compared with `lgamma`, and the first case has another operation.
            index["cases"][2]["op"] = json!("lgamma");
            index["cases"][2]["line"] = json!("special_suite.py:12");
            index["cases"][0]["op"] = json!("no_such_operation");
        });
        let fixtures = folder.path().to_str().unwrap();
        let (code, stdout, stderr) = verify(&["special", "--fixtures", fixtures]);
        assert_eq!(code, Some(1), "{stdout}{stderr}");
        for expected in [
            "special digamma_f32: lgamma  recorder/special_suite.py:12",
            "result 0 f32[",
            " differ, most at [",
            "(rtol 3e-5, atol 1e-6)",
            "special lgamma_f32: no_such_operation  special.json:",
            "not computed: no operation is called no_such_operation",
        ] {
            assert!(stdout.contains(expected), "`{expected}` in {stdout}");
        }
        let row = stdout.lines().find(|line| line.starts_with("all ")).unwrap();
        let counts: Vec<&str> = row.split_whitespace().skip(1).collect();
        assert_eq!((counts[0], counts[3], counts[5]), ("3", "1", "1"), "{stdout}");
    }
}
