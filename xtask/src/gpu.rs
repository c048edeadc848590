//! Programs compiled for GPUs on a machine without one.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::{root, tpu};

/// Tests that need the CUDA plugin, which they find in the cache. Of the whole workspace, as those with libtpu.
const TESTS: [&str; 9] = [
    "test",
    "--workspace",
    "--features",
    "oxidax/cuda-tests,oxidax-pjrt/cuda-tests",
    "--test",
    "suite",
    "--test",
    "gpus",
    "gpu::",
];

/// Installs the pinned plugin and what it compiles with (246 MiB to download, 426 MiB on disk), if they are not there yet,
/// and runs the tests that need them.
pub(crate) fn compile_only() -> Result<()> {
    tpu::install("cuda")?;
    eprintln!("$ cargo {}", TESTS.join(" "));
    let status = Command::new("cargo")
        .args(TESTS)
        .current_dir(root())
        .status()
        .context("starting cargo test")?;
    ensure!(status.success(), "the tests with the CUDA plugin ended with {status}");
    Ok(())
}
