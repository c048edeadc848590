//! Tests of `oxidax replay` and `oxidax explain`.

use std::path::Path;
use std::process::{Command, Output};

use oxidax::prelude::*;
use oxidax::replay::record_failures;

use crate::user::User;

/// Runs the command with the environment of the tests, which has a plugin.
fn oxidax(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_oxidax")).args(arguments).output();
    let Output { status, stdout, stderr } = output.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_failure_is_replayed_and_reproduced() {
    let folder = tempfile::tempdir().unwrap();
    let at = line!() + 2;
    let step = |x: Array, d: Array| {
        let y = sqrt(&(&x - d));
        (y, ())
    };
    let roots = jit(move |x: Array, ds: Array| scan(step, x, ds).0).name("roots");
    let ds = Array::from_slice(&[1.0f32, 1.0, 5.0], [3]).unwrap();
    record_failures(folder.path(), || debug::nan_check(|| roots.call(full([], 10.0f32), &ds)))
        .unwrap_err();
    let file = folder.path().join("roots-1.failure");
    let reproducer = folder.path().join("reproducer");
    let arguments = ["replay", text(&file), "--reproducer", text(&reproducer)];
    let (code, stdout, stderr) = oxidax(&arguments);
    assert_eq!(code, Some(1), "{stderr}");
    for expected in [
        "error[value]: sqrt: made a NaN",
        "`roots` was recorded because `nan_check` found a NaN in its results; 7 operations ran",
        "sqrt makes a NaN of operands without one",
        &format!("tests/commands/replay.rs:{at}:"),
        "in scan: body, iteration 2 of 3",
        "operand 0: f32[]  -3.58",
        "result 0:  f32[]  no finite number, 1 NaN",
        "wrote a reproducer of ",
    ] {
        assert!(stdout.contains(expected), "`{expected}` in {stdout}");
    }

    let readme = std::fs::read_to_string(reproducer.join("README.md")).unwrap();
    let command = format!("oxidax replay {}", reproducer.display());
    assert!(readme.contains(&command), "{readme}");
    for (folder, n_inputs) in [(reproducer.clone(), 2), (reproducer.join("operation"), 1)] {
        let inputs = std::fs::read_dir(folder.join("inputs")).unwrap().count();
        assert_eq!(inputs, n_inputs);
        let (code, stdout, stderr) = oxidax(&["replay", text(&folder)]);
        assert_eq!(code, Some(1), "{stderr}");
        assert_eq!(stdout, "result 0: f32[]  no finite number, 1 NaN\n");
    }

    let (code, stdout, _) = oxidax(&["replay", text(&file), "--program"]);
    assert_eq!(code, Some(0));
    assert!(stdout.contains("= scan[") && stdout.contains("source lines"), "{stdout}");
}

#[test]
fn a_program_over_eight_devices_gets_eight() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("step.failure");
    let mesh = Mesh::without_devices([("x", 8)]).unwrap().explicit();
    let rows = mesh.sharding(p!["x"]).unwrap();
    let step = jit(|x: Array| log(&x)).in_shardings(&rows).name("step");
    step.record(&file, ones([8])).unwrap();
    let (code, stdout, stderr) = oxidax(&["replay", text(&file)]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("no operation went wrong"), "{stdout}");
    // In this process there is one device.
    let error = oxidax::replay::Recording::open(&file).unwrap().replay().unwrap_err();
    assert!(error.to_string().contains("needs 8 CPU devices, and this process has 1"), "{error}");
}

#[test]
fn other_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.failure");
    std::fs::write(&file, [0; 100]).unwrap();
    let (code, _, stderr) = oxidax(&["replay", text(&file)]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("x.failure") && stderr.contains("not a recorded failure"), "{stderr}");
    let (code, _, stderr) = oxidax(&["replay", text(folder.path())]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("reproducer.json"), "{stderr}");
}

#[test]
fn errors_are_explained() {
    let user = User::new();
    for code in Error::CODES {
        let outcome = user.oxidax(&["explain", code]);
        assert!(outcome.succeeded, "{}", outcome.stderr);
        assert!(outcome.stdout.starts_with(&format!("error[{code}]\n\n")), "{}", outcome.stdout);
        assert!(outcome.stdout.contains("\nFix. "), "{}", outcome.stdout);
    }
    assert!(user.oxidax(&["explain", "error[dtype]:"]).stdout.contains("astype"));
    let wrong = user.oxidax(&["explain", "colour"]);
    assert!(!wrong.succeeded);
    let list = user.oxidax(&["explain"]).stdout;
    for code in Error::CODES {
        assert!(wrong.stderr.contains(&format!("\n  {code} ")), "{}", wrong.stderr);
        assert!(list.contains(&format!("  {code} ")), "{list}");
    }
}
