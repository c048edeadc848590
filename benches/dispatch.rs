//! Measures warm calls beside the bare C API and JAX.
//!
//! ```text
//! cargo bench --bench dispatch                  OXIDAX_BENCH_PYTHON=… adds JAX
//! cargo bench --bench dispatch -- --quick       a fifth of the rounds
//! ```
//!
//! The program adds 1 to each of *n* arrays `f32[4]`. *Moved*: results are the next call's
//! arguments and reuse their memory, as in a training step. *Kept*: every call has the same
//! arguments. The bare side runs the same program with the same options. All sides alternate in
//! each round, and each figure is a round's mean. Times are lower quartiles over rounds, in
//! microseconds per call; ratios and differences are medians over rounds.
//!
//! Budgets: a call with one array within 1 µs of the bare C API, and at most 0.2 µs of our own per
//! leaf.

#[path = "support/figures.rs"]
mod figures;
#[path = "support/jax.rs"]
mod jax;
#[path = "support/turns.rs"]
mod turns;

use anyhow::{Context as _, Result, anyhow};
use figures::{difference, lower_quartile, print_heading, print_table, ratio};
use jax::Jax;
use oxidax::passes::{LowerOptions, lower_with};
use oxidax::prelude::*;
use oxidax_pjrt::raw::BareCall;
use oxidax_pjrt::{Client, CompileOptions, ElementType, LoadedExecutable, PjrtBuffer};
use turns::{Times, bare_client, plus_one, take_turns};

const LEAVES: [usize; 4] = [1, 10, 148, 450];

/// Ownership of the arguments of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arguments {
    Moved,
    Kept,
}

fn fresh(leaves: usize) -> Result<Vec<Array>> {
    let leaf = |index: usize| Array::from_slice(&[index as f32; 4], [4]);
    Ok((0..leaves).map(leaf).collect::<Result<_, _>>()?)
}

/// The program of the bare side.
fn bare_executable(client: &Client, leaves: usize) -> Result<LoadedExecutable> {
    let types = vec![Array::of_type(Aval::new(DType::F32, [4])); leaves];
    let program = make_program(plus_one, types)?;
    let text = lower_with(&program, "bare", "cpu", LowerOptions { donatable: true })?.text;
    let text = oxidax_pjrt::PjrtProgram::mlir(text)?;
    Ok(client.compile(&text, &CompileOptions::default())?)
}

fn bare_buffers(client: &Client, leaves: usize) -> Result<Vec<PjrtBuffer>> {
    let device = client.addressable_devices().into_iter().next().context("a device")?;
    let put = |index: usize| {
        let bytes: Vec<u8> = [index as f32; 4].iter().flat_map(|x| x.to_ne_bytes()).collect();
        client.buffer_from_host(&bytes, ElementType::F32, &[4], &device)
    };
    Ok((0..leaves).map(put).collect::<Result<_, _>>()?)
}

fn measure(
    client: &Client,
    jax: &mut Option<Jax>,
    leaves: usize,
    arguments: Arguments,
    rounds: usize,
) -> Result<Times> {
    let moved = arguments == Arguments::Moved;
    let calls = (6000 / (leaves + 2)).clamp(16, 1000);
    let ours = jit(plus_one);
    let mut tree = fresh(leaves)?;
    let executable = bare_executable(client, leaves)?;
    let buffers = bare_buffers(client, leaves)?;
    let bare = BareCall::new(&executable, &buffers.iter().collect::<Vec<_>>())?;
    let mut bare = if moved { bare } else { bare.keeping_arguments() };
    let request = serde_json::json!({
        "what": "dispatch", "leaves": leaves, "donated": moved, "calls": calls
    });
    let ours = || {
        if moved {
            tree = ours.call(std::mem::take(&mut tree)).map_err(|failed| anyhow!(failed.error))?;
        } else {
            drop(ours.call(&tree).map_err(|failed| anyhow!(failed.error))?);
        }
        Ok(())
    };
    let bare = || {
        if moved {
            bare.step()?;
        } else {
            bare.run()?;
        }
        Ok(())
    };
    take_turns((rounds, calls), ours, bare, (jax, &request))
}

fn row(leaves: usize, times: &Times) -> Vec<String> {
    let own = difference(&times.ours, &times.bare);
    let mut cells = vec![
        leaves.to_string(),
        format!("{:.2}", lower_quartile(&times.bare)),
        format!("{:.2}", lower_quartile(&times.ours)),
        format!("{own:.2}"),
        format!("{:.3}", own / leaves as f64),
        format!("{:.2}", ratio(&times.ours, &times.bare)),
    ];
    cells.extend(match times.jax.is_empty() {
        true => ["-".to_string(), "-".to_string()],
        false => [
            format!("{:.2}", lower_quartile(&times.jax)),
            format!("{:.2}", ratio(&times.ours, &times.jax)),
        ],
    });
    cells
}

#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo bench` passes this flag. `cargo test --all-targets` does not, and measures nothing.
    if !words.iter().any(|word| word == "--bench") {
        return Ok(());
    }
    let rounds = if words.iter().any(|word| word == "--quick") { 20 } else { 100 };
    let client = bare_client(1)?;
    let mut jax = Jax::start("jax_bench.py")?;
    print_heading("Warm calls, microseconds");
    for (arguments, title) in
        [(Arguments::Moved, "Arguments moved into the call"), (Arguments::Kept, "Arguments kept")]
    {
        let mut rows = Vec::new();
        for leaves in LEAVES {
            rows.push(row(leaves, &measure(&client, &mut jax, leaves, arguments, rounds)?));
        }
        println!("{title}:\n");
        let headings =
            ["leaves", "bare C API", "oxidax", "own", "own/leaf", "/ bare", "JAX", "/ JAX"];
        print_table(&headings, &rows);
    }
    Ok(())
}
