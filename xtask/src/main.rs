//! Tasks of this workspace; `cargo xtask --help` lists them.

mod advisories;
#[cfg(feature = "api")]
mod api;
mod bench;
mod benchmarks;
#[cfg(feature = "bindings")]
mod bindings;
mod budgets;
mod check;
mod ci;
mod features;
mod fuzz;
mod gallery;
mod gpu;
mod licences;
mod package;
mod profile_page;
mod sizes;
mod step;
mod stores;
mod tpu;

use std::path::{Path, PathBuf};
#[cfg(not(all(feature = "api", feature = "bindings")))]
use std::process::Command;
use std::process::ExitCode;

#[cfg(not(all(feature = "api", feature = "bindings")))]
use anyhow::Context as _;
use clap::Parser;

/// Checks, CI and generators of the oxidax workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Checks, CI and generators of the oxidax workspace")]
enum Task {
    /// The fast checks, cheapest first; stops at the first that fails
    Check,
    /// Everything that CI runs; goes on after a failure
    Ci {
        /// Run only the checks that a second process runs beside the others
        #[arg(long)]
        beside: bool,
    },
    /// Measure models beside other libraries, and write docs/benchmarks-models.md with its chart
    Benchmarks {
        /// Read the output of benchmarks from these files instead of running them
        #[arg(long)]
        from: Vec<PathBuf>,
        /// Measure a few models briefly, and write to the target folder
        #[arg(long)]
        quick: bool,
    },
    /// Compare the benchmarks' figures with the budgets of docs/benchmarks.md
    Budgets {
        /// The benchmarks; all that have a budget without it
        benchmarks: Vec<String>,
        /// Read the output of benchmarks from this file instead of running them
        #[arg(long)]
        from: Option<PathBuf>,
        /// Measure briefly, and only check that every budget finds its figures
        #[arg(long)]
        quick: bool,
    },
    /// Check properties of random programs that nobody has run yet
    Fuzz {
        /// Number of programs
        #[arg(long, default_value_t = 10_000)]
        count: u64,
        /// The seed of the first one; the clock chooses without it
        #[arg(long)]
        first: Option<u64>,
        /// Read mutated files of weights instead, this number for each format
        #[arg(long)]
        weights: bool,
    },
    /// Check that the library and the models compile without features and with each alone
    Features,
    /// Run the examples and write docs/gallery.md with their results and pictures
    Gallery {
        /// The programs to run; all without it
        names: Vec<String>,
    },
    /// The tests that compile for GPUs with the CUDA plugin, without one
    Gpu,
    /// The page of the exercises' profile, in Chromium, which apt-get installs
    ProfilePage,
    /// The tests of object stores, against servers that pip installs
    Stores,
    /// The tests that compile for TPUs with libtpu, without one
    Tpu,
    /// Compare Cargo.lock with the RustSec advisory database
    Advisories {
        /// A clone of the database [cloned from its public address]
        #[arg(long)]
        database: Option<PathBuf>,
    },
    /// Compare the public APIs with docs/api*.txt
    Api {
        /// Write the files instead
        #[arg(long)]
        update: bool,
    },
    /// Build with the oldest versions of direct dependencies that the manifests allow
    MinimalVersions,
    /// Pack the published crates and build them from their packages
    Package,
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
        Task::Ci { beside: false } => ci::run(),
        Task::Ci { beside: true } => ci::run_beside(),
        Task::Benchmarks { from, quick } => benchmarks::run(&benchmarks::Options { from, quick }),
        Task::Budgets { benchmarks, from, quick } => {
            budgets::run(&budgets::Options { benchmarks, from, quick })
        }
        Task::Fuzz { count, first, weights: false } => fuzz::run(count, first),
        Task::Fuzz { count, first, weights: true } => fuzz::run_weights(count, first),
        Task::Features => features::check(),
        Task::Gallery { names } => gallery::run(&names),
        Task::Gpu => gpu::compile_only(),
        Task::ProfilePage => profile_page::check(),
        Task::Stores => stores::check(),
        Task::Tpu => tpu::compile_only(),
        Task::Advisories { database } => advisories::check(database),
        Task::Api { update } => public_api(update),
        Task::MinimalVersions => package::minimal_versions(),
        Task::Package => package::check(),
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

#[cfg(not(feature = "bindings"))]
fn write_bindings(header: &Path) -> anyhow::Result<()> {
    run_with_feature("bindings", &["bindings".as_ref(), "--header".as_ref(), header.as_ref()])
}

#[cfg(feature = "api")]
fn public_api(update: bool) -> anyhow::Result<()> {
    api::run(update)
}

#[cfg(not(feature = "api"))]
fn public_api(update: bool) -> anyhow::Result<()> {
    let update = update.then_some("--update".as_ref());
    run_with_feature("api", &["api".as_ref()].into_iter().chain(update).collect::<Vec<_>>())
}

/// Starts a task of xtask with a feature that is not compiled in.
#[cfg(not(all(feature = "api", feature = "bindings")))]
fn run_with_feature(feature: &str, arguments: &[&std::ffi::OsStr]) -> anyhow::Result<()> {
    let status = Command::new("cargo")
        .args(["run", "--quiet", "--package", "xtask", "--features", feature, "--"])
        .args(arguments)
        .status()
        .context("starting cargo")?;
    anyhow::ensure!(status.success(), "`cargo xtask {feature}` failed ({status})");
    Ok(())
}

/// The root of the workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a folder of the workspace").to_owned()
}
