//! The `oxidax` command: writes projects, manages plugins and compiled programs, examines training
//! steps, makes pages of profiles, replays failed steps, runs, ports and compares functions of JAX,
//! converts weights, looks up names of JAX, and explains errors.
//!
//! It is a separate crate, so that its dependencies never reach users of the library.

#![forbid(unsafe_code)]

mod cache;
mod doctor;
mod explain;
mod jax_names;
mod new;
mod plugin;
mod port;
mod profile;
mod replay;
mod run;
mod verify;
mod weights;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The oxidax command.
#[derive(Debug, Parser)]
#[command(
    name = "oxidax",
    version,
    about = "Writes projects, manages PJRT plugins and compiled programs, examines training steps, \
             makes pages of profiles, replays failures, runs, ports and compares functions of JAX, \
             converts weights"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a new project: a program that trains, its test, and quick build profiles
    New(new::New),
    /// Show and clear the compiled programs on disk
    Cache {
        #[command(subcommand)]
        action: cache::Action,
    },
    /// Install, list and remove PJRT plugins
    Plugin {
        #[command(subcommand)]
        action: plugin::Action,
    },
    /// Report whether a training step of this crate fits on absent devices, its time, and advice
    Doctor(doctor::Doctor),
    /// Profile programs that run, and show profiles
    Profile {
        #[command(subcommand)]
        action: profile::Action,
    },
    /// Find the first operation that went wrong in a recorded failure
    Replay(replay::Replay),
    /// Run a function of `jax.export`, or a module of StableHLO or HLO
    Run(run::Run),
    /// List, map and convert weights of PyTorch, GGUF, safetensors, NumPy, Flax and Orbax
    Weights {
        #[command(subcommand)]
        action: weights::Action,
    },
    /// Turn a traced JAX function into a Rust program with a test
    Port(port::Port),
    /// Compare what JAX computes on this machine with what oxidax computes
    Verify(verify::Verify),
    /// Print the counterpart of a name of JAX, Flax or Optax: `oxidax jax jnp.einsum`
    Jax(jax_names::Name),
    /// Print the manual page of an error: `oxidax explain shape`
    Explain(explain::Explain),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::New(new) => new::run(&new).map(|()| ExitCode::SUCCESS),
        Command::Cache { action } => cache::run(action).map(|()| ExitCode::SUCCESS),
        Command::Plugin { action } => plugin::run(action).map(|()| ExitCode::SUCCESS),
        Command::Doctor(doctor) => doctor::run(&doctor),
        Command::Profile { action } => profile::run(&action).map(|()| ExitCode::SUCCESS),
        Command::Replay(replay) => replay::run(&replay),
        Command::Run(run) => run::run(&run).map(|()| ExitCode::SUCCESS),
        Command::Weights { action } => weights::run(&action).map(|()| ExitCode::SUCCESS),
        Command::Port(port) => port::run(&port).map(|()| ExitCode::SUCCESS),
        Command::Verify(verify) => verify::run(&verify),
        Command::Jax(name) => jax_names::run(&name).map(|()| ExitCode::SUCCESS),
        Command::Explain(explain) => explain::run(&explain).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}
