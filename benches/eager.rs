//! Measures operations and transforms outside of `jit`, with numbers and indices that change from
//! call to call, beside JAX.
//!
//! ```text
//! cargo bench --bench eager                     OXIDAX_BENCH_PYTHON=… adds JAX
//! cargo bench --bench eager -- --quick          a fifth of the rounds
//! cargo bench --bench eager -- --memory         20,000 calls per row, and the growth of memory
//! cargo bench --bench eager -- index grad       these rows only
//! ```
//!
//! Both sides alternate in each round, and each figure is a round's mean over calls with different
//! numbers. The first round of each side, which compiles, is not counted. Times are lower quartiles
//! over rounds, in microseconds per call; ratios are medians over rounds.
//!
//! Budgets: at most twice JAX's time per row, and 1.5 times for the training step.

#[path = "support/figures.rs"]
mod figures;
#[path = "support/jax.rs"]
mod jax;

use anyhow::{Context as _, Result};
use figures::{lower_quartile, print_heading, print_table, ratio};
use jax::Jax;
use oxidax::prelude::*;
use std::time::Instant;

/// A row of the table: its name, also in `eager_bench.py`, and its call with the number `n`.
struct Row {
    name: &'static str,
    title: &'static str,
    call: Box<dyn FnMut(usize) -> Result<Array>>,
}

fn row(
    name: &'static str,
    title: &'static str,
    call: impl FnMut(usize) -> Result<Array> + 'static,
) -> Row {
    Row { name, title, call: Box::new(call) }
}

/// The layers of the perceptron that the last row trains.
const SIZES: [usize; 4] = [784, 128, 128, 10];
const BATCH: usize = 128;

type Params = Vec<(Array, Array)>;

fn loss(params: &Params, images: &Array, labels: &Array) -> Array {
    let mut x = images.clone();
    for (index, (weight, bias)) in params.iter().enumerate() {
        x = x.matmul(weight) + bias;
        if index + 1 < params.len() {
            x = relu(&x);
        }
    }
    nn::softmax_cross_entropy_with_integer_labels(&x, labels).mean()
}

/// Returns the rows. `n` is different in each call.
fn rows() -> Result<Vec<Row>> {
    let uniform = |seed: i64, shape: &[usize]| random::uniform(random::key(seed), shape, 0.0..1.0);
    let (vector, images) = (uniform(0, &[1000]), uniform(1, &[6000, 784]));
    let small = uniform(2, &[100, 5]);
    let number = |n: usize| 1.0 + n as f64 * 1e-4;
    let mut rows = Vec::new();
    let y = vector.clone();
    rows.push(row("index", "`y.index(i![n])`, 1000", move |n| Ok(y.index(i![n % 1000]))));
    rows.push(row("slice", "`x.index(i![n..n + 100])`, 6000 × 784", move |n| {
        let first = n * 7 % 5900;
        Ok(images.index(i![first..first + 100]))
    }));
    let y = vector.clone();
    rows.push(row("set", "`y.at(i![n]).set(n)`, 1000", move |n| {
        Ok(y.at(i![n % 1000]).set(number(n)))
    }));
    let y = vector.clone();
    rows.push(row("add", "`&y + n`, 1000", move |n| Ok(&y + number(n))));
    let y = vector.clone();
    rows.push(row("grad", "`grad` of `(y * y * n).sum()`, 1000", move |n| {
        Ok(grad(|y: &Array| (y * y * number(n)).sum())(&y))
    }));
    let x = small.clone();
    rows.push(row("vmap", "`vmap` of `x.sum() * n`, 100 × 5", move |n| {
        Ok(vmap(|x: &Array| x.sum() * number(n)).apply(&x))
    }));
    let y = vector.clone();
    rows.push(row("scan", "`scan` of `c + x * n`, 1000", move |n| {
        Ok(scan(|c: Array, x: Array| (c + x * number(n), ()), scalar(0.0), &y).0)
    }));
    let key = random::key(3);
    let three = key.clone();
    rows.push(row("normal", "`normal(key, [3])`", move |_| Ok(random::normal(three.clone(), [3]))));
    let million = key.clone();
    rows.push(row("bits", "`bits(key, [1000000])`", move |_| {
        Ok(random::bits(million.clone(), [1_000_000]))
    }));
    rows.push(row("normals", "`normal(key, [1000000])`", move |_| {
        Ok(random::normal(key.clone(), [1_000_000]))
    }));
    rows.push(training_step()?);
    Ok(rows)
}

