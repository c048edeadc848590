//! `cargo xtask stores`: tests of object stores against servers on this machine.

use anyhow::{Context as _, Result, ensure};
use std::process::Command;

use crate::{root, tpu};

/// Tests that need the servers; `cargo test` ignores them.
const TESTS: [&str; 9] = [
    "test",
    "--workspace",
    "--test",
    "servers",
    "--test",
    "processes",
    "--",
    "--ignored",
    // Runs for an hour.
    "--skip=a_million_manifests",
];

/// Installs an S3 server and an emulator of Google Cloud Storage with pip (40 MiB to download,
/// 170 MiB on disk), and runs the tests that need them.
pub(crate) fn check() -> Result<()> {
    let script = "python-compat/stores.sh";
    let status = Command::new("sh").arg(script).current_dir(root()).status();
    let status = status.with_context(|| format!("starting {script}"))?;
    ensure!(status.success(), "{script} ended with {status}");
    tpu::run_tests(&TESTS, &[])
}
