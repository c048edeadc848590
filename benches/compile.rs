//! Measures tracing, lowering, compilation and start-up beside JAX.
//!
//! ```text
//! cargo bench --bench compile                   OXIDAX_BENCH_PYTHON=… adds JAX
//! cargo bench --bench compile -- --quick        fewer rounds
//! cargo bench --bench compile -- --warm-start   only this table
//! cargo bench --bench compile -- --depth        only this table
//! ```
//!
//! - *MLP step*: the training step of `examples/mlp -- --data`, 784-1024-1024-10 with AdamW.
//! - *GPT-2 step*: 12 unrolled layers with AdamW, from shapes only.
//! - *Warm start*: from process start to the end of the first MLP step, or until the GPT-2 step is
//!   ready to run: without a disk cache, with an empty one, and with the one that the previous
//!   process filled (`--ready WHAT FOLDER`). The other tables use no disk cache.
//! - *Depth*: compiling the GPT-2 step with 12, 24 and 48 unrolled layers, in seconds of processor
//!   time, which other work on the machine disturbs least. *Separate* is without functions for
//!   repeated parts (`disable_outlining`). With 48 separate layers XLA takes minutes and 12 GB.
//! - *Module text*: size of the GPT-2 step without locations, in kB. JAX prints StableHLO's short
//!   form, oxidax MLIR's generic form, which `jaxlib` can print too.
//! - *First step*: from process start to the end of the first MLP step, including weights and
//!   plugin. Each side runs a new process (ours is this binary with `--ready mlp`).
//!
//! In each round both sides alternate, each with a newly jitted function. *Cold* is the first time
//! in a process; JAX's caches are emptied for it. Times are lower quartiles over rounds in
//! milliseconds; ratios are medians over rounds.
//!
//! Budgets for the GPT-2 step: trace and lower take at most 1/40 of the time in JAX, the text is
//! not larger, compilation takes at most a quarter of the time in JAX, and the first step under
//! half of it.

#[path = "support/models/clock.rs"]
mod clock;
#[path = "support/figures.rs"]
mod figures;
#[path = "support/gpt2.rs"]
mod gpt2;
#[path = "support/jax.rs"]
mod jax;
#[path = "support/mlp.rs"]
mod mlp;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clock::cpu_millis;
use figures::{lower_quartile, print_heading, print_table, ratio};
use jax::Jax;
use oxidax::jit::cache::{Settings, set_disk};
use oxidax::jit::disable_outlining;
use oxidax::stablehlo::without_locations;
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Numbers of layers of the table *Depth*. The first is also compiled in other ways.
const DEPTHS: [usize; 3] = [12, 24, 48];

/// Milliseconds per round.
#[derive(Default)]
struct Times {
    ours: Vec<f64>,
    jax: Vec<f64>,
}

impl Times {
    /// Formats a row of the table, with the budget for the ratio.
    fn row(&self, name: &str, budget: &str) -> Vec<String> {
        let ours = format!("{:.2}", lower_quartile(&self.ours));
        let mut cells = vec![name.to_string(), ours];
        cells.extend(match self.jax.is_empty() {
            true => ["-".to_string(), "-".to_string()],
            false => {
                let ratio = ratio(&self.ours, &self.jax);
                let shown = match ratio {
                    ratio if ratio < 0.2 => format!("1/{:.0}", 1.0 / ratio),
                    ratio => format!("{ratio:.2}"),
                };
                [format!("{:.2}", lower_quartile(&self.jax)), shown]
            }
        });
        cells.push(budget.to_string());
        cells
    }

    fn sum(parts: &[&Times]) -> Times {
        let add = |side: fn(&Times) -> &Vec<f64>| {
            let rounds = parts.iter().map(|part| side(part).len()).min().unwrap_or_default();
            (0..rounds).map(|at| parts.iter().map(|part| side(part)[at]).sum()).collect()
        };
        Times { ours: add(|times| &times.ours), jax: add(|times| &times.jax) }
    }
}

