//! One training step, spread over eight devices in seven ways.
//!
//! ```text
//! cargo run --release -p parallel -- data                   each device a part of the batch
//! cargo run --release -p parallel -- fsdp                   and a part of every parameter
//! cargo run --release -p parallel -- tensor --model mlp     each device a part of every layer
//! cargo run --release -p parallel -- data-tensor            both, on a mesh of two axes
//! cargo run --release -p parallel -- sequence               each device a part of every text: ring attention
//! cargo run --release -p parallel -- pipeline               each device some of the layers
//! cargo run --release -p parallel -- experts                each device some of the experts
//! ```
//!
//! Trains a small GPT on four tragedies, or a perceptron on digits, on a mesh and on one device; prints how parameters lie,
//! what the compiled program sends between devices, and the losses of both beside each other, which agree to 2e-5 of
//! each; those of `experts` to 1e-3, because a token whose experts are as likely to the last digits may go to others. Without other devices it shows eight on the CPU, or as many as `OXIDAX_CPU_DEVICES` says.
//!
//! Each recipe is a file of its own, to be copied; `train.rs` has the step, which does not know of them.

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

/// How far a loss may be from one device's, in parts of it.
const CLOSE: f32 = 2e-5;

/// Trains a model on several devices, and on one.
#[derive(Parser)]
struct Options {
    #[arg(value_enum)]
    recipe: Name,
    #[arg(long, value_enum, default_value = "gpt")]
    model: Kind,
    #[arg(long, default_value_t = 20)]
    steps: usize,
    /// Examples in a batch.
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// The tokens of a text.
    #[arg(long, default_value_t = 64)]
    block: usize,
    #[arg(long, default_value_t = 64)]
    width: usize,
    #[arg(long, default_value_t = 8)]
    heads: usize,
    #[arg(long, default_value_t = 4)]
    layers: usize,
    /// How many devices share a layer, in `data-tensor`.
    #[arg(long, default_value_t = 4)]
    model_axis: usize,
    /// How many stages a pipeline has; the other devices have parts of the batch.
    #[arg(long, default_value_t = 4)]
    stages: usize,
    /// Into how many parts a pipeline cuts its batch.
    #[arg(long, default_value_t = 4)]
    microbatches: usize,
    /// How many experts there are, in `experts`.
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
        oxidax::parallel::set_cpu_devices(8)?; // of no effect on other platforms
    }
    let devices = devices()?;
    let Options { steps, batch, block, width, heads, layers, .. } = options;
    ensure!(steps > 0 && layers > 0, "there must be a step and a layer");
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
    /// A recipe that is for every model.
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
            Name::Sequence | Name::Experts => bail!("this recipe is for the GPT"),
        };
        report(model.clone(), recipe, (model, Arc::new(M::loss)), batches, CLOSE)
    }
}

/// Trains on the mesh and, the plain model by its loss, on one device; prints what came of both.
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
    println!("apart          {most:.1e} of a loss at most");
    println!("step           {:.2} ms, {:.2} ms on one device", ms(&spread.run), ms(&one));
    ensure!(most <= tolerance, "the losses differ by {most:e}");
    Ok(())
}
