//! The `oxidax` command: looks after the plugins of this machine.
//!
//! It lives in a crate of its own so that its dependencies never reach users of the library.

#![forbid(unsafe_code)]

mod plugin;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The oxidax command.
#[derive(Debug, Parser)]
#[command(name = "oxidax", version, about = "Looks after the PJRT plugins that oxidax runs on")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install, list and remove PJRT plugins
    Plugin {
        #[command(subcommand)]
        action: plugin::Action,
    },
}

fn main() -> ExitCode {
    let Command::Plugin { action } = Cli::parse().command;
    match plugin::run(action) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
