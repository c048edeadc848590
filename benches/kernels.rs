//! Measures the kernels of `oxidax::kernels` beside the same functions of plain operations and JAX.
//!
//! ```text
//! cargo bench --bench kernels              OXIDAX_BENCH_PYTHON=… adds JAX
//! cargo bench --bench kernels -- --quick   fewer rounds
//! cargo bench --bench kernels -- attention rows whose names begin so
//! ```
//!
//! In each round all sides alternate. Times are lower quartiles over rounds in milliseconds, ratios
//! medians over rounds. Memory is that of temporaries, as the compiler reports it, in MB. The
//! results of all sides are compared first.

#[path = "support/figures.rs"]
mod figures;
#[path = "support/jax.rs"]
mod jax;
#[path = "support/kernels.rs"]
mod kernels;

use anyhow::{Context as _, Result, ensure};
use figures::{lower_quartile, print_heading, print_table, ratio, relative_difference};
use jax::Jax;
use kernels::{Case, Function};
use oxidax::prelude::*;
use serde_json::json;
use std::time::Instant;

/// The largest difference between the results of two sides, relative to the largest element.
const TOLERANCE: f64 = 1e-3;

/// A compiled side.
struct Side {
    step: Jit<'static, (Vec<Array>,), Vec<Array>>,
    /// The bytes of temporaries.
    temporaries: u64,
}

impl Side {
    fn new(function: Function, arguments: &Vec<Array>) -> Result<Side> {
        let step = jit(move |x: Vec<Array>| function(&x));
        let report = step.lower(arguments)?.compile()?.report();
        Ok(Side { step, temporaries: report.memory_analysis()?.temporaries })
    }

    fn run(&self, arguments: &Vec<Array>) -> Result<Vec<Array>> {
        let results = self.step.call(arguments)?;
        block_until_ready(&results)?;
        Ok(results)
    }

    /// Returns the milliseconds of a call.
    fn time(&self, arguments: &Vec<Array>) -> Result<f64> {
        let start = Instant::now();
        self.run(arguments)?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }
}

fn elements(x: &Array) -> Result<Vec<f64>> {
    Ok(x.to_vec::<f32>()?.into_iter().map(f64::from).collect())
}

fn compare(ours: &[Vec<f64>], other: &[Vec<f64>], side: &str) -> Result<()> {
    ensure!(ours.len() == other.len(), "{side} has {} results, not {}", other.len(), ours.len());
    for (index, (ours, other)) in ours.iter().zip(other).enumerate() {
        let difference = relative_difference(ours, other);
        ensure!(
            ours.len() == other.len() && difference <= TOLERANCE,
            "result {index} of {side} differs by {difference:.1e} of its largest number"
        );
    }
    Ok(())
}

fn measure(case: &Case, rounds: usize, jax: &mut Option<Jax>) -> Result<Vec<String>> {
    let arguments = &case.arguments;
    let sides = [Side::new(case.kernel, arguments)?, Side::new(case.plain, arguments)?];
    let results = |side: &Side| -> Result<Vec<Vec<f64>>> {
        side.run(arguments)?.iter().map(elements).collect()
    };
    let ours = results(&sides[0])?;
    compare(&ours, &results(&sides[1])?, "the plain function")?;
    let request = |what: &str| json!({ "name": case.name, "what": what });
    let mut memory = sides.each_ref().map(|side| side.temporaries as f64 / 1e6).to_vec();
    if let Some(jax) = jax {
        let sum = |x: &Vec<f64>| vec![x.iter().map(|x| x.abs()).sum::<f64>()];
        let sums: Vec<Vec<f64>> = ours.iter().map(sum).collect();
        let of_jax = jax.numbers(&request("sums"))?;
        compare(&sums, &of_jax.into_iter().map(|x| vec![x]).collect::<Vec<_>>(), "JAX")?;
        memory.extend(jax.numbers(&request("memory"))?);
    }
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (times, side) in times.iter_mut().zip(&sides) {
            times.push(side.time(arguments)?);
        }
        if let Some(jax) = jax {
            times[2].extend(jax.numbers(&request("time"))?);
        }
    }
    let [kernel, plain, of_jax] = times;
    let quartile = |times: &[f64]| format!("{:.1}", lower_quartile(times));
    let faster = |other: &[f64]| format!("{:.2}", ratio(other, &kernel));
    let mut cells = vec![case.title.to_string(), quartile(&kernel)];
    cells.extend([quartile(&plain), faster(&plain)]);
    cells.extend(match of_jax.is_empty() {
        true => ["-".to_string(), "-".to_string()],
        false => [quartile(&of_jax), faster(&of_jax)],
    });
    memory.resize(3, f64::NAN);
    cells.extend(memory.iter().map(|megabytes| format!("{megabytes:.0}")));
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
    let names: Vec<&String> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let mut jax = Jax::start("kernels_bench.py")?;
    print_heading("Kernels; milliseconds, and MB of temporaries");
    let headings = [
        "function",
        "kernel",
        "plain",
        "plain/kernel",
        "JAX",
        "JAX/kernel",
        "MB kernel",
        "MB plain",
        "MB JAX",
    ];
    let mut rows = Vec::new();
    for case in kernels::cases()? {
        if names.is_empty() || names.iter().any(|name| case.name.starts_with(name.as_str())) {
            rows.push(measure(&case, rounds, &mut jax).with_context(|| case.name)?);
        }
    }
    print_table(&headings, &rows);
    Ok(())
}
