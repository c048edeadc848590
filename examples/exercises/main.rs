//! Three measurement exercises: compile time against run time, the benefit of prefetching, and a
//! good batch size for several devices.
//!
//! ```text
//! cargo run --release -p exercises -- platforms                 every platform that has a plugin
//! cargo run --release -p exercises -- platforms --platform cpu
//! cargo run --release -p exercises -- pipeline                  0, 2 and 4 prefetched batches
//! cargo run --release -p exercises -- devices                   all devices against one
//! ```
//!
//! All use the same model: linear layers 784-1024-1024-10, with 1024 images per batch by default.
//! README.md in this folder explains the results.

#![allow(clippy::print_stdout, reason = "an example shows its results")]

mod devices;
mod pipeline;
mod platforms;

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
    /// Time of the first step with compilation, and of later steps, on each platform.
    Platforms(platforms::Options),
    /// Steps fed from disk and from memory, with and without prefetching.
    Pipeline(pipeline::Options),
    /// Data-parallel steps with growing batches on each device.
    Devices(devices::Options),
}

/// Layer widths, from pixels to classes.
const SIZES: [usize; 4] = [784, 1024, 1024, 10];

type Step = Jit<'static, (nn::Mlp, optim::State, (Array, Array)), (nn::Mlp, optim::State, Array)>;

/// Returns a model, its optimizer state and a training step, which returns the new model and state
/// and the loss before the update. Images are `f32[b, 784]`, labels `i32[b]`.
fn training() -> Result<(nn::Mlp, optim::State, Step), Error> {
    // The first use of a device: report an error if there is none.
    let key = catch(|| random::key(0))?;
    let model = jit(|key: random::Key| nn::Mlp::new(key, &SIZES)).call(key)?;
    let optimizer = optim::adamw(1e-3);
    let state = optimizer.init(&model);
    let step = jit(move |model: nn::Mlp, state: optim::State, batch: (Array, Array)| {
        let (images, labels) = &batch;
        let loss = |model: &nn::Mlp| {
            nn::softmax_cross_entropy_with_integer_labels(&model.forward(images), labels).mean()
        };
        let (loss, gradients) = value_and_grad(loss)(&model);
        let (updates, state) = optimizer.update(&gradients, &state, &model);
        (optim::apply_updates(&model, &updates), state, loss)
    });
    Ok((model, state, step.name("train_step")))
}

fn main() -> anyhow::Result<()> {
    match Options::parse().command {
        Command::Platforms(options) => options.run(),
        Command::Pipeline(options) => options.run(),
        Command::Devices(options) => options.run(),
    }
}
