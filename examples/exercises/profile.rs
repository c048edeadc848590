//! Profiles training steps that are fed by a pipeline, and compares them with targets.

use super::pipeline::random_example;
use super::{loss, model};
use data::{Source, Synthetic};
use oxidax::doctor::advice_on_calls;
use oxidax::prelude::*;
use oxidax::profile::{
    EventKind, LineProfile, Profile, ProfileSession, StepTraceAnnotation, TraceAnnotation,
};
use oxidax::roofline::{DeviceSpec, Effort};
use std::path::PathBuf;
use std::time::Instant;

/// The largest share of a run that compiling may take, and of a step that waiting for data may.
const TARGETS: (f64, f64) = (0.05, 0.10);
/// The smallest share of the roofline at which the lines with most time should run.
const OF_ROOFLINE: f64 = 0.7;

#[derive(clap::Args)]
pub struct Options {
    #[arg(long, default_value_t = 256)]
    batch: usize,
    /// Number of profiled steps.
    #[arg(long, default_value_t = 50)]
    steps: usize,
    /// Number of steps before the profile starts. The first one compiles.
    #[arg(long, default_value_t = 5)]
    warm_up: usize,
    /// Number of prefetched batches.
    #[arg(long, default_value_t = 2)]
    depth: usize,
    /// The folder that XProf and TensorBoard open.
    #[arg(long, default_value = "target/exercises-profile")]
    folder: PathBuf,
}

impl Options {
    pub fn run(&self) -> anyhow::Result<()> {
        let started = Instant::now();
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
        let all = self.warm_up + self.steps;
        let examples = Synthetic::new(self.batch * all, random_example).stream();
        let mut batches = examples.batch(self.batch).to_device(self.depth);
        let mut session = None;
        let mut last = None;
        for number in 0..all {
            if number == self.warm_up {
                session = Some(ProfileSession::start()?);
            }
            let _step = StepTraceAnnotation::new("train", number as u64);
            let Some(batch) = batches.next().transpose()? else { break };
            let loss;
            (model, state, loss) = step.call(model, state, &batch)?;
            let value = TraceAnnotation::new("read loss").scope(|| loss.item::<f32>())?;
            anyhow::ensure!(value.is_finite(), "the loss of step {number} is {value}");
            last = Some(batch);
        }
        let Some(profile) = session.map(ProfileSession::stop) else {
            anyhow::bail!("no step was profiled; --steps is {}", self.steps);
        };
        let (seconds, stats) = (started.elapsed().as_secs_f64(), step.stats());
        println!("{profile}");
        let compiling = stats.compile_seconds() / seconds;
        let waiting = share_of_steps(&profile, EventKind::DataWait);
        println!("\n{:<34} measured   target", "");
        row("compiling, of the run", compiling, TARGETS.0);
        row("waiting for data, of the steps", waiting, TARGETS.1);
        let mut advice: Vec<String> = advice_on_calls("train_step", &stats)
            .into_iter()
            .map(|advice| advice.message)
            .collect();
        if compiling > TARGETS.0 {
            advice.push("run longer, or keep programs: docs/caching.md has the disk cache".into());
        }
        if waiting > TARGETS.1 {
            advice.push(
                "the input is the bottleneck: build with `--release`, use `parallel_map`, or \
                 prefetch more batches"
                    .into(),
            );
        }
        let is_cpu = oxidax::parallel::default_backend()? == "cpu";
        let mut profile = profile;
        if let Some(batch) = last.filter(|_| is_cpu) {
            let compiled = step.lower(&model, &state, &batch)?.compile()?;
            let lines = compiled.line_profile(&model, &state, &batch)?;
            let here = DeviceSpec::measured(Effort::default())?;
            let lines = lines.with_peaks(here.peak.f32, here.hbm_bandwidth);
            println!("\n{lines}");
            advice.extend(slowest_line(&lines));
            profile = profile.with_lines(lines);
        }
        // `oxidax profile report FOLDER` makes a page of both.
        println!("written to {}", profile.save(&self.folder)?.display());
        for advice in advice {
            println!("advice: {advice}");
        }
        Ok(())
    }
}

/// Returns the share of the steps' time that events of this kind have.
fn share_of_steps(profile: &Profile, kind: EventKind) -> f64 {
    let sum = |wanted: EventKind| -> u64 {
        let events = profile.events().filter(|event| event.kind == wanted);
        events.map(|event| event.duration_nanos).sum()
    };
    sum(kind) as f64 / sum(EventKind::Step).max(1) as f64
}

fn row(what: &str, measured: f64, target: f64) {
    println!("{what:<34} {:6.1} %  < {:.0} %", 100.0 * measured, 100.0 * target);
}

/// Returns advice about the line with the most time, if it is far from the roofline.
fn slowest_line(lines: &LineProfile) -> Option<String> {
    let slowest = lines.lines().into_iter().next()?;
    let share = lines.of_roofline(&slowest).filter(|share| *share < OF_ROOFLINE)?;
    let line = slowest.line.map_or_else(|| "an unknown line".to_owned(), |line| line.to_string());
    Some(format!(
        "{line} has {:.0} % of the step and runs at {:.0} % of the roofline; larger batches use the \
         cores better",
        100.0 * slowest.share,
        100.0 * share
    ))
}
