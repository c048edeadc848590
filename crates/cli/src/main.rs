//! The `oxidax` command: looks after the plugins and the compiled programs of this machine, and examines training steps.
//!
//! It lives in a crate of its own so that its dependencies never reach users of the library.

#![forbid(unsafe_code)]

mod cache;
mod doctor;
mod plugin;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The oxidax command.
#[derive(Debug, Parser)]
#[command(
    name = "oxidax",
    version,
    about = "Looks after the PJRT plugins that oxidax runs on and what they have compiled, and examines steps"
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
    /// Say whether a training step of this crate fits on devices that need not be here, how long it takes, and what to change
    Doctor(doctor::Doctor),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Cache { action } => cache::run(action).map(|()| ExitCode::SUCCESS),
        Command::Plugin { action } => plugin::run(action).map(|()| ExitCode::SUCCESS),
        Command::Doctor(doctor) => doctor::run(&doctor),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}
