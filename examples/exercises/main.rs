//! Four measurement exercises: a model on each device, data parallelism with growing batches, the
//! benefit of prefetching, and a profile of training.
//!
//! ```text
//! cargo run --release -p exercises -- devices                    every device of every platform
//! cargo run --release -p exercises -- devices --platform cpu
//! cargo run --release -p exercises -- parallel                   until memory is exhausted
//! cargo run --release -p exercises -- pipeline                   0, 2 and 4 prefetched batches
//! cargo run --release -p exercises -- profile                    where the time of steps goes
//! ```
//!
//! All use the same model: linear layers 784-1024-1024-10, with 1024 images per batch by default.
//! README.md in this folder explains the results.

#![allow(clippy::print_stdout, reason = "an example shows its results")]

mod devices;
mod elastic;
mod parallel;
mod pipeline;
mod profile;

use clap::{Parser, Subcommand};
use oxidax::prelude::*;

/// Measures a small network.
#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Time to compile, time of the first call and of later calls, on each device.
    Devices(devices::Options),
    /// The loss on all devices at once, with growing batches on each.
    Parallel(parallel::Options),
    /// Steps fed from disk and from memory, with and without prefetching.
    Pipeline(pipeline::Options),
    /// A profile of training steps, as a table and for XProf and Perfetto.
    Profile(profile::Options),
}

/// Layer widths, from pixels to classes.
const SIZES: [usize; 4] = [784, 1024, 1024, 10];

/// Returns a model with random weights.
fn model() -> Result<nn::Mlp, Error> {
    // The first use of a device: report an error if there is none.
    let key = catch(|| random::key(0))?;
    jit(|key: random::Key| nn::Mlp::new(key, &SIZES)).call(key).map_err(Error::from)
}

/// Returns the mean squared distance of the logits from the one-hot labels. Images are `f32[b,
/// 784]`, labels `i32[b]`.
fn loss(model: &nn::Mlp, images: &Array, labels: &Array) -> Array {
    let targets = one_hot(labels, SIZES[3]);
    square(model.forward(images) - targets).sum_axes([-1]).mean()
}

fn main() -> anyhow::Result<()> {
    match Options::parse().command {
        Command::Devices(options) => options.run(),
        Command::Parallel(options) => options.run(),
        Command::Pipeline(options) => options.run(),
        Command::Profile(options) => options.run(),
    }
}
