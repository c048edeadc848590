//! ResNet: trains on Fashion-MNIST, on folders of images, or on noise to see how fast it is.
//!
//! ```text
//! cargo run --release -p resnet -- --data DIR                          ResNet-18 on idx files, padded to 32x32
//! cargo run --release -p resnet -- --data DIR --out target/resnet      saved now and then; goes on where it was stopped
//! cargo run --release -p resnet -- --data DIR --out target/resnet --eval
//! cargo run --release -p resnet -- --depth 50 --bf16                   images/s of ResNet-50 at 224x224
//! ```
//!
//! README.md beside this file tells more.

#![allow(clippy::print_stdout, reason = "an example shows its results")]

mod images;
mod model;
mod recipe;
#[cfg(test)]
mod tests;
mod weights;

use anyhow::{Context, ensure};
use checkpoint::{Folder, Snapshot};
use clap::Parser;
use images::{Images, Reading, Sets};
use model::Config;
use oxidax::prelude::*;
use recipe::{Means, Recipe, Run};
use std::path::PathBuf;
use weights::Weights;

/// Trains a residual network, or tells how good a trained one is.
#[derive(Parser)]
struct Options {
    /// A folder of idx files, or one with `train` and `val`, each with a sub-folder of images for each class [noise].
    #[arg(long)]
    data: Option<PathBuf>,
    /// 18, 34, 50, 101 or 152.
    #[arg(long, default_value_t = 18)]
    depth: usize,
    /// Pixels a side of what the network sees [32 for idx files, 224 otherwise].
    #[arg(long)]
    size: Option<usize>,
    #[arg(long, default_value_t = 128)]
    batch: usize,
    #[arg(long, default_value_t = 1000)]
    steps: u32,
    /// Steps in which the learning rate rises [a twentieth of all].
    #[arg(long)]
    warmup: Option<u32>,
    /// Every block begins as its shortcut: the last scale in it is zero at first.
    #[arg(long)]
    zero_init: bool,
    /// Always the middle of an image, never turned.
    #[arg(long)]
    no_augment: bool,
    /// Decides the initial weights, the order of the images, and what is cut out of them.
    #[arg(long, default_value_t = 0)]
    seed: u32,
    /// Threads that decode images.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Begin with torchvision's weights: a safetensors file.
    #[arg(long)]
    weights: Option<PathBuf>,
    /// Save the run in this folder, and go on with the run that lies there.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Save every so many steps.
    #[arg(long, default_value_t = 500)]
    save_every: u32,
    /// Train no more: print loss and accuracy on the test images.
    #[arg(long)]
    eval: bool,
    /// How many test images to look at [all].
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    test_images: usize,
    /// Write loss, accuracy and learning rate of every step to this CSV file.
    #[arg(long)]
    metrics: Option<PathBuf>,
    #[command(flatten)]
    recipe: Recipe,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let Sets { train, test, classes, size } = match &options.data {
        Some(folder) => Sets::open(folder)?,
        None => Sets::noise(),
    };
    let Options { depth, batch, workers, .. } = options;
    let size = options.size.unwrap_or(size);
    ensure!(size > 0 && batch > 0 && workers > 0, "size, batch and workers must not be 0");
    let published = Config::published(depth, classes);
    let config = published.with_context(|| {
        format!("no network of {depth} layers was published, but of 18, 34, 50, 101 and 152")
    })?;
    let config = Config { zero_init: options.zero_init, ..config };
    let mut run = options.begin(&config)?;
    let (mut done, mut position) = (0, None);
    let mut folder = options.out.as_ref().map(Folder::open).transpose()?.map(|f| f.keep_last(2));
    if let Some(folder) = &mut folder {
        let restored = folder.restore_latest(&run).with_context(|| {
            format!("the saved run does not go on as ResNet-{depth} of {classes} classes")
        })?;
        if let Some(restored) = restored {
            (run, done, position) = (restored.state, restored.step as u32, restored.position);
            println!("resumed    at step {done}");
        }
    }
    println!(
        "model      ResNet-{depth}, {} parameters, {classes} classes",
        nn::summary(&run.model).parameters()
    );
    if options.eval {
        let trained = done > 0 || options.weights.is_some();
        ensure!(trained, "--eval needs a saved run in --out, or --weights");
    } else {
        let reading = Reading { size, batch, workers };
        run = options.train(run, train, reading, done, position, folder)?;
    }
    if options.data.is_some() {
        options.evaluate(&run, test, Reading { size, batch: 250, workers })?;
    }
    Ok(())
}

