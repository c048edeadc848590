//! Measures training steps and inference of models beside JAX, PyTorch, candle and burn.
//!
//! ```text
//! cargo bench --bench models                    OXIDAX_BENCH_PYTHON=… adds JAX,
//!                                               OXIDAX_BENCH_TORCH=… PyTorch,
//!                                               OXIDAX_BENCH_FRAMEWORKS=… candle and burn
//! cargo bench --bench models -- mlp resnet50    some of: mlp, gpt2, gpt2-1x1024, gpt2-4x128,
//!                                               gpt2-bf16, baby, decode, resnet50, bert, precision
//! cargo bench --bench models -- --side=JAX      beside one of the sides
//! cargo bench --bench models -- --rounds=3      at most this number of rounds
//! cargo bench --bench models -- --quick         small sizes, fewer rounds, ResNet only if named
//! cargo bench --bench models -- --large         batches for one GPU or TPU
//! ```
//!
//! - *MLP*: a step of `examples/mlp -- --data`, 784-1024-1024-10 on 128 images, AdamW.
//! - *GPT-2*: a step of `examples/gpt2` with 124M parameters on a window of 256 tokens, on one of
//!   1024, and on four of 128: clipping, AdamW; in `f32`, and computing in `bf16` with `f32`
//!   parameters. *Baby GPT* has nanoGPT's settings for CPUs.
//! - *Decode*: greedy generation with GPT-2 and a cache of keys and values, in tokens per second.
//! - *ResNet-50*: a step on 8 images of 112×112, momentum.
//! - *BERT*: embeddings of 16 sentences of 128 tokens with MiniLM of 6 layers.
//! - *Precision*: the step of GPT-2 and matrix products in `f32` and `bf16`, oxidax alone, and the
//!   losses of the baby GPT in both; `--chart=FILE` draws them as SVG or PNG.
//!
//! All sides have the same parameters and data (`support/models/numbers.rs`), and their first
//! results must agree up to rounding. Each model is measured beside one other side at a time, and
//! both run in new processes. The first call traces, lowers, compiles and runs, and is reported
//! separately. Then the sides alternate in rounds; a call ends when its result can be read. Times
//! are lower quartiles over rounds, ratios medians over rounds. *CPU ratio* compares processor time
//! over all calls and threads, which other work on the machine disturbs less. *Peak* is the most
//! resident memory from the first call on.
//!
//! `OXIDAX_PLATFORM=cuda` and `JAX_PLATFORMS=cuda` measure on a GPU. With `--large` the first
//! results may differ by the rounding of TF32.

#[path = "support/figures.rs"]
mod figures;
#[path = "support/jax.rs"]
mod jax;
#[path = "support/mlp.rs"]
#[allow(dead_code, reason = "other benchmarks draw its weights as the example does")]
mod mlp;
#[path = "support/models/mod.rs"]
mod models;
#[path = "support/pairs.rs"]
mod pairs;

use anyhow::{Context as _, Result, bail};
use figures::{lower_quartile, print_heading, print_table, ratio};
use jax::Jax;
use models::serve::{serve, timed};
use models::{Call, Model, bert, gpt2, numbers, resnet};
use oxidax::prelude::*;
use pairs::{Entry, HEADINGS, Row, Side, measure};
use serde_json::json;

/// The size of a measurement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Sizes for a CPU.
    Full,
    Quick,
    /// Sizes for one GPU or TPU.
    Large,
}

const NAMES: [&str; 10] = [
    "mlp",
    "gpt2",
    "gpt2-1x1024",
    "gpt2-4x128",
    "gpt2-bf16",
    "baby",
    "decode",
    "resnet50",
    "bert",
    "precision",
];

/// Models that a quick measurement only runs if they are named: slow ones and repetitions.
const NOT_QUICK: [&str; 4] = ["gpt2-1x1024", "gpt2-4x128", "baby", "resnet50"];

fn gpt2_sizes(extent: Extent) -> gpt2::Sizes {
    match extent {
        Extent::Full => gpt2::SMALLEST,
        Extent::Quick => gpt2::BABY,
        Extent::Large => gpt2::Sizes { batch: 8, context: 1024, ..gpt2::SMALLEST },
    }
}

