//! `cargo xtask stores`: tests of object stores against servers on this machine.

use anyhow::{Context as _, Result, ensure};
use std::process::Command;

use crate::{root, tpu};

/// The tests of the storage crate. Those that need servers are ignored by `cargo test`.
const STORAGE: &[&str] =
    &["test", "--package=oxidax-storage", "--features=remote", "--lib", "--test=servers"];

/// The tests of the storage crate without clients for object stores.
const WITHOUT_CLIENTS: &[&str] = &["test", "--package=oxidax-storage", "--lib"];

/// Data, metrics and checkpoints in object stores.
const LIBRARY: &[&str] = &["test", "--package=oxidax", "--test=processes", "stores::"];

/// Models in object stores.
const MODELS: &[&str] = &["test", "--package=oxidax-models", "--test=gpt2", "stores::"];

/// Installs an S3 server and an emulator of Google Cloud Storage with pip, and runs the tests that
/// need them.
pub(crate) fn check() -> Result<()> {
    let script = "python-compat/stores.sh";
    let status = Command::new("sh").arg(script).current_dir(root()).status();
    let status = status.with_context(|| format!("starting {script}"))?;
    ensure!(status.success(), "{script} ended with {status}");
    tpu::run_tests(WITHOUT_CLIENTS, &[])?;
    for tests in [STORAGE, LIBRARY, MODELS] {
        let ignored_too = [tests, &["--", "--include-ignored"]].concat();
        tpu::run_tests(&ignored_too, &[])?;
    }
    Ok(())
}
