//! Measures how the CPU plugin's memory is allocated: page faults, processor time, resident memory.
//!
//! ```text
//! cargo bench --bench memory                  the sides below, alternating step by step
//! cargo bench --bench memory -- gpt2          one of the tables: gpt2, shapes
//! cargo bench --bench memory -- --quick       a smaller model, fewer rounds
//! ```
//!
//! Each side is a process of its own, since the C library's allocator is configured at its start.
//! Both tables need Linux; the kernel counts the page faults.
//!
//! - *GPT-2*: a step of four layers (768 wide, 50,257 words) on 4 windows of 128 tokens, AdamW.
//! - *Changing shapes*: inference of a multilayer perceptron with a batch size that changes in each
//!   call, 180 calls over 60 sizes, each of which is compiled once.
//!
//! Times are lower quartiles over rounds, ratios medians over rounds.

#[path = "support/figures.rs"]
mod figures;
#[path = "support/mlp.rs"]
#[allow(dead_code, reason = "other benchmarks train it")]
mod mlp;
#[path = "support/models/mod.rs"]
#[allow(dead_code, reason = "other benchmarks run the other models")]
mod models;

use anyhow::{Context as _, Result, bail};
use figures::{lower_quartile, print_heading, print_table, quantile, ratio};
use models::clock::cpu_millis;
use models::{Call, gpt2};
use oxidax::prelude::*;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

const FULL: gpt2::Sizes = gpt2::Sizes {
    layers: 4,
    heads: 12,
    width: 768,
    vocabulary: 50257,
    positions: 1024,
    batch: 4,
    context: 128,
};

/// The sides: a name, and the variables of its process.
const SIDES: [(&str, &[(&str, &str)]); 4] = [
    ("system", &[("OXIDAX_CPU_MALLOC", "system")]),
    ("pool", &[("OXIDAX_CPU_MALLOC", "pool")]),
    (
        "one arena",
        &[
            ("OXIDAX_CPU_MALLOC", "system"),
            ("MALLOC_ARENA_MAX", "1"),
            ("MALLOC_MMAP_MAX_", "0"),
            ("MALLOC_TRIM_THRESHOLD_", "1000000000000"),
        ],
    ),
    (
        "huge pages",
        &[("OXIDAX_CPU_MALLOC", "system"), ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")],
    ),
];

/// Measurements of one call.
#[derive(Clone, Copy)]
struct Step {
    /// Milliseconds of wall time.
    wall: f64,
    /// Milliseconds of processor time of all threads, with a resolution of 10.
    cpu: f64,
    /// Page faults that needed no disk.
    faults: f64,
    /// Resident memory after the call, in MB.
    resident: f64,
    /// The most resident memory so far, in MB.
    peak: f64,
}

/// Returns the minor page faults of this process.
fn faults() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("reading page faults")?;
    // Field 3 follows the name in brackets; field 10 counts the faults.
    let (_, fields) = stat.rsplit_once(')').context("/proc/self/stat has a name in it")?;
    let count = fields.split_whitespace().nth(7).context("/proc/self/stat has ten fields")?;
    Ok(count.parse()?)
}

/// Returns a line of `/proc/self/status`, in MB.
fn status(name: &str) -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status").context("reading memory")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.with_context(|| format!("{name} in /proc/self/status"))?.parse::<f64>()? / 1024.0)
}

/// Returns a multilayer perceptron that is called with another batch size each time.
fn changing_shapes() -> Result<Call> {
    const SIZES: usize = 60;
    let [first, second, third] = random::key(0).split();
    let shapes = [(first, [256, 1024]), (second, [1024, 1024]), (third, [1024, 256])];
    let weights = shapes.map(|(key, shape)| random::normal(key, shape) * 0.03).to_vec();
    let forward = jit(|weights: &Vec<Array>, x: Array| {
        weights.iter().fold(x, |x, weight| x.matmul(weight).tanh())
    });
    let mut call = 0;
    Ok(Box::new(move || {
        // Sizes from 64 to 7,616 rows, in an order without a pattern.
        let rows = 64 + (call * 37 % SIZES) * 128;
        call += 1;
        let x = full([rows, 256], 0.5f32);
        let y = forward.call(&weights, x)?;
        Ok(vec![f64::from(y.mean().item::<f32>()?)])
    }))
}

