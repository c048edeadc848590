//! Measures what profiling costs: a running profile, and none.
//!
//! ```text
//! cargo bench --bench profile
//! cargo bench --bench profile -- --quick       a fifth of the rounds
//! ```
//!
//! Rows: the step of the perceptron of `examples/mlp`, whose loss is read; the step of a small one
//! (16-16-4, 32 rows); and a call that adds 1 to `f32[4]`. In each round the calls run without a
//! profile, then with one that records them, or the other way round in every second round. Times
//! are lower quartiles over rounds, in microseconds per call; ratios are medians over rounds.
//! Stopping and saving are not part of these times; the last lines have them for a million events.
//!
//! Budget: a running profile costs at most 3 % of a training step.

#[path = "support/figures.rs"]
mod figures;
#[path = "support/mlp.rs"]
mod mlp;

use anyhow::{Context as _, Result};
use figures::{lower_quartile, micros_per_call, print_heading, print_table, ratio};
use oxidax::prelude::*;
use oxidax::profile::{ProfileSession, StepTraceAnnotation, TraceAnnotation};
use std::hint::black_box;
use std::time::Instant;

/// Rounds that do not count.
const WARM_UP: usize = 2;

/// Times per call without and with a profile, and the number of events per call.
struct Costs {
    without: Vec<f64>,
    with: Vec<f64>,
    events: f64,
}

fn measure((rounds, calls): (usize, usize), mut call: impl FnMut() -> Result<()>) -> Result<Costs> {
    let mut costs = Costs { without: Vec::new(), with: Vec::new(), events: 0.0 };
    for round in 0..rounds + WARM_UP {
        let mut events = 0;
        let mut with = 0.0;
        let mut without = 0.0;
        for profiled in [round % 2 == 0, round % 2 == 1] {
            if profiled {
                let session = ProfileSession::start()?;
                with = micros_per_call(calls, &mut call)?;
                events = session.stop().events().count();
            } else {
                without = micros_per_call(calls, &mut call)?;
            }
        }
        if round >= WARM_UP {
            costs.without.push(without);
            costs.with.push(with);
            // `micros_per_call` makes a quarter of the calls, and one, before it measures.
            costs.events = events as f64 / (calls + calls / 4 + 1) as f64;
        }
    }
    Ok(costs)
}

fn row(title: &str, costs: &Costs) -> Vec<String> {
    let Costs { without, with, events } = costs;
    let percent = (ratio(with, without) - 1.0) * 100.0;
    vec![
        title.to_owned(),
        format!("{:.2}", lower_quartile(without)),
        format!("{:.2}", lower_quartile(with)),
        format!("{events:.1}"),
        format!("{percent:+.1} %"),
    ]
}

fn large_step(rounds: usize) -> Result<Costs> {
    let step = mlp::step();
    let (model, state, batch) = mlp::arguments()?;
    let mut arguments = Some((model, state));
    let mut number = 0;
    measure((rounds, 8), || {
        let _step = StepTraceAnnotation::new("train", number);
        number += 1;
        let (model, state) = arguments.take().context("the arguments of the next step")?;
        let (model, state, loss) = step.call(model, state, &batch)?;
        loss.item::<f32>()?;
        arguments = Some((model, state));
        Ok(())
    })
}

fn small_step(rounds: usize) -> Result<Costs> {
    let loss = |model: &nn::Mlp, x: &Array, labels: &Array| {
        nn::softmax_cross_entropy_with_integer_labels(&model.forward(x), labels).mean()
    };
    let step = jit(move |model: nn::Mlp, x: Array, labels: Array| {
        let (loss, gradients) = value_and_grad(|model: &nn::Mlp| loss(model, &x, &labels))(&model);
        (oxidax::tree::zip_map(&model, &gradients, |w, g| w - &(g * 0.1)), loss)
    })
    .name("small_step");
    let (x, labels) = (ones([32, 16]), full([32], 1));
    let mut model = Some(nn::Mlp::new(random::key(0), &[16, 16, 4]));
    let mut number = 0;
    measure((rounds, 500), || {
        let _step = StepTraceAnnotation::new("train", number);
        number += 1;
        let (next, loss) = step.call(model.take().context("the model")?, &x, &labels)?;
        loss.item::<f32>()?;
        model = Some(next);
        Ok(())
    })
}

fn one_leaf(rounds: usize) -> Result<Costs> {
    let f = jit(|x: Array| x + 1.0);
    let x = ones([4]);
    measure((rounds, 2000), || {
        f.call(&x)?;
        Ok(())
    })
}

/// Returns the nanoseconds of marking work without a profile, less those of an empty loop.
fn nanos_of_disabled_mark(rounds: usize) -> f64 {
    const MARKS: u32 = 1_000_000;
    let nanos = |work: &dyn Fn(u32)| {
        let start = Instant::now();
        (0..MARKS).for_each(work);
        start.elapsed().as_nanos() as f64 / f64::from(MARKS)
    };
    let differences: Vec<f64> = (0..rounds)
        .map(|_| {
            let marked = nanos(&|index| {
                let _mark = TraceAnnotation::new("work");
                black_box(index);
            });
            marked
                - nanos(&|index| {
                    black_box(index);
                })
        })
        .collect();
    lower_quartile(&differences)
}

/// Prints the times of recording, stopping and saving a million events.
#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
fn million() -> Result<()> {
    const EVENTS: u32 = 1_000_000;
    let folder = tempfile::tempdir()?;
    let session = ProfileSession::start()?;
    let start = Instant::now();
    for index in 0..EVENTS {
        let _mark = TraceAnnotation::new("work").with("index", index);
    }
    let recorded = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let profile = session.stop();
    let stopped = start.elapsed().as_secs_f64();
    anyhow::ensure!(profile.events().count() == EVENTS as usize, "events are missing");
    let start = Instant::now();
    let run = profile.save(folder.path())?;
    let saved = start.elapsed().as_secs_f64();
    let mut bytes = 0;
    for file in std::fs::read_dir(run)? {
        bytes += file?.metadata()?.len();
    }
    println!(
        "A million marks with one argument: {:.0} ns each to record, {:.0} ms to stop, {saved:.1} s \
         to save {:.0} MB.",
        recorded * 1e9 / f64::from(EVENTS),
        stopped * 1e3,
        bytes as f64 / 1e6,
    );
    Ok(())
}

#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
fn main() -> Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let rounds = if quick { 12 } else { 60 };
    print_heading("Profiling: microseconds per call");
    let rows = [
        row("step of examples/mlp", &large_step(rounds)?),
        row("small step", &small_step(rounds)?),
        row("x + 1", &one_leaf(rounds)?),
    ];
    print_table(&["", "no profile", "profile", "events", "cost"], &rows);
    println!("Marking work without a profile: {:.2} ns.", nanos_of_disabled_mark(rounds));
    million()
}
