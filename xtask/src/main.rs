//! Tasks of this workspace: `cargo xtask check` while working, `cargo xtask ci` before a merge.

mod check;
mod ci;
mod licences;
mod sizes;
mod step;

use std::path::{Path, PathBuf};

use clap::Parser;

/// Checks, CI and generators of the oxidax workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Checks, CI and generators of the oxidax workspace")]
enum Task {
    /// The fast checks, cheapest first; stops at the first that fails
    Check,
    /// Everything that CI runs; goes on after a failure
    Ci,
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::Check => check::run(),
        Task::Ci => ci::run(),
    }
}

/// The root of the workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a folder of the workspace").to_owned()
}