/// Runs a model call by call: one for each line of the input, whose measurements are printed.
#[allow(clippy::print_stdout, reason = "the answers to the parent process")]
fn serve(name: &str, quick: bool) -> Result<()> {
    let mut call = match name {
        "gpt2" => gpt2::training(if quick { gpt2::BABY } else { FULL }, false)?.call,
        "shapes" => changing_shapes()?,
        other => bail!("there is no worker `{other}`"),
    };
    if name == "gpt2" {
        // The first call compiles, the second one settles the memory.
        for _ in 0..2 {
            call()?;
        }
    }
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        line?;
        let (start, cpu, before) = (Instant::now(), cpu_millis()?, faults()?);
        call()?;
        let wall = start.elapsed().as_secs_f64() * 1e3;
        let (cpu, faults) = (cpu_millis()? - cpu, faults()? - before);
        println!("{wall} {cpu} {faults} {} {}", status("VmRSS:")?, status("VmHWM:")?);
    }
    Ok(())
}

/// A process that runs one side.
struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    steps: Vec<Step>,
}

impl Worker {
    fn start(model: &str, quick: bool, variables: &[(&str, &str)]) -> Result<Worker> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--worker", model]).args(quick.then_some("--quick"));
        command.envs(variables.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("starting a side")?;
        let input = child.stdin.take().context("the input is piped")?;
        let output = BufReader::new(child.stdout.take().context("the output is piped")?);
        let mut worker = Worker { child, input, output, steps: Vec::new() };
        anyhow::ensure!(worker.line()?.trim() == "ready", "a side failed to start");
        Ok(worker)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }

    fn step(&mut self) -> Result<()> {
        writeln!(self.input, "step")?;
        let line = self.line()?;
        let numbers: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
        let &[wall, cpu, faults, resident, peak] = &numbers?[..] else {
            bail!("a side answered {line:?}")
        };
        self.steps.push(Step { wall, cpu, faults, resident, peak });
        Ok(())
    }

    fn each(&self, field: fn(&Step) -> f64) -> Vec<f64> {
        self.steps.iter().map(field).collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A worker that has ended already cannot be killed.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Alternates calls of all sides, and prints a row for each.
fn compare(model: &str, quick: bool, rounds: usize) -> Result<()> {
    let start = |(_, variables): &(&str, &[(&str, &str)])| Worker::start(model, quick, variables);
    let mut workers = SIDES.iter().map(start).collect::<Result<Vec<_>>>()?;
    for round in 0..rounds {
        // The order alternates, so that no side always follows the same one.
        let count = workers.len();
        for turn in 0..count {
            let at = if round % 2 == 0 { turn } else { count - 1 - turn };
            workers[at].step()?;
        }
    }
    let base = (workers[0].each(|step| step.wall), workers[0].each(|step| step.cpu));
    let rows = SIDES.iter().zip(&workers).map(|((name, _), worker)| {
        let (wall, cpu) = (worker.each(|step| step.wall), worker.each(|step| step.cpu));
        let last = worker.steps.last();
        vec![
            (*name).to_owned(),
            format!("{:.0}", quantile(&worker.each(|step| step.faults), 0.5)),
            format!("{:.0}", cpu.iter().sum::<f64>() / cpu.len() as f64),
            format!("{:.2}", cpu.iter().sum::<f64>() / base.1.iter().sum::<f64>()),
            format!("{:.1}", lower_quartile(&wall)),
            format!("{:.2}", ratio(&wall, &base.0)),
            format!("{:.0}", last.map_or(0.0, |step| step.resident)),
            format!("{:.0}", last.map_or(0.0, |step| step.peak)),
        ]
    });
    let rows: Vec<_> = rows.collect();
    print_table(
        &["memory", "faults", "CPU", "/ system", "wall", "/ system", "resident MB", "peak MB"],
        &rows,
    );
    Ok(())
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let quick = has("--quick");
    if let Some(at) = words.iter().position(|word| word == "--worker") {
        return serve(words.get(at + 1).context("--worker needs a name")?, quick);
    }
    // `cargo bench` passes this flag. `cargo test --all-targets` does not, and measures nothing.
    if !has("--bench") {
        return Ok(());
    }
    let selects = |name: &str| words.iter().all(|word| word.starts_with('-')) || has(name);
    if selects("gpt2") {
        print_heading("GPT-2 of 4 layers, a step, milliseconds");
        compare("gpt2", quick, if quick { 4 } else { 20 })?;
    }
    if selects("shapes") {
        print_heading("Changing shapes, a call, milliseconds");
        compare("shapes", quick, if quick { 20 } else { 180 })?;
    }
    Ok(())
}
