//! `cargo xtask gpu`: compiles programs for GPUs on a machine without one.

use anyhow::Result;

use crate::tpu;

/// Tests that need the CUDA plugin, which they find in the cache; `cargo test` ignores them.
const TESTS: [&str; 9] =
    ["test", "--workspace", "--test", "suite", "--test", "platforms", "gpu::", "--", "--ignored"];

/// Installs the pinned CUDA plugin with its tools (253 MiB to download, 427 MiB on disk) and runs
/// the tests that need them.
pub(crate) fn compile_only() -> Result<()> {
    tpu::install("cuda")?;
    tpu::run_tests(&TESTS, &[])
}
