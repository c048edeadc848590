//! Tasks of this workspace; `cargo xtask --help` lists them.

#[cfg(feature = "bindings")]
mod bindings;
mod check;
mod ci;
mod features;
mod fuzz;
mod gpu;
mod licences;
mod sizes;
mod step;
mod tpu;

use std::path::{Path, PathBuf};
#[cfg(not(feature = "bindings"))]
use std::process::Command;
use std::process::ExitCode;

#[cfg(not(feature = "bindings"))]
use anyhow::Context as _;
use clap::Parser;

/// Checks, CI and generators of the oxidax workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Checks, CI and generators of the oxidax workspace")]
enum Task {
    /// The fast checks, cheapest first; stops at the first that fails
    Check,
    /// Everything that CI runs; goes on after a failure
    Ci,
    /// Check properties of random programs that nobody has run yet
    Fuzz {
        /// How many programs
        #[arg(long, default_value_t = 10_000)]
        count: u64,
        /// The seed of the first one; the clock chooses without it
        #[arg(long)]
        first: Option<u64>,
    },
    /// Check that the library compiles without features and with each alone
    Features,
    /// The tests that compile for GPUs with the CUDA plugin, without one
    Gpu,
    /// The tests that compile for TPUs with libtpu, without one
    Tpu,
    /// Write crates/pjrt-sys/src/bindings.rs from a PJRT C header
    Bindings {
        /// The pjrt_c_api.h inside an unpacked include tree
        #[arg(long)]
        header: PathBuf,
    },
}

fn main() -> ExitCode {
    let outcome = match Task::parse() {
        Task::Check => check::run(),
        Task::Ci => ci::run(),
        Task::Fuzz { count, first } => fuzz::run(count, first),
        Task::Features => features::check(),
        Task::Gpu => gpu::compile_only(),
        Task::Tpu => tpu::compile_only(),
        Task::Bindings { header } => write_bindings(&header),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "bindings")]
fn write_bindings(header: &Path) -> anyhow::Result<()> {
    bindings::run(header)
}

/// Starts the same task with bindgen compiled in.
#[cfg(not(feature = "bindings"))]
fn write_bindings(header: &Path) -> anyhow::Result<()> {
    let status = Command::new("cargo")
        .args(["run", "--package", "xtask", "--features", "bindings", "--", "bindings"])
        .arg("--header")
        .arg(header)
        .status()
        .context("starting cargo")?;
    anyhow::ensure!(status.success(), "writing the bindings failed ({status})");
    Ok(())
}

/// The root of the workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a folder of the workspace").to_owned()
}