/// Returns the row that trains a perceptron with a rate that changes from step to step.
fn training_step() -> Result<Row> {
    let mut params: Params = Vec::new();
    for (index, sizes) in SIZES.windows(2).enumerate() {
        let weight = random::normal(random::key(index as i64), [sizes[0], sizes[1]]);
        params.push((weight * 0.05, zeros([sizes[1]])));
    }
    let images = random::uniform(random::key(9), [BATCH, SIZES[0]], 0.0..1.0);
    let labels: Vec<i32> = (0..BATCH as i32).map(|label| label % 10).collect();
    let labels = Array::from_slice(&labels, [BATCH])?;
    Ok(row("train", "training step of a perceptron, annealed rate", move |n| {
        let rate = 0.01 / (1.0 + n as f64 * 1e-3);
        let (value, gradient) = value_and_grad(loss)(&params, &images, &labels);
        let updated = params
            .iter()
            .zip(&gradient)
            .map(|((weight, bias), (dw, db))| (weight - dw * rate, bias - db * rate));
        params = updated.collect();
        Ok(value)
    }))
}

/// Returns the microseconds per call of `calls` calls; `first` is the number of the first.
fn measure(row: &mut Row, first: usize, calls: usize) -> Result<f64> {
    let start = Instant::now();
    let mut last = None;
    for n in first..first + calls {
        last = Some((row.call)(n)?);
    }
    last.context("at least one call")?.to_host()?;
    Ok(start.elapsed().as_secs_f64() * 1e6 / calls as f64)
}

/// Returns the resident memory of this process in kilobytes.
fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("VmRSS")?;
    Ok(line.split_whitespace().nth(1).context("its number")?.parse()?)
}

#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| words.iter().any(|word| word == flag);
    // `cargo bench` passes this flag. `cargo test --all-targets` does not, and measures nothing.
    if !has("--bench") {
        return Ok(());
    }
    let names: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let mut rows = rows()?;
    rows.retain(|row| names.is_empty() || names.contains(&row.name));
    if has("--memory") {
        return memory(rows);
    }
    let rounds = if has("--quick") { 6 } else { 30 };
    let mut jax = Jax::start("eager_bench.py")?;
    print_heading("Calls outside of jit with changing numbers, microseconds");
    let mut table = Vec::new();
    for mut row in rows {
        let calls = match (row.name, has("--quick")) {
            ("train" | "bits" | "normals", _) | ("scan", true) => 20,
            _ => 200,
        };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..=rounds {
            let first = round * calls;
            let time = measure(&mut row, first, calls)?;
            let request = serde_json::json!({"what": row.name, "first": first, "calls": calls});
            let time_of_jax = jax.as_mut().map(|jax| jax.numbers(&request)).transpose()?;
            if round > 0 {
                ours.push(time);
                theirs.extend(time_of_jax.iter().flatten());
            }
        }
        let beside = match theirs.is_empty() {
            true => ["-".to_string(), "-".to_string()],
            false => {
                [format!("{:.1}", lower_quartile(&theirs)), format!("{:.2}", ratio(&ours, &theirs))]
            }
        };
        let [jax, ratio] = beside;
        table.push(vec![
            row.title.to_string(),
            format!("{:.1}", lower_quartile(&ours)),
            jax,
            ratio,
        ]);
    }
    print_table(&["call", "oxidax", "JAX", "/ JAX"], &table);
    Ok(())
}

/// Prints the growth of memory over 20,000 calls of each row.
#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
fn memory(rows: Vec<Row>) -> Result<()> {
    print_heading("Growth of memory over 20,000 calls with changing numbers, kB");
    let mut table = Vec::new();
    for mut row in rows {
        let calls = if row.name == "train" { 2_000 } else { 20_000 };
        measure(&mut row, 0, 2_000.min(calls))?;
        let before = resident()?;
        measure(&mut row, 2_000, calls)?;
        let after = resident()?;
        table.push(vec![
            row.title.to_string(),
            calls.to_string(),
            before.to_string(),
            (after as i64 - before as i64).to_string(),
        ]);
    }
    print_table(&["call", "calls", "before", "growth"], &table);
    Ok(())
}