/// Returns the sizes of the published model with this batch and context, if `name` has them.
fn batch_and_context(name: &str) -> Option<gpt2::Sizes> {
    let (batch, context) = match name {
        "gpt2-1x1024" => (1, 1024),
        "gpt2-4x128" => (4, 128),
        _ => return None,
    };
    Some(gpt2::Sizes { batch, context, ..gpt2::SMALLEST })
}

/// Returns the numbers of tokens that decoding reads and generates.
fn decoded(extent: Extent) -> (usize, u32) {
    match extent {
        Extent::Full => (16, 32),
        Extent::Quick => (16, 24),
        Extent::Large => (16, 256),
    }
}

fn resnet_sizes(extent: Extent) -> resnet::Sizes {
    match extent {
        Extent::Full => resnet::Sizes { batch: 8, side: 112 },
        Extent::Quick => resnet::Sizes { batch: 2, side: 64 },
        Extent::Large => resnet::Sizes { batch: 64, side: 224 },
    }
}

fn bert_sizes(extent: Extent) -> bert::Sizes {
    match extent {
        Extent::Full => bert::MINI_LM,
        Extent::Quick => bert::Sizes { layers: 1, batch: 2, ..bert::MINI_LM },
        Extent::Large => bert::Sizes { batch: 256, ..bert::MINI_LM },
    }
}

/// Creates a model of oxidax.
fn model(name: &str, extent: Extent) -> Result<Model> {
    if let Some(sizes) = batch_and_context(name) {
        return gpt2::training(sizes, false);
    }
    match name {
        "mlp" => models::mlp::training(),
        "gpt2" => gpt2::training(gpt2_sizes(extent), false),
        "gpt2-bf16" => gpt2::training(gpt2_sizes(extent), true),
        "baby" => gpt2::training(gpt2::BABY, false),
        "decode" => {
            let (prompt, tokens) = decoded(extent);
            gpt2::decoding(gpt2_sizes(extent), prompt, tokens)
        }
        "resnet50" => resnet::training(resnet_sizes(extent)),
        "bert" => bert::inference(bert_sizes(extent)),
        other => bail!("no model is called `{other}`; there are {}", NAMES.join(", ")),
    }
}

fn entry(name: &str, extent: Extent) -> Result<Entry> {
    let of_gpt2 = |sizes, bf16| json!({"model": "gpt2", "sizes": sizes, "bf16": bf16});
    let gpt = if extent == Extent::Quick { "baby GPT" } else { "GPT-2 124M" };
    let (title, mut start, rounds, calls, tolerance) = match name {
        "mlp" => ("MLP, step".to_owned(), json!({"model": "mlp", "sizes": {}}), 40, 4, 1e-4),
        "gpt2" => (format!("{gpt}, step"), of_gpt2(gpt2_sizes(extent), false), 20, 1, 1e-4),
        "gpt2-1x1024" | "gpt2-4x128" => {
            let sizes = batch_and_context(name).context("the name has sizes")?;
            let title = format!("GPT-2 124M, step, {}×{} tokens", sizes.batch, sizes.context);
            (title, of_gpt2(sizes, false), 20, 1, 1e-4)
        }
        "gpt2-bf16" => {
            (format!("{gpt}, step in bf16"), of_gpt2(gpt2_sizes(extent), true), 20, 1, 1e-2)
        }
        "baby" => ("baby GPT, step".to_owned(), of_gpt2(gpt2::BABY, false), 20, 1, 1e-4),
        "decode" => {
            let (prompt, tokens) = decoded(extent);
            let mut sizes = json!(gpt2_sizes(extent));
            (sizes["prompt"], sizes["tokens"]) = (json!(prompt), json!(tokens));
            let start = json!({"model": "decode", "sizes": sizes});
            (format!("{gpt}, decode"), start, 20, 1, 0.0)
        }
        "resnet50" => {
            let start = json!({"model": "resnet50", "sizes": resnet_sizes(extent)});
            ("ResNet-50, step".to_owned(), start, 20, 1, 1e-3)
        }
        "bert" => {
            let start = json!({"model": "bert", "sizes": bert_sizes(extent)});
            ("BERT, inference".to_owned(), start, 20, 1, 1e-4)
        }
        other => bail!("no model is called `{other}`; there are {}", NAMES.join(", ")),
    };
    start["name"] = json!(name);
    let rounds = if extent == Extent::Quick { usize::div_ceil(rounds, 4) } else { rounds };
    // GPUs and TPUs round the operands of products.
    let is_rounded = extent == Extent::Large && name != "decode";
    let tolerance = if is_rounded { f64::max(tolerance, 1e-2) } else { tolerance };
    let tokens = (name == "decode").then_some(decoded(extent).1);
    Ok(Entry { title, start, rounds, calls, tolerance, tokens })
}

