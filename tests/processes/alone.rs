//! Runs a test in a separate process, because it measures the memory of the whole process or needs
//! an environment variable.

use std::process::Command;

/// Names the test that a child process runs.
const ALONE: &str = "OXIDAX_TEST_ALONE";

/// Runs `body` in a new process of this binary. `test` is the full name of the calling test.
#[track_caller]
pub(crate) fn alone(test: &str, body: impl FnOnce()) {
    alone_with(test, &[], body);
}

/// Runs `body` as [`alone`] does, in a process with these environment variables.
#[track_caller]
pub(crate) fn alone_with(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var(ALONE).as_deref() == Ok(test) {
        return body();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, test)
        .envs(variables.iter().copied())
        // With another allocator than the C library's, other numbers are measured.
        .env_remove("LD_PRELOAD")
        .output()
        .unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|x| String::from_utf8(x).unwrap());
    assert!(output.status.success(), "{test} failed in its own process:\n{out}\n{err}");
    assert!(out.contains("1 passed"), "no test is named {test}:\n{out}");
}
