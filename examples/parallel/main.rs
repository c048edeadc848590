//! Trains on eight devices in seven ways, and compares each with one device.
//!
//! ```text
//! cargo run --release -p parallel -- data                   split the batch
//! cargo run --release -p parallel -- fsdp                   also split every parameter
//! cargo run --release -p parallel -- tensor --model mlp     split every layer
//! cargo run --release -p parallel -- data-tensor            split batch and layers on a 2D mesh
//! cargo run --release -p parallel -- sequence               split texts: ring attention
//! cargo run --release -p parallel -- pipeline               split the list of layers
//! cargo run --release -p parallel -- experts                split the experts
//! ```
//!
//! Trains a small GPT on four tragedies, or a perceptron on digits. Prints the shardings, the
//! collectives of the compiled program, and the losses beside those of one device, which agree
//! within 2e-5 (`experts`: 1e-3, because nearly equal routing probabilities may be decided
//! differently). Without other devices it uses eight virtual CPU devices, or as many as
//! `OXIDAX_CPU_DEVICES` sets.
//!
//! Each recipe is one file to copy. `train.rs` has the training step, which does not depend on
//! them.

#![allow(clippy::print_stdout, reason = "an example shows its results")]

mod batches;
mod data;
mod experts;
mod fsdp;
mod model;
mod pipeline;
mod sequence;
mod tensor;
#[cfg(test)]
mod tests;
mod train;

use anyhow::{bail, ensure};
use clap::{Parser, ValueEnum};
use model::{Batch, Gpt, Model, Perceptron, Sizes};
use oxidax::prelude::*;
use std::sync::Arc;
use train::{Loss, Recipe, on_mesh, on_one_device};

/// Largest relative difference between a loss and that of one device.
const CLOSE: f32 = 2e-5;

/// Trains a model on several devices and on one.
#[derive(Parser)]
struct Options {
    #[arg(value_enum)]
    recipe: Name,
    #[arg(long, value_enum, default_value = "gpt")]
    model: Kind,
    #[arg(long, default_value_t = 20)]
    steps: usize,
    /// Examples per batch.
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// Tokens per text.
    #[arg(long, default_value_t = 64)]
    block: usize,
    #[arg(long, default_value_t = 64)]
    width: usize,
    #[arg(long, default_value_t = 8)]
    heads: usize,
    #[arg(long, default_value_t = 4)]
    layers: usize,
    /// Number of devices that share a layer, for `data-tensor`.
    #[arg(long, default_value_t = 4)]
    model_axis: usize,
    /// Number of pipeline stages. The other mesh axis splits the batch.
    #[arg(long, default_value_t = 4)]
    stages: usize,
    /// Number of microbatches of a pipeline.
    #[arg(long, default_value_t = 4)]
    microbatches: usize,
    /// Number of experts, for `experts`.
    #[arg(long, default_value_t = 8)]
    experts: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    Data,
    Fsdp,
    Tensor,
    DataTensor,
    Sequence,
    Pipeline,
    Experts,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Mlp,
    Gpt,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    if std::env::var_os("OXIDAX_CPU_DEVICES").is_none() {
        oxidax::parallel::set_cpu_devices(8)?; // no effect on other platforms
    }
    let devices = devices()?;
    let Options { steps, batch, block, width, heads, layers, .. } = options;
    ensure!(steps > 0 && layers > 0, "there must be at least one step and one layer");
    if matches!(options.model, Kind::Mlp) {
        let batches = batches::digits(steps, batch)?;
        let new = jit(move |key: random::Key| Perceptron::new(key, 64, width, layers));
        return options.spread(new.call(random::key(0))?, &devices, &batches);
    }
    let (vocabulary, batches) = batches::text(steps, batch, block)?;
    let sizes = Sizes { vocabulary, positions: block, width, heads, layers };
    let key = random::key(0);
    match options.recipe {
        Name::Sequence => {
            let model = jit(move |key: random::Key| Gpt::new(key, &sizes)).call(key)?;
            let recipe = sequence::recipe(&devices)?;
            report(model.clone(), recipe, (model, Arc::new(Gpt::loss)), &batches, CLOSE)
        }
        Name::Experts => {
            let (experts, groups) = (options.experts, devices.len());
            let new = jit(move |key: random::Key| experts::model(key, &sizes, experts));
            let model = new.call(key)?;
            let recipe = experts::recipe(&devices, &model)?;
            let plain =
                Arc::new(move |model: &_, batch: &_| experts::plain_loss(model, batch, groups));
            report(model.clone(), recipe, (model, plain), &batches, 1e-3)
        }
        _ => {
            let model = jit(move |key: random::Key| Gpt::new(key, &sizes)).call(key)?;
            options.spread(model, &devices, &batches)
        }
    }
}

impl Options {
    /// Runs a recipe that supports every model.
    fn spread<M: Model>(
        &self,
        model: M,
        devices: &[Device],
        batches: &[Batch],
    ) -> anyhow::Result<()> {
        let recipe = match self.recipe {
            Name::Data => data::recipe(devices)?,
            Name::Fsdp => fsdp::recipe(devices, &model)?,
            Name::Tensor => tensor::recipe(devices)?,
            Name::DataTensor => tensor::with_data(devices, self.model_axis)?,
            Name::Pipeline => {
                let parameters = pipeline::stacked(model.clone());
                let Options { stages, microbatches, .. } = *self;
                let recipe = pipeline::recipe(devices, &parameters, stages, microbatches)?;
                return report(parameters, recipe, (model, Arc::new(M::loss)), batches, CLOSE);
            }
            Name::Sequence | Name::Experts => bail!("this recipe supports only the GPT"),
        };
        report(model.clone(), recipe, (model, Arc::new(M::loss)), batches, CLOSE)
    }
}

/// Trains on the mesh and, with the plain model and its loss, on one device, and prints both.
fn report<P: Tree, M: Tree>(
    parameters: P,
    recipe: Recipe<P>,
    (model, plain): (M, Loss<M>),
    batches: &[Batch],
    tolerance: f32,
) -> anyhow::Result<()> {
    println!("{}", recipe.mesh);
    let spread = on_mesh(parameters, recipe, batches)?;
    let one = on_one_device(model, plain, batches)?;
    println!("{}", spread.parameters);
    let (state, whole) = (spread.state.bytes_per_device(), spread.state.bytes());
    println!("{state} of {whole} bytes of optimizer state on each device");
    println!("{} bytes of both on the first device", spread.held);
    println!("collectives    {}", spread.collectives);
    println!("\nstep  loss on the mesh  on one device");
    let mut most: f32 = 0.0;
    for (at, (loss, plain)) in spread.run.losses.iter().zip(&one.losses).enumerate() {
        println!("{at:>4}  {loss:>16.6}  {plain:>13.6}");
        most = most.max((loss / plain - 1.0).abs());
    }
    let ms = |run: &train::Run| 1e3 * run.step.as_secs_f64();
    println!("difference     at most {most:.1e} of a loss");
    println!("step           {:.2} ms, {:.2} ms on one device", ms(&spread.run), ms(&one));
    ensure!(most <= tolerance, "the losses differ by {most:e}");
    Ok(())
}
