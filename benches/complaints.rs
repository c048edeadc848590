//! Measures small programs after public reports of slow JAX programs on CPUs, beside JAX.
//!
//! ```text
//! cargo bench --bench complaints              OXIDAX_BENCH_PYTHON=… adds JAX
//! cargo bench --bench complaints -- --quick   fewer steps and rounds
//! ```
//!
//! Each program cites the number of an issue of <https://github.com/jax-ml/jax/issues>. In each
//! round the sides alternate. Times are lower quartiles over rounds in milliseconds; ratios are
//! medians over rounds. *First call* traces, lowers, compiles and runs, in seconds. The results of
//! both sides are compared first.

#[path = "support/complaints.rs"]
mod complaints;
#[path = "support/figures.rs"]
mod figures;
#[path = "support/jax.rs"]
mod jax;

use anyhow::{Context as _, Result, ensure};
use complaints::Program;
use figures::{
    lower_quartile, micros_per_call, print_heading, print_table, ratio, relative_difference,
};
use jax::Jax;
use oxidax::prelude::*;
use serde_json::json;
use std::time::Instant;

/// The largest difference between the results of two sides, relative to the largest element.
const TOLERANCE: f64 = 1e-3;

/// Checks that results agree.
fn compare(ours: &Array, other: &[f64]) -> Result<()> {
    let ours = convert_element_type(ours, DType::F64).to_vec::<f64>()?;
    let difference = relative_difference(&ours, other);
    ensure!(
        ours.len() == other.len() && difference <= TOLERANCE,
        "{} numbers differ from JAX's {} by {difference:.1e} of the largest",
        ours.len(),
        other.len()
    );
    Ok(())
}

/// Measures a program and returns its row, and the ratios of its rounds if JAX is measured.
fn measure(
    program: &Program,
    (rounds, scale): (usize, usize),
    jax: &mut Option<Jax>,
) -> Result<(Vec<String>, Option<String>)> {
    let function = program.function;
    let step = jit(move |x: Vec<Array>| function(&x));
    for of in step.lower(&program.arguments)?.loops()? {
        eprintln!("{}: {of}", program.name);
    }
    let start = Instant::now();
    let results = step.call(&program.arguments)?;
    block_until_ready(&results)?;
    let first = start.elapsed().as_secs_f64();
    let mut jax_first = None;
    if let Some(jax) = jax {
        let request = json!({"what": "start", "name": program.name, "scale": scale});
        jax_first = jax.numbers(&request)?.first().copied();
        for (index, result) in results.iter().enumerate() {
            compare(result, &jax.numbers(&json!({"what": "result", "index": index}))?)?;
        }
    }
    let run = || -> Result<()> {
        block_until_ready(&step.call(&program.arguments)?)?;
        Ok(())
    };
    let start = Instant::now();
    run()?;
    let calls = (0.02 / start.elapsed().as_secs_f64()).ceil() as usize;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(micros_per_call(calls, run)? / 1e3);
        if let Some(jax) = jax {
            theirs.extend(jax.numbers(&json!({"what": "run", "calls": calls}))?);
        }
    }
    let of_jax = |cell: &dyn Fn() -> String| match &theirs[..] {
        [] => "-".to_owned(),
        _ => cell(),
    };
    let ratios: Vec<_> = ours.iter().zip(&theirs).map(|(a, b)| format!("{:.2}", a / b)).collect();
    let rounds = format!("{}, oxidax / JAX: {}", program.title, ratios.join(" "));
    let cells = vec![
        program.title.to_owned(),
        program.issue.to_string(),
        format!("{:.3}", lower_quartile(&ours)),
        of_jax(&|| format!("{:.3}", lower_quartile(&theirs))),
        of_jax(&|| format!("{:.2}", ratio(&ours, &theirs))),
        format!("{first:.2}"),
        jax_first.map_or("-".to_owned(), |first| format!("{first:.2}")),
    ];
    Ok((cells, (!theirs.is_empty()).then_some(rounds)))
}

#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_given = |word: &str| words.iter().any(|other| other == word);
    // `cargo bench` passes this flag. `cargo test --all-targets` does not, and measures nothing.
    if !is_given("--bench") {
        return Ok(());
    }
    let sizes = if is_given("--quick") { (3, 10) } else { (15, 1) };
    oxidax::jit::cache::set_disk(oxidax::jit::cache::Settings::off())?;
    let mut jax = Jax::start("complaints_bench.py")?;
    print_heading("Programs after reports of slow JAX programs; milliseconds");
    let headings =
        ["program", "issue", "oxidax", "JAX", "ratio", "first call, s", "JAX's first, s"];
    let mut rows = Vec::new();
    for program in &complaints::programs(sizes.1)? {
        let (row, rounds) = measure(program, sizes, &mut jax).context(program.name)?;
        if let Some(rounds) = rounds {
            println!("{rounds}");
        }
        rows.push(row);
    }
    println!();
    print_table(&headings, &rows);
    Ok(())
}
