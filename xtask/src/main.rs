//! Workspace tasks.

use std::path::PathBuf;

use clap::Parser;

mod bindings;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks, CI and generators of the oxidax workspace")]
enum Task {
    /// Write crates/pjrt-sys/src/bindings.rs anew from a PJRT C header.
    Bindings {
        /// The pjrt_c_api.h inside an unpacked include tree.
        #[arg(long)]
        header: PathBuf,
    },
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::Bindings { header } => bindings::run(&header),
    }
}