/// Measures models beside each other side, or alone if there is no other side.
#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
fn beside_others(names: &[&str], extent: Extent, words: &[String]) -> Result<()> {
    let mut entries: Vec<Entry> =
        names.iter().map(|name| entry(name, extent)).collect::<Result<_>>()?;
    if let Some(most) = words.iter().find_map(|word| word.strip_prefix("--rounds=")) {
        let most = most.parse().context("--rounds= takes a number")?;
        entries.iter_mut().for_each(|entry| entry.rounds = entry.rounds.min(most));
    }
    let sides = Side::available(words)?;
    if !sides.is_empty() {
        // The compiled PyTorch is the same version.
        let sides = sides.iter().filter(|(side, _)| *side != Side::TorchCompiled);
        let versions = sides.map(|(side, version)| format!("{} {version}", side.name()));
        println!("Beside {}.\n", versions.collect::<Vec<_>>().join(", "));
    }
    let sides: Vec<_> = match &sides[..] {
        [] => vec![None],
        sides => sides.iter().map(|(side, _)| Some(*side)).collect(),
    };
    let own = match extent {
        Extent::Full => &["--bench", "--serve"][..],
        Extent::Quick => &["--bench", "--serve", "--quick"],
        Extent::Large => &["--bench", "--serve", "--large"],
    };
    for entry in &entries {
        let mut rows: Vec<Row> = Vec::new();
        for side in &sides {
            eprintln!("{} beside {}", entry.title, side.map_or("nothing", Side::name));
            let row = measure(entry, Jax::own(own)?, *side);
            rows.extend(row.with_context(|| entry.title.clone())?);
        }
        for rounds in rows.iter().filter_map(|row| row.rounds.as_ref()) {
            println!("{rounds}");
        }
        let unit =
            if entry.tokens.is_some() { "Tokens per second" } else { "Milliseconds per call" };
        println!("\n{unit}:\n");
        print_table(&HEADINGS, &rows.into_iter().map(|row| row.cells).collect::<Vec<_>>());
    }
    Ok(())
}

/// Builds the product of two random matrices.
fn product(n: usize, dtype: DType) -> Result<Call> {
    let matrix = Array::from_slice(&numbers::numbers(n * n), [n, n])?;
    let matrix = convert_element_type(&matrix, dtype);
    let multiply = jit(|a: Array, b: Array| a.matmul(&b)).name("product");
    Ok(Box::new(move || {
        multiply.call(&matrix, &matrix)?.block_until_ready()?;
        Ok(Vec::new())
    }))
}

/// Alternates the GPT-2 step and matrix products in `f32` and `bf16`.
fn precision(extent: Extent) -> Result<Vec<Vec<String>>> {
    let sizes = gpt2_sizes(extent);
    let step = |bf16: bool| Ok::<Call, anyhow::Error>(gpt2::training(sizes, bf16)?.call);
    let n = if extent == Extent::Quick { 256 } else { 1024 };
    let rounds = if extent == Extent::Quick { 3 } else { 7 };
    let mut rows = Vec::new();
    for (title, full, half) in [
        (format!("product of {n}×{n}"), product(n, DType::F32)?, product(n, DType::BF16)?),
        (format!("GPT-2 of {} layers, step", sizes.layers), step(false)?, step(true)?),
    ] {
        let (mut full, mut half) = (full, half);
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..=rounds {
            for (call, times) in [&mut full, &mut half].into_iter().zip(&mut times) {
                let [time, _] = timed(call, 1)?;
                // The first call compiles.
                if round > 0 {
                    times.push(time);
                }
            }
        }
        let [full, half] = &times;
        rows.push(vec![
            title,
            format!("{:.1}", lower_quartile(full)),
            format!("{:.1}", lower_quartile(half)),
            format!("{:.2}", ratio(half, full)),
        ]);
    }
    Ok(rows)
}