fn millis(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

/// Measures tracing, lowering and compiling the MLP step, in milliseconds.
fn mlp_phases(arguments: &mlp::Arguments) -> Result<[f64; 3]> {
    let step = mlp::step();
    let start = Instant::now();
    let lowered = step.lower(&arguments.0, &arguments.1, &arguments.2)?;
    let traced = millis(start);
    let start = Instant::now();
    lowered.as_text("cpu")?;
    let written = millis(start);
    // Compilation also writes the text.
    let start = Instant::now();
    lowered.compile()?;
    Ok([traced, written, millis(start) - written])
}

/// Measures tracing and lowering the GPT-2 step, in milliseconds, and counts its equations.
fn gpt2_phases(arguments: &gpt2::Arguments) -> Result<([f64; 2], usize)> {
    let step = gpt2::step();
    let start = Instant::now();
    let lowered = step.lower(&arguments.0, &arguments.1, &arguments.2)?;
    let traced = millis(start);
    let start = Instant::now();
    lowered.as_text("cpu")?;
    Ok(([traced, millis(start)], lowered.program().eqns().len()))
}

/// Compares the size of the GPT-2 step's module without locations, in kB, with JAX's short and
/// generic forms.
fn text_sizes(jax: &mut Option<Jax>, arguments: &gpt2::Arguments) -> Result<[Times; 2]> {
    let lowered = gpt2::step().lower(&arguments.0, &arguments.1, &arguments.2)?;
    let text = lowered.as_text("cpu")?;
    let ours = without_locations(&text).map(str::len).sum::<usize>() as f64 / 1e3;
    let theirs = match jax {
        Some(jax) => jax.numbers(&json!({ "what": "gpt2_text" }))?,
        None => Vec::new(),
    };
    let beside = |at: usize| Times {
        ours: vec![ours],
        jax: theirs.get(at).map(|bytes| bytes / 1e3).into_iter().collect(),
    };
    Ok([beside(0), beside(1)])
}

/// Alternates our `phases` with JAX's answers to the request `what`.
fn by_turns<const N: usize>(
    jax: &mut Option<Jax>,
    what: &str,
    rounds: usize,
    cold: bool,
    mut phases: impl FnMut() -> Result<[f64; N]>,
) -> Result<[Times; N]> {
    let mut times = [const { Times { ours: Vec::new(), jax: Vec::new() } }; N];
    for _ in 0..rounds {
        for (times, ours) in times.iter_mut().zip(phases()?) {
            times.ours.push(ours);
        }
        let Some(jax) = jax else { continue };
        let answer = jax.numbers(&json!({ "what": what, "cold": cold }))?;
        ensure!(answer.len() == N, "JAX answered {} numbers to {what}, not {N}", answer.len());
        times.iter_mut().zip(answer).for_each(|(times, jax)| times.jax.push(jax));
    }
    Ok(times)
}

/// Measures compiling the GPT-2 step, in milliseconds of wall time and of processor time.
fn compile_times(layers: usize) -> Result<[f64; 2]> {
    let arguments = gpt2::arguments_of(layers)?;
    let lowered = gpt2::step().lower(&arguments.0, &arguments.1, &arguments.2)?;
    let (start, cpu) = (Instant::now(), cpu_millis()?);
    lowered.compile()?;
    Ok([millis(start), cpu_millis()? - cpu])
}

/// Compares compiling the GPT-2 step by its number of layers.
#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
fn print_depths(jax: &mut Option<Jax>, rounds: usize) -> Result<()> {
    let [mut separate, mut theirs] = [const { Vec::new() }; 2];
    let mut ours = [const { Vec::new() }; DEPTHS.len()];
    for _ in 0..rounds {
        for (layers, times) in DEPTHS.into_iter().zip(&mut ours) {
            times.push(compile_times(layers)?[1] / 1e3);
        }
        separate.push(disable_outlining(|| compile_times(DEPTHS[0]))?[1] / 1e3);
        if let Some(jax) = jax {
            let answer = jax.numbers(&json!({ "what": "gpt2_compile", "layers": DEPTHS[0] }))?;
            theirs.extend(answer.get(1).map(|cpu| cpu / 1e3));
        }
    }
    let show = |times: &[f64]| match times.is_empty() {
        true => "-".to_string(),
        false => format!("{:.2}", lower_quartile(times)),
    };
    let row = |at: usize, separate: &[f64], theirs: &[f64]| {
        let growth = format!("{:.2}", ratio(&ours[at], &ours[0]));
        vec![DEPTHS[at].to_string(), show(&ours[at]), growth, show(separate), show(theirs)]
    };
    let deeper = (1..DEPTHS.len()).map(|at| row(at, &[], &[]));
    let rows: Vec<Vec<String>> = [row(0, &separate, &theirs)].into_iter().chain(deeper).collect();
    println!("Compile the GPT-2 step, seconds of processor time:\n");
    print_table(&["layers", "oxidax", "to the first", "separate", "JAX"], &rows);
    Ok(())
}

fn run(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    let status = command.stdin(Stdio::null()).status().context("starting a process")?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(millis(start))
}

/// Measures process start to the end of the first MLP step, in milliseconds; for oxidax also until
/// the first array, which includes finding and loading the plugin.
fn first_step(jax: &mut Option<Jax>, rounds: usize) -> Result<[Times; 2]> {
    let us = std::env::current_exe().context("this binary's path")?;
    let [mut step, mut array] = [Times::default(), Times::default()];
    for _ in 0..rounds {
        step.ours.push(ready("mlp", None)?[0]);
        array.ours.push(run(Command::new(&us).arg("--first-array"))?);
        if let Some(jax) = jax {
            step.jax.extend(jax.numbers(&json!({ "what": "first_step" }))?);
        }
    }
    Ok([step, array])
}

/// Starts a process that prepares the step `what`, with a cache in `folder` or none. Returns its
/// milliseconds, those spent on the cache, and the bytes read or written.
fn ready(what: &str, folder: Option<&Path>) -> Result<[f64; 3]> {
    let us = std::env::current_exe().context("this binary's path")?;
    let mut command = Command::new(us);
    command.args(["--ready", what]).args(folder).stdin(Stdio::null());
    let start = Instant::now();
    let output = command.output().context("starting a process")?;
    let process = millis(start);
    ensure!(output.status.success(), "{command:?} ended with {}", output.status);
    let said = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = said.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [overhead, bytes] = numbers[..] else { bail!("{command:?} said {said}") };
    Ok([process, overhead, bytes])
}

/// Prepares a step: runs the first MLP step, or compiles the GPT-2 step.
#[allow(clippy::print_stdout, reason = "the process that started it reads this")]
fn make_ready(what: &str, folder: Option<&String>) -> Result<()> {
    set_disk(folder.map_or_else(Settings::off, Settings::in_folder))?;
    match what {
        "gpt2" => {
            let arguments = gpt2::arguments()?;
            gpt2::step().lower(&arguments.0, &arguments.1, &arguments.2)?.compile()?;
        }
        _ => make_first_step()?,
    }
    let disk = oxidax::jit::cache::stats().disk;
    let bytes = disk.bytes_read.max(disk.bytes_written);
    println!("{} {bytes}", disk.overhead.as_secs_f64() * 1e3);
    Ok(())
}

/// Formats a row: without a cache, with an empty one and with a full one.
fn warm_start(name: &str, what: &str, rounds: usize) -> Result<Vec<String>> {
    let mut columns = [const { Vec::new() }; 6];
    for _ in 0..rounds {
        let folder = tempfile::tempdir().context("a folder for the cache")?;
        let [none, ..] = ready(what, None)?;
        let [first, overhead, _] = ready(what, Some(folder.path()))?;
        let [second, _, bytes] = ready(what, Some(folder.path()))?;
        let round = [none, first, second, none - second, overhead, bytes / 1e6];
        columns.iter_mut().zip(round).for_each(|(column, number)| column.push(number));
    }
    let cells = columns.iter().map(|column| format!("{:.2}", lower_quartile(column)));
    Ok(std::iter::once(name.to_string()).chain(cells).collect())
}

fn make_first_step() -> Result<()> {
    let (model, state, batch) = mlp::arguments()?;
    let result = mlp::step().call(model, state, batch);
    let (_, _, loss) = result.map_err(|failed| anyhow!(failed.error))?;
    loss.block_until_ready()?;
    Ok(())
}

#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let said = |word: &str| words.iter().any(|other| other == word);
    if let Some(at) = words.iter().position(|word| word == "--ready") {
        let what = words.get(at + 1).context("--ready WHAT FOLDER")?;
        return make_ready(what, words.get(at + 2));
    }
    if said("--first-array") {
        oxidax::Array::from_slice(&[1.0f32], [1])?;
        return Ok(());
    }
    // `cargo bench` passes this flag. `cargo test --all-targets` does not, and measures nothing.
    if !said("--bench") {
        return Ok(());
    }
    let rounds = |n: usize| if said("--quick") { n.div_ceil(4) } else { n };
    // Without cargo's environment, the cache of an earlier run would be used.
    set_disk(Settings::off())?;
    if said("--warm-start") {
        print_heading("Warm start; milliseconds");
        return print_warm_starts(rounds(8), rounds(4));
    }
    let mut jax = Jax::start("jax_bench.py")?;
    if said("--depth") {
        print_heading("Depth");
        return print_depths(&mut jax, rounds(2));
    }
    print_heading("Trace, lower, compile, start; milliseconds");
    let headings = ["what", "oxidax", "JAX", "ratio", "budget"];

    let arguments = gpt2::arguments()?;
    let mut n_eqns = 0;
    let mut gpt2 = || {
        let (phases, count) = gpt2_phases(&arguments)?;
        n_eqns = count;
        Ok(phases)
    };
    let [cold_trace, cold_lower] = by_turns(&mut jax, "gpt2_phases", 1, true, &mut gpt2)?;
    let [trace, lower] = by_turns(&mut jax, "gpt2_phases", rounds(20), false, &mut gpt2)?;
    let rows = [
        trace.row("trace", ""),
        lower.row("lower", ""),
        Times::sum(&[&trace, &lower]).row("both", "1/40"),
        Times::sum(&[&cold_trace, &cold_lower]).row("both, cold", ""),
    ];
    println!("GPT-2 step, 12 layers, {n_eqns} equations:\n");
    print_table(&headings, &rows);

    let [short, generic] = text_sizes(&mut jax, &arguments)?;
    let rows = [short.row("module text", "1.00"), generic.row("JAX's in the generic form", "")];
    println!("Its module without locations, kB:\n");
    print_table(&headings, &rows);

    let arguments = mlp::arguments()?;
    let mut mlp = || mlp_phases(&arguments);
    let cold = by_turns(&mut jax, "mlp_phases", 1, true, &mut mlp)?;
    let [trace, lower, compile] = by_turns(&mut jax, "mlp_phases", rounds(20), false, &mut mlp)?;
    let rows = [
        trace.row("trace", ""),
        lower.row("lower", ""),
        compile.row("compile", ""),
        Times::sum(&[&trace, &lower, &compile]).row("all", ""),
        Times::sum(&cold.each_ref()).row("all, cold", ""),
    ];
    println!("MLP step:\n");
    print_table(&headings, &rows);

    let [step, array] = first_step(&mut jax, rounds(8))?;
    println!("From process start:\n");
    print_table(&headings, &[step.row("first MLP step", "0.50"), array.row("first array", "")]);

    print_depths(&mut jax, rounds(2))?;
    print_warm_starts(rounds(8), rounds(4))
}

#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
fn print_warm_starts(of_mlp: usize, of_gpt2: usize) -> Result<()> {
    let headings = ["until", "no cache", "empty", "full", "saved", "overhead of empty", "MB"];
    let rows = [
        warm_start("first MLP step", "mlp", of_mlp)?,
        warm_start("GPT-2 step is ready", "gpt2", of_gpt2)?,
    ];
    println!("Warm start:\n");
    print_table(&headings, &rows);
    Ok(())
}
