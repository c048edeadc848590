//! The `oxidax` command: looks after the plugins and the compiled programs of this machine.
//!
//! It lives in a crate of its own so that its dependencies never reach users of the library.

#![forbid(unsafe_code)]

mod cache;
mod plugin;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The oxidax command.
#[derive(Debug, Parser)]
#[command(
    name = "oxidax",
    version,
    about = "Looks after the PJRT plugins that oxidax runs on, and what they have compiled"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show and clear the compiled programs that are kept on disk
    Cache {
        #[command(subcommand)]
        action: cache::Action,
    },
    /// Install, list and remove PJRT plugins
    Plugin {
        #[command(subcommand)]
        action: plugin::Action,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Cache { action } => cache::run(action),
        Command::Plugin { action } => plugin::run(action),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
