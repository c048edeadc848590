//! Three exercises in measuring: what compiling costs beside running, what reading ahead is worth, and how large a batch
//! several devices want.
//!
//! ```text
//! cargo run --release -p exercises -- platforms                 every platform that has a plugin
//! cargo run --release -p exercises -- platforms --platform cpu
//! cargo run --release -p exercises -- pipeline                  0, 2 and 4 batches read ahead
//! cargo run --release -p exercises -- devices                   all devices beside one, batch by batch
//! ```
//!
//! All use the same model: linear layers 784-1024-1024-10, 1024 images to a batch where nothing else is said. README.md beside this file has
//! tables and says what to look at.

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
    /// Compile + first step and a later step, on each platform.
    Platforms(platforms::Options),
    /// Steps fed from disk and from memory, with and without reading ahead.
    Pipeline(pipeline::Options),
    /// Data-parallel steps with a larger and larger batch on each device.
    Devices(devices::Options),
}

/// Pixels of an image, and classes.
const SIZES: [usize; 4] = [784, 1024, 1024, 10];

type Step = Jit<(nn::Mlp, optim::State, (Array, Array)), (nn::Mlp, optim::State, Array)>;

/// A model, and the step that trains it: the new model and state, and the loss before. Images are `f32[b, 784]`,
/// labels `i32[b]`.
fn training() -> Result<(nn::Mlp, optim::State, Step), Error> {
    // The first thing that needs a device, and so an error where there is none.
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
