//! `cargo xtask stores`: tests of object stores against servers on this machine.

use anyhow::{Context as _, Result, ensure};
use std::process::Command;

use crate::{root, tpu};

/// The tests of the storage crate without clients for object stores.
const WITHOUT_CLIENTS: &[&str] = &["test", "--package=oxidax-storage", "--lib"];

/// The tests of the storage crate that need servers; `cargo test` ignores them. The whole workspace
/// is selected, because the dependencies of fewer packages have other features and would be built
/// again.
const STORAGE: &[&str] = &["test", "--workspace", "--test=servers", "--", "--include-ignored"];

/// Data, metrics, checkpoints and models in object stores.
const LIBRARY: &[&str] = &[
    "test",
    "--workspace",
    "--test=processes",
    "--test=gpt2",
    "stores::",
    "--",
    "--include-ignored",
];

/// Installs an S3 server and an emulator of Google Cloud Storage with pip, and runs the tests that
/// need them.
pub(crate) fn check() -> Result<()> {
    let script = "python-compat/stores.sh";
    let status = Command::new("sh").arg(script).current_dir(root()).status();
    let status = status.with_context(|| format!("starting {script}"))?;
    ensure!(status.success(), "{script} ended with {status}");
    tpu::run_tests(WITHOUT_CLIENTS, &[])?;
    tpu::run_tests(STORAGE, &[])?;
    tpu::run_tests(LIBRARY, &[])
}
