//! Measures the host cost of steps on eight devices beside the bare C API and JAX.
//!
//! ```text
//! cargo bench --bench spread                  OXIDAX_BENCH_PYTHON=… adds JAX
//! cargo bench --bench spread -- --quick       a fifth of the rounds
//! ```
//!
//! The program adds 1 to each of *n* arrays `f32[8, 4]`, one row per CPU device. Every call is
//! awaited on all sides. The *bare* call passes prebuilt buffer lists to the same executable, which
//! leaves the plugin's launch on eight threads. *Own* is what oxidax and JAX add to it; JAX's
//! plugin is another build of the same compiler. Times are lower quartiles over rounds, in
//! microseconds per call; differences are medians over rounds.
//!
//! Goal: our part is under half of the part that JAX adds.

#[path = "support/figures.rs"]
mod figures;
#[path = "support/jax.rs"]
mod jax;
#[path = "support/turns.rs"]
mod turns;

use anyhow::{Context as _, Result, anyhow};
use figures::{difference, lower_quartile, print_heading, print_table, ratio};
use jax::Jax;
use oxidax::prelude::*;
use oxidax_pjrt::{
    ArrayType, Client, CompileOptions, ElementType, ExecutableSignature, LoadedExecutable,
    PjrtBuffer,
};
use turns::{Times, bare_client, plus_one, take_turns};

const LEAVES: [usize; 3] = [1, 10, 148];
const DEVICES: usize = 8;

/// Compiles the text that `jit` lowers to.
fn bare_executable(client: &Client, text: &str, leaves: usize) -> Result<LoadedExecutable> {
    let program = oxidax_pjrt::PjrtProgram::mlir(text)?;
    let shard = ArrayType::new(ElementType::F32, &[1, 4])?;
    let signature = ExecutableSignature { parameters: vec![shard; leaves] };
    Ok(client.compile_with_signature(&program, &CompileOptions::spmd(DEVICES), signature)?)
}

fn bare_buffers(client: &Client, leaves: usize) -> Result<Vec<Vec<PjrtBuffer>>> {
    let bytes: Vec<u8> = [0.5f32; 4].iter().flat_map(|x| x.to_ne_bytes()).collect();
    let on = |device| -> Result<Vec<PjrtBuffer>> {
        let put = |_| client.buffer_from_host(&bytes, ElementType::F32, &[1, 4], device);
        Ok((0..leaves).map(put).collect::<Result<_, _>>()?)
    };
    client.addressable_devices().iter().map(on).collect()
}

fn measure(client: &Client, jax: &mut Option<Jax>, leaves: usize, rounds: usize) -> Result<Times> {
    let calls = (1500 / (leaves + 2)).clamp(16, 200);
    let mesh = Mesh::new(devices()?, [("i", DEVICES)])?;
    let rows = mesh.sharding(p!["i"])?;
    let tree: Vec<Array> = (0..leaves)
        .map(|_| device_put(&full([DEVICES, 4], 0.5f32), &rows))
        .collect::<Result<_, _>>()?;
    let ours = jit(plus_one).in_shardings(&rows).out_shardings(&rows);
    let text = ours.lower(&tree)?.as_text("cpu")?;
    let executable = bare_executable(client, &text, leaves)?;
    let buffers = bare_buffers(client, leaves)?;
    let lists: Vec<Vec<&PjrtBuffer>> = buffers.iter().map(|list| list.iter().collect()).collect();
    let keep: Vec<i64> = (0..leaves as i64).collect();
    let options = oxidax_pjrt::ExecuteOptions { non_donatable: &keep, ..Default::default() };
    let request = serde_json::json!({ "what": "spread", "leaves": leaves, "calls": calls });
    let ours = || {
        let results = ours.call(&tree).map_err(|failed| anyhow!(failed.error))?;
        results.iter().try_for_each(|result| result.block_until_ready().map(drop))?;
        Ok(())
    };
    let bare = || {
        let launched = executable.execute_sharded(&lists, &options)?;
        launched.events.iter().try_for_each(|done| done.wait())?;
        Ok(())
    };
    take_turns((rounds, calls), ours, bare, (jax, &request))
}

fn row(leaves: usize, times: &Times) -> Vec<String> {
    let own = difference(&times.ours, &times.bare);
    let mut cells = vec![
        leaves.to_string(),
        format!("{:.1}", lower_quartile(&times.bare)),
        format!("{:.1}", lower_quartile(&times.ours)),
        format!("{own:.1}"),
    ];
    if times.jax.is_empty() {
        cells.extend(["-"; 4].map(str::to_string));
        return cells;
    }
    let jax_own = difference(&times.jax, &times.bare);
    cells.extend([
        format!("{:.1}", lower_quartile(&times.jax)),
        format!("{:.2}", ratio(&times.ours, &times.jax)),
        format!("{jax_own:.1}"),
        format!("{:.2}", own / jax_own),
    ]);
    cells
}

#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo bench` passes this flag. `cargo test --all-targets` does not, and measures nothing.
    if !words.iter().any(|word| word == "--bench") {
        return Ok(());
    }
    oxidax::parallel::set_cpu_devices(DEVICES)?;
    let rounds = if words.iter().any(|word| word == "--quick") { 10 } else { 50 };
    let client = bare_client(DEVICES)?;
    let devices = format!("--xla_force_host_platform_device_count={DEVICES}");
    let mut jax = Jax::start_with("jax_bench.py", &[("XLA_FLAGS", &devices)])?;
    print_heading("Steps on eight CPU devices, awaited, microseconds");
    let rows = LEAVES.iter().map(|&leaves| {
        let times = measure(&client, &mut jax, leaves, rounds);
        Ok(row(leaves, &times.with_context(|| format!("{leaves} leaves"))?))
    });
    let rows = rows.collect::<Result<Vec<_>>>()?;
    let headings =
        ["leaves", "bare C API", "oxidax", "own", "JAX", "/ JAX", "JAX's own", "own / own"];
    print_table(&headings, &rows);
    Ok(())
}
