//! The `oxidax` command: looks after the plugins of this machine, and examines training steps.
//!
//! It lives in a crate of its own so that its dependencies never reach users of the library.

#![forbid(unsafe_code)]

mod doctor;
mod plugin;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The oxidax command.
#[derive(Debug, Parser)]
#[command(name = "oxidax", version, about = "Looks after what oxidax runs on, and examines steps")]
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
    /// Say whether a training step of this crate fits on devices that need not be here, how long it takes, and what to change
    Doctor(doctor::Doctor),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Plugin { action } => plugin::run(action).map(|()| ExitCode::SUCCESS),
        Command::Doctor(doctor) => doctor::run(&doctor),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}
