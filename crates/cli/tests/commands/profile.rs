//! Tests of `oxidax profile`.

use std::process::{Command, Output};

use oxidax::profile::{ProfileSession, TraceAnnotation};

fn oxidax(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_oxidax")).args(arguments).output();
    let Output { status, stdout, stderr } = output.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_profile_becomes_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let session = ProfileSession::start().unwrap();
    TraceAnnotation::new("read <all>").scope(|| ());
    session.stop().save(folder.path()).unwrap();
    let (code, stdout, stderr) = oxidax(&["profile", "report", dir]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let page = folder.path().join("report.html");
    assert_eq!(stdout.trim(), page.to_str().unwrap());
    assert!(std::fs::read_to_string(page).unwrap().contains("read &lt;all&gt;"));
    let other = folder.path().join("other.html");
    let (code, ..) = oxidax(&["profile", "report", dir, "--out", other.to_str().unwrap()]);
    assert_eq!((code, other.exists()), (Some(0), true));
}

#[test]
fn errors_name_the_folder_and_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let (code, stdout, stderr) = oxidax(&["profile", "report", dir]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("there is no profile in ") && stderr.contains(dir), "{stderr}");
    ProfileSession::start().unwrap().stop().save(folder.path()).unwrap();
    let (code, _, stderr) = oxidax(&["profile", "report", dir, "--out", dir]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains(&format!("cannot write {dir}: ")), "{stderr}");
}