/// Trains the baby GPT in `f32` and in `bf16`, prints mean losses, and optionally draws both.
#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
fn curves(extent: Extent, chart: Option<&str>) -> Result<()> {
    let steps = if extent == Extent::Quick { 20 } else { 400 };
    let kinds = [("f32", false), ("bf16", true)];
    let mut curves = Vec::new();
    for (name, bf16) in kinds {
        curves.push((name, gpt2::losses(steps, bf16)?));
    }
    let part = steps as usize / 4;
    let rows: Vec<Vec<String>> = (0..4)
        .map(|at| {
            let mean = |losses: &[f64]| {
                losses[at * part..(at + 1) * part].iter().sum::<f64>() / part as f64
            };
            let [full, half] = [mean(&curves[0].1), mean(&curves[1].1)];
            let name = format!("steps {} to {}", at * part, (at + 1) * part - 1);
            vec![name, format!("{full:.4}"), format!("{half:.4}"), format!("{:+.4}", half - full)]
        })
        .collect();
    println!("Mean loss of the baby GPT with the same weights and batches:\n");
    print_table(&["", "f32", "bf16", "apart"], &rows);
    if let Some(path) = chart {
        let title = format!("Loss of the baby GPT in {steps} steps, in nats");
        let numbered = |losses: &[f64]| {
            (0_u32..).map(f64::from).zip(losses.iter().copied()).collect::<Vec<_>>()
        };
        let chart = curves.iter().fold(train::Chart::new(title), |chart, (name, losses)| {
            chart.curve(*name, numbered(losses))
        });
        chart.save(path)?;
        println!("{path} shows both.\n");
    }
    Ok(())
}

/// Describes the processor's instructions for `bf16`.
fn features() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags")).unwrap_or_default();
    let has = |wanted: &str| flags.split_whitespace().any(|flag| flag == wanted);
    let asked = ["avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16"];
    let (has, lacks): (Vec<&str>, Vec<&str>) = asked.into_iter().partition(|flag| has(flag));
    let list = |flags: &[&str]| match flags {
        [] => "nothing".to_owned(),
        flags => flags.join(", "),
    };
    format!("has {}; lacks {}", list(&has), list(&lacks))
}

#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo bench` passes this flag. `cargo test --all-targets` does not, and measures nothing.
    if !words.iter().any(|word| word == "--bench") {
        return Ok(());
    }
    // First calls must compile, also when this binary is started without cargo.
    oxidax::jit::cache::set_disk(oxidax::jit::cache::Settings::off())?;
    let is_given = |flag: &str| words.iter().any(|word| word == flag);
    let extent = if is_given("--quick") {
        Extent::Quick
    } else if is_given("--large") {
        Extent::Large
    } else {
        Extent::Full
    };
    if is_given("--serve") {
        return serve(env!("CARGO_PKG_VERSION"), |start| {
            let name = start["name"].as_str().context("the name of a model")?;
            model(name, extent).map(Some)
        });
    }
    let named: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !word.starts_with("--")).collect();
    let is_chosen = |name: &&str| extent != Extent::Quick || !NOT_QUICK.contains(name);
    let chosen =
        if named.is_empty() { NAMES.into_iter().filter(is_chosen).collect() } else { named };
    let (precisely, models): (Vec<_>, Vec<_>) =
        chosen.into_iter().partition(|name| *name == "precision");

    print_heading("Steps and answers of models, milliseconds");
    println!("The processor {}.\n", features());
    if !models.is_empty() {
        beside_others(&models, extent, &words)?;
    }
    if !precisely.is_empty() {
        println!("In f32 and in bf16, oxidax alone:\n");
        print_table(&["what", "f32", "bf16", "bf16 / f32"], &precision(extent)?);
        curves(extent, words.iter().find_map(|word| word.strip_prefix("--chart=")))?;
    }
    Ok(())
}
