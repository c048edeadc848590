//! Measures small programs that are loops, with and without one kernel per loop, beside JAX and C.
//!
//! ```text
//! cargo bench --bench loops              OXIDAX_BENCH_PYTHON=… adds JAX
//! cargo bench --bench loops -- --quick   fewer rounds
//! ```
//!
//! - *kernels*: a warm call, whose small loops are one kernel each.
//! - *plain*: the same inside `disable_loop_kernels`.
//! - *C*: four of the programs by hand, `support/loops.c`, compiled by `cc -O3 -march=native`.
//! - *compile*: time to compile with kernels over the time without them.
//!
//! In each round all sides alternate. Times are lower quartiles over rounds in milliseconds; ratios
//! are medians over rounds. The results of all sides are compared first.

#[path = "support/figures.rs"]
mod figures;
#[path = "support/jax.rs"]
mod jax;
#[path = "support/loops.rs"]
mod loops;

use anyhow::{Context as _, Result, ensure};
use figures::{
    lower_quartile, micros_per_call, print_heading, print_table, ratio, relative_difference,
};
use jax::Jax;
use loops::Program;
use oxidax::jit::cache::{Settings, set_disk};
use oxidax::jit::disable_loop_kernels;
use oxidax::prelude::*;
use serde_json::json;
use std::time::Instant;

/// The largest difference between the results of two sides, relative to the largest element.
const TOLERANCE: f64 = 1e-3;

/// Milliseconds per round.
#[derive(Default)]
struct Times {
    kernels: Vec<f64>,
    plain: Vec<f64>,
    jax: Vec<f64>,
    c: Vec<f64>,
}

/// The other sides.
struct Others {
    jax: Option<Jax>,
    c: Option<Jax>,
}

impl Others {
    /// Returns those that have the program, by name.
    fn of(&mut self, program: &Program) -> impl Iterator<Item = (&'static str, &mut Jax)> {
        let jax = self.jax.as_mut().map(|side| ("JAX", side));
        let c = self.c.as_mut().filter(|_| program.is_in_c).map(|side| ("C", side));
        jax.into_iter().chain(c)
    }
}

/// Checks that results agree.
fn compare(ours: &[Array], other: &[Vec<f64>], side: &str) -> Result<()> {
    ensure!(ours.len() == other.len(), "{side} has {} results, not {}", other.len(), ours.len());
    for (index, (ours, other)) in ours.iter().zip(other).enumerate() {
        let ours = elements(ours)?;
        let difference = relative_difference(&ours, other);
        ensure!(
            ours.len() == other.len() && difference <= TOLERANCE,
            "result {index} of {side} differs by {difference:.1e} of its largest number"
        );
    }
    Ok(())
}

fn elements(x: &Array) -> Result<Vec<f64>> {
    Ok(x.to_vec::<f32>()?.into_iter().map(f64::from).collect())
}

fn measure(program: &Program, rounds: usize, others: &mut Others) -> Result<Vec<String>> {
    let function = program.function;
    let step = jit(move |x: Vec<Array>| function(&x));
    let lowered = step.lower(&program.arguments)?;
    for of in lowered.loops()? {
        eprintln!("{}: {of}", program.name);
    }
    let call = || step.call(&program.arguments);
    let compile = || -> Result<f64> {
        let start = Instant::now();
        lowered.compile()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    let compiled = [compile()?, disable_loop_kernels(compile)?];
    let results = call()?;
    let plain = disable_loop_kernels(call)?;
    let plain: Vec<Vec<f64>> = plain.iter().map(elements).collect::<Result<_>>()?;
    compare(&results, &plain, "the program without kernels")?;
    let run = || -> Result<()> {
        block_until_ready(&step.call(&program.arguments)?)?;
        Ok(())
    };
    let start = Instant::now();
    disable_loop_kernels(run)?;
    let calls = (0.02 / start.elapsed().as_secs_f64()).ceil() as usize;
    for (side, other) in others.of(program) {
        for (index, result) in results.iter().enumerate() {
            let request = json!({ "index": index, "name": program.name, "what": "results" });
            compare(std::slice::from_ref(result), &[other.numbers(&request)?], side)?;
        }
    }
    let mut times = Times::default();
    for _ in 0..rounds {
        times.kernels.push(micros_per_call(calls, run)? / 1e3);
        times.plain.push(disable_loop_kernels(|| micros_per_call(calls, run))? / 1e3);
        for (side, other) in others.of(program) {
            let request = json!({ "calls": calls, "name": program.name, "what": "time" });
            let of_side = if side == "C" { &mut times.c } else { &mut times.jax };
            of_side.extend(other.numbers(&request)?);
        }
    }
    let mut cells = vec![program.title.to_string()];
    let quartile = |times: &[f64]| format!("{:.3}", lower_quartile(times));
    let faster = |other: &[f64]| format!("{:.2}", ratio(other, &times.kernels));
    cells.extend([quartile(&times.kernels), quartile(&times.plain), faster(&times.plain)]);
    for times in [&times.jax, &times.c] {
        cells.extend(match times.is_empty() {
            true => ["-".to_string(), "-".to_string()],
            false => [quartile(times), faster(times)],
        });
    }
    cells.push(format!("{:.2}", compiled[0] / compiled[1]));
    Ok(cells)
}

#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let said = |word: &str| words.iter().any(|other| other == word);
    // `cargo bench` passes this flag. `cargo test --all-targets` does not, and measures nothing.
    if !said("--bench") {
        return Ok(());
    }
    let rounds = if said("--quick") { 3 } else { 20 };
    set_disk(Settings::off())?;
    let mut others = Others { jax: Jax::start("loops_bench.py")?, c: Jax::c("loops.c")? };
    print_heading("Small programs that are loops; milliseconds");
    let headings = [
        "program",
        "kernels",
        "plain",
        "plain/kernels",
        "JAX",
        "JAX/kernels",
        "C",
        "C/kernels",
        "compile",
    ];
    let chosen = |program: &Program| {
        let named = words.iter().any(|word| loops::is_name(word));
        !named || said(program.name)
    };
    let mut rows = Vec::new();
    for program in loops::programs()?.iter().filter(|program| chosen(program)) {
        let row = measure(program, rounds, &mut others);
        rows.push(row.with_context(|| program.name)?);
    }
    print_table(&headings, &rows);
    Ok(())
}
