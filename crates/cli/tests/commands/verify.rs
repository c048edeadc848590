//! Tests of `oxidax verify`, with a script that answers as Python with JAX does.

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

/// Writes three cases of the fixture `special`, changed by `change`, to `folder/written`.
fn write_fixture(folder: &Path, change: impl FnOnce(&mut Value)) {
    let folder = folder.join("written");
    fs::create_dir_all(&folder).unwrap();
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
  cp -r FOLDER/written/* "$4"
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

/// Writes what JAX would for `y = x * x + x` of `x = [1, 2]`: the module with the last result and
/// the one with all, and the given results.
fn write_function(folder: &Path, squares: [f32; 2], sums: [f32; 2]) {
    let written = folder.join("written");
    let body = "%0 = stablehlo.multiply %arg0, %arg0 : tensor<2xf32>\n\
                %1 = stablehlo.add %0, %arg0 : tensor<2xf32>\n";
    let array = json!({"dtype": "f32", "shape": [2]});
    for (part, count, results) in [("whole", 1, "%1"), ("steps", 2, "%0, %1")] {
        let part = written.join(part);
        fs::create_dir_all(part.join("inputs")).unwrap();
        let types = vec!["tensor<2xf32>"; count].join(", ");
        let module = format!(
            "module @m {{\nfunc.func public @main(%arg0: tensor<2xf32>) -> ({types}) {{\n{body}\
             return {results} : {types}\n}}\n}}\n"
        );
        fs::write(part.join("module.mlir"), module).unwrap();
        let input = json!({"file": "inputs/000.npy", "path": "[0]", "sharding": null,
            "dtype": "f32", "shape": [2]});
        let manifest = json!({"name": "m", "devices": 1, "mesh": null, "inputs": [input],
            "results": vec![&array; count]});
        fs::write(part.join("reproducer.json"), manifest.to_string()).unwrap();
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
        let mut npy = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        npy.extend(format!("{header:<117}\n").as_bytes());
        npy.extend([1f32, 2.0].iter().flat_map(|x| x.to_le_bytes()));
        fs::write(part.join("inputs/000.npy"), npy).unwrap();
    }
    let case = |name: &str, outputs: &[&str]| json!({"name": name, "op": "f", "params": {}, "inputs": [], "outputs": outputs});
    let index = json!({"suite": "function", "jax": "0.10.2", "encoded": {},
        "tolerance": {"f32": {"rtol": 1e-5, "atol": 1e-6}}, "line": "model.py:1",
        "steps": [{"op": "mul", "line": "model.py:2"}, {"op": "add", "line": "model.py:3"}],
        "cases": [case("whole", &["sums"]), case("steps", &["squares", "sums"])]});
    fs::write(written.join("function.json"), index.to_string()).unwrap();
    let entry = |at: usize| json!({"dtype": "F32", "shape": [2], "data_offsets": [at, at + 8]});
    let header = json!({"squares": entry(0), "sums": entry(8)}).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend([squares, sums].concat().iter().flat_map(|x| x.to_le_bytes()));
    fs::write(written.join("function.safetensors"), file).unwrap();
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
        let written = folder.path().join("written");
        let (code, stdout, stderr) = verify(&["special", "--fixtures", written.to_str().unwrap()]);
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

    #[test]
    fn the_first_operation_that_differs_is_named() {
        let folder = folder();
        let python = write_python(folder.path(), "0.10.2");
        let arguments = ["model:f", "--args", "f32[2]", "--python", python.to_str().unwrap()];
        write_function(folder.path(), [1.0, 4.0], [2.0, 6.0]);
        let (code, stdout, stderr) = verify(&arguments);
        assert_eq!(code, Some(0), "{stdout}{stderr}");
        assert!(stdout.contains("model:f: equal bit for bit  model.py:1"), "{stdout}");

        write_function(folder.path(), [1.0, 4.0], [2.0, 7.0]);
        let (code, stdout, stderr) = verify(&arguments);
        assert_eq!(code, Some(1), "{stdout}{stderr}");
        for expected in [
            "model:f: different  model.py:1",
            "result 0 f32[2]: 1 of 2 differ, most at [1], by 1.4e-1: oxidax 6.0, JAX 7.0 (rtol 1e-5",
            "the first operation that differs: 1 add  model.py:3",
        ] {
            assert!(stdout.contains(expected), "`{expected}` in {stdout}");
        }
        write_function(folder.path(), [1.0, 5.0], [2.0, 7.0]);
        let (_, stdout, _) = verify(&arguments);
        assert!(stdout.contains("that differs: 0 mul  model.py:2"), "{stdout}");
    }
}
