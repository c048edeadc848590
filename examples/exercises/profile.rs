//! Profiles training steps that are fed by a pipeline.

use super::pipeline::random_example;
use super::{loss, model};
use data::{Source, Synthetic};
use oxidax::prelude::*;
use oxidax::profile::{ProfileSession, StepTraceAnnotation, TraceAnnotation};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Options {
    #[arg(long, default_value_t = 256)]
    batch: usize,
    #[arg(long, default_value_t = 20)]
    steps: usize,
    /// Number of prefetched batches.
    #[arg(long, default_value_t = 2)]
    depth: usize,
    /// The folder that XProf and TensorBoard open.
    #[arg(long, default_value = "target/exercises-profile")]
    folder: PathBuf,
}

impl Options {
    pub fn run(&self) -> anyhow::Result<()> {
        let mut model = model()?;
        let optimizer = optim::adamw(1e-3);
        let mut state = optimizer.init(&model);
        let step = jit(move |model: nn::Mlp, state: optim::State, batch: (Array, Array)| {
            let loss = |model: &nn::Mlp| loss(model, &batch.0, &batch.1);
            let (loss, gradients) = value_and_grad(loss)(&model);
            let (updates, state) = optimizer.update(&gradients, &state, &model);
            (optim::apply_updates(&model, &updates), state, loss)
        })
        .name("train_step");
        let examples = Synthetic::new(self.batch * self.steps, random_example).stream();
        let mut batches = examples.batch(self.batch).to_device(self.depth);
        let session = ProfileSession::start()?;
        for number in 0..self.steps as u64 {
            let _step = StepTraceAnnotation::new("train", number);
            let Some(batch) = batches.next() else { break };
            let loss;
            (model, state, loss) = step.call(model, state, batch?)?;
            let value = TraceAnnotation::new("read loss").scope(|| loss.item::<f32>())?;
            anyhow::ensure!(value.is_finite(), "the loss of step {number} is {value}");
        }
        let profile = session.stop();
        println!("{profile}\n\nwritten to {}", profile.save(&self.folder)?.display());
        Ok(())
    }
}
