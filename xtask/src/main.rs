//! Tasks of this workspace: `cargo xtask check` while working, `cargo xtask ci` before a merge.

mod bindings;
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
    /// Write crates/pjrt-sys/src/bindings.rs anew from a PJRT C header
    Bindings {
        /// The pjrt_c_api.h inside an unpacked include tree
        #[arg(long)]
        header: PathBuf,
    },
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::Check => check::run(),
        Task::Ci => ci::run(),
        Task::Bindings { header } => bindings::run(&header),
    }
}

/// The root of the workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a folder of the workspace").to_owned()
}