impl Options {
    /// What a run begins with.
    fn begin(&self, config: &Config) -> anyhow::Result<Run> {
        let (key, config) = (random::key(i64::from(self.seed)), *config);
        let fresh = jit(move |key: random::Key| Weights::new(key, &config)).name("new");
        let mut weights = fresh.call(key)?;
        if let Some(path) = &self.weights {
            let other;
            (weights, other) = weights::load(path, &weights)?;
            if let Some(other) = other {
                println!("weights    for {other} classes: the head is drawn anew");
            }
        }
        let Weights { model, stats } = weights;
        let optimizer = self.optimizer().init(&model);
        Ok(Run { model, stats, optimizer })
    }

    fn schedule(&self) -> optim::Schedule {
        self.recipe.schedule(self.warmup.unwrap_or(self.steps / 20), self.steps)
    }

    fn optimizer(&self) -> optim::Optimizer {
        self.recipe.optimizer(self.schedule())
    }

    /// Trains from step `done` on, and says how fast, and whether the images or the steps set the pace.
    fn train(
        &self,
        mut run: Run,
        images: Images,
        reading: Reading,
        mut done: u32,
        position: Option<data::Position>,
        mut folder: Option<Folder>,
    ) -> anyhow::Result<Run> {
        let mut batches = images.train(reading, u64::from(self.seed), !self.no_augment);
        if let Some(position) = position {
            batches = batches.resume(&position)?;
        }
        let interrupt = train::Interrupt::catch()?;
        let (step, schedule) = (self.recipe.step(self.optimizer()), self.schedule());
        let mut metrics = train::Metrics::new().from_step(done.into());
        if let Some(path) = &self.metrics {
            metrics = metrics.csv(path, ["loss", "accuracy", "rate"])?;
        }
        let mut progress = train::Progress::new(self.steps.into()).from_step(done.into());
        let instruments = batches.instruments();
        let (begun, mut compiled, mut before) = (done, None, None::<Array>);
        let mut stopped = false;
        while done < self.steps && !stopped {
            let batch = batches.next().context("there is no image")??;
            // By now the clocks have seen the step before.
            if done == begun + 1 {
                compiled = Some(instruments.report());
            }
            let told;
            (run, told) = step.call(run, batch)?; // moved: donated
            if let Some(before) = before.replace(told.loss.clone()) {
                before.block_until_ready()?; // two steps under way at most: else the clocks would time the queue
            }
            let at = u64::from(done);
            metrics.scalar(at, "loss", &told.loss)?;
            metrics.scalar(at, "accuracy", &told.accuracy)?;
            metrics.scalar(at, "rate", schedule.value(&full([], done as i32)))?;
            progress.inc(&told.loss)?;
            done += 1;
            stopped = interrupt.requested();
            let is_last = stopped || done == self.steps;
            let due = is_last || done.is_multiple_of(self.save_every.max(1));
            if let Some(folder) = folder.as_mut().filter(|_| due) {
                folder.save(Snapshot::new(done.into(), &run).position(batches.position()))?;
            }
        }
        let (pace, history) = (progress.finish()?, metrics.finish()?);
        if let Some(folder) = &mut folder {
            folder.wait()?;
        }
        let recent = |name: &str| {
            let all = history.get(name);
            let last = &all[all.len().saturating_sub(50)..];
            let mean = last.iter().map(|&(_, x)| x).sum::<f64>() / last.len() as f64;
            format!("{mean:.4} over the last {} steps", last.len())
        };
        if done > begun {
            let compile = step.stats().compile_time.as_secs_f64();
            println!("compile    {compile:.1} s");
            println!("loss       {}", recent("loss"));
            println!("accuracy   {}", recent("accuracy"));
        }
        if let Some(compiled) = compiled {
            let images = reading.batch as f64 / pace.step.as_secs_f64();
            let each = 1e3 * pace.step.as_secs_f64();
            println!("pace       {images:.1} images/s, {each:.1} ms a step of {}", reading.batch);
            println!("{}", instruments.report().since(&compiled));
        }
        Ok(run)
    }

    fn evaluate(&self, run: &Run, images: Images, reading: Reading) -> anyhow::Result<()> {
        let (add, mut means, mut n) = (self.recipe.evaluation(), Means::default(), 0);
        for batch in images.test(reading, self.test_images) {
            let batch = batch?;
            n += batch.1.size();
            means = add.call(&run.model, &run.stats, means, batch)?;
        }
        let number = |mean: &nn::Average| mean.compute().item::<f32>();
        println!("test loss  {:.4}", number(&means.loss)?);
        println!("test accuracy {:.4} on {n} images", number(&means.accuracy)?);
        Ok(())
    }
}
