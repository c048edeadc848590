//! Measures training steps and inference of models beside JAX, candle and burn.
//!
//! ```text
//! cargo bench --bench models                    OXIDAX_BENCH_PYTHON=… adds JAX,
//!                                               OXIDAX_BENCH_FRAMEWORKS=… candle and burn
//! cargo bench --bench models -- mlp resnet50    some of: mlp, gpt2, gpt2-bf16, resnet50, bert,
//!                                               precision
//! cargo bench --bench models -- --quick         small sizes, fewer rounds, ResNet only if named
//! ```
//!
//! - *MLP*: a step of `examples/mlp -- --data`, 784-1024-1024-10 on 128 images, AdamW.
//! - *GPT-2*: a step of `examples/gpt2` with 124M parameters on a window of 256 tokens: clipping,
//!   AdamW; in `f32`, and computing in `bf16` with `f32` parameters.
//! - *ResNet-50*: a step on 8 images of 112×112, momentum.
//! - *BERT*: embeddings of 16 sentences of 128 tokens with MiniLM of 6 layers.
//! - *Precision*: the step of GPT-2 and matrix products in `f32` and `bf16`, oxidax alone, and the
//!   losses of the baby GPT in both; `--chart=FILE` draws them as SVG or PNG.
//!
//! candle and burn (`benches/frameworks`) train the MLP and run BERT. All sides have the same
//! parameters and data (`support/models/numbers.rs`), and their first results must agree up to
//! rounding. The first call traces, lowers, compiles and runs, and is reported separately. Then the
//! sides alternate in rounds; a call ends when its result can be read. Times are lower quartiles
//! over rounds, ratios medians over rounds. *CPU ratio* compares processor time over all calls and
//! threads, which other work on the machine disturbs less.

#[path = "support/figures.rs"]
mod figures;
#[path = "support/jax.rs"]
mod jax;
#[path = "support/mlp.rs"]
#[allow(dead_code, reason = "other benchmarks draw its weights as the example does")]
mod mlp;
#[path = "support/models/mod.rs"]
mod models;

use anyhow::{Result, bail, ensure};
use figures::{lower_quartile, print_heading, print_table, ratio};
use jax::Jax;
use models::clock::cpu_millis;
use models::{Call, Model, bert, gpt2, numbers, resnet};
use oxidax::prelude::*;
use serde_json::{Value, json};
use std::time::Instant;

/// The size of a measurement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Full,
    Quick,
}

/// A model on both sides.
struct Entry {
    title: String,
    ours: fn(Extent) -> Result<Model>,
    /// The request to JAX.
    theirs: Value,
    /// Rounds, and calls per round.
    rounds: usize,
    calls: usize,
    /// Largest allowed difference of the first results, relative to the largest.
    apart: f64,
}

const NAMES: [&str; 6] = ["mlp", "gpt2", "gpt2-bf16", "resnet50", "bert", "precision"];

fn gpt2_sizes(extent: Extent) -> gpt2::Sizes {
    if extent == Extent::Quick { gpt2::BABY } else { gpt2::SMALLEST }
}

fn resnet_sizes(extent: Extent) -> resnet::Sizes {
    match extent {
        Extent::Full => resnet::Sizes { batch: 8, side: 112 },
        Extent::Quick => resnet::Sizes { batch: 2, side: 64 },
    }
}

fn bert_sizes(extent: Extent) -> bert::Sizes {
    match extent {
        Extent::Full => bert::MINI_LM,
        Extent::Quick => bert::Sizes { layers: 1, batch: 2, ..bert::MINI_LM },
    }
}

fn entry(name: &str, extent: Extent) -> Result<Entry> {
    let quick = extent == Extent::Quick;
    let rounds = |n: usize| if quick { n.div_ceil(4) } else { n };
    let of_gpt2 = |bf16: bool| json!({"model": "gpt2", "sizes": gpt2_sizes(extent), "bf16": bf16});
    let title = |model: &str, kind: &str| match (model, quick) {
        ("GPT-2 124M", true) => format!("baby GPT, {kind}"),
        (model, _) => format!("{model}, {kind}"),
    };
    Ok(match name {
        "mlp" => Entry {
            title: title("MLP", "step"),
            ours: |_| models::mlp::training(),
            theirs: json!({"model": "mlp", "sizes": {}}),
            rounds: rounds(40),
            calls: 4,
            apart: 1e-4,
        },
        "gpt2" => Entry {
            title: title("GPT-2 124M", "step"),
            ours: |extent| gpt2::training(gpt2_sizes(extent), false),
            theirs: of_gpt2(false),
            rounds: rounds(9),
            calls: 1,
            apart: 1e-4,
        },
        "gpt2-bf16" => Entry {
            title: title("GPT-2 124M", "step in bf16"),
            ours: |extent| gpt2::training(gpt2_sizes(extent), true),
            theirs: of_gpt2(true),
            rounds: rounds(7),
            calls: 1,
            apart: 1e-2,
        },
        "resnet50" => Entry {
            title: title("ResNet-50", "step"),
            ours: |extent| resnet::training(resnet_sizes(extent)),
            theirs: json!({"model": "resnet50", "sizes": resnet_sizes(extent)}),
            rounds: rounds(12),
            calls: 1,
            apart: 1e-3,
        },
        "bert" => Entry {
            title: title("BERT", "inference"),
            ours: |extent| bert::inference(bert_sizes(extent)),
            theirs: json!({"model": "bert", "sizes": bert_sizes(extent)}),
            rounds: rounds(16),
            calls: 1,
            apart: 1e-4,
        },
        other => bail!("no model is called `{other}`; there are {}", NAMES.join(", ")),
    })
}

/// Milliseconds of a round's calls: wall time and processor time.
#[derive(Clone, Copy)]
struct Time {
    wall: f64,
    cpu: f64,
}

fn timed(call: &mut Call, calls: usize) -> Result<Time> {
    let (start, cpu) = (Instant::now(), cpu_millis()?);
    for _ in 0..calls {
        call()?;
    }
    let each = 1.0 / calls as f64;
    Ok(Time { wall: start.elapsed().as_secs_f64() * 1e3 * each, cpu: (cpu_millis()? - cpu) * each })
}

/// Returns the wall times.
fn walls(times: &[Time]) -> Vec<f64> {
    times.iter().map(|time| time.wall).collect()
}

/// Another side and its measurements of a model; empty if it lacks the model.
struct Other {
    name: &'static str,
    process: Jax,
    /// Seconds of its first call, and the difference of its results from ours.
    first: Option<(f64, f64)>,
    times: Vec<Time>,
}

impl Other {
    /// Starts the sides that are available.
    fn all() -> Result<Vec<Other>> {
        let processes = [
            ("JAX", Jax::start("models_bench.py")?),
            ("candle", Jax::framework("candle")?),
            ("burn", Jax::framework("burn")?),
        ];
        let other = |(name, process): (&'static str, Option<Jax>)| {
            Some(Other { name, process: process?, first: None, times: Vec::new() })
        };
        Ok(processes.into_iter().filter_map(other).collect())
    }

    /// Requests a model and its first call.
    fn start(&mut self, entry: &Entry, parameters: usize, values: &[f64]) -> Result<()> {
        (self.first, self.times) = (None, Vec::new());
        let answer = self.process.numbers(&json!({"what": "start", "start": entry.theirs}))?;
        let [theirs, seconds, rest @ ..] = &answer[..] else { return Ok(()) };
        let (name, title) = (self.name, &entry.title);
        ensure!(
            *theirs == parameters as f64,
            "{title}: {parameters} parameters, {name} has {theirs}"
        );
        ensure!(
            values.len() == rest.len(),
            "{title}: {} numbers, {name} has {}",
            values.len(),
            rest.len()
        );
        let apart = apart(values, rest);
        ensure!(
            apart <= entry.apart,
            "{title}: the first numbers are {values:?}, {name} has {rest:?}: {apart:.1e} apart, at \
            most {:.0e}",
            entry.apart
        );
        self.first = Some((*seconds, apart));
        Ok(())
    }

    /// Measures a round, if the side has the model.
    fn turn(&mut self, calls: usize) -> Result<()> {
        if self.first.is_some() {
            let answer = self.process.numbers(&json!({"what": "run", "calls": calls}))?;
            let &[wall, cpu] = &answer[..] else { bail!("{} answered {answer:?}", self.name) };
            self.times.push(Time { wall, cpu });
        }
        Ok(())
    }

    /// Formats its row, if it has the model.
    fn row(&self, title: &str, ours: &[Time], first: f64) -> Option<Vec<String>> {
        let (their_first, apart) = self.first?;
        let cpu = |times: &[Time]| times.iter().map(|time| time.cpu).sum::<f64>();
        Some(vec![
            title.to_owned(),
            format!("{:.1}", lower_quartile(&walls(ours))),
            self.name.to_owned(),
            format!("{:.1}", lower_quartile(&walls(&self.times))),
            format!("{:.2}", ratio(&walls(ours), &walls(&self.times))),
            format!("{:.2}", cpu(ours) / cpu(&self.times)),
            format!("{first:.1}"),
            format!("{their_first:.1}"),
            format!("{apart:.0e}"),
        ])
    }
}

/// Returns the largest difference relative to the largest number; NaN if either has a NaN.
fn apart(ours: &[f64], theirs: &[f64]) -> f64 {
    let largest = theirs.iter().fold(f64::MIN_POSITIVE, |largest, x| largest.max(x.abs()));
    let parts = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs() / largest);
    parts.fold(0.0, |most, part| if part.is_nan() || part > most { part } else { most })
}

/// Measures a model: compares the first calls, then alternates rounds. Returns its rows.
fn rows(entry: &Entry, extent: Extent, others: &mut [Other]) -> Result<Vec<Vec<String>>> {
    let Model { parameters, mut call } = (entry.ours)(extent)?;
    let start = Instant::now();
    let values = call()?;
    let first = start.elapsed().as_secs_f64();
    ensure!(values.iter().all(|x| x.is_finite()), "{}: {values:?}", entry.title);
    others.iter_mut().try_for_each(|other| other.start(entry, parameters, &values))?;
    let mut ours = Vec::new();
    // The first round warms up caches.
    for round in 0..=entry.rounds {
        ours.push(timed(&mut call, entry.calls)?);
        others.iter_mut().try_for_each(|other| other.turn(entry.calls))?;
        if round == 0 {
            ours.clear();
            others.iter_mut().for_each(|other| other.times.clear());
        }
    }
    let title = format!("{}, {:.1}M", entry.title, parameters as f64 / 1e6);
    let rows: Vec<_> = others.iter().filter_map(|other| other.row(&title, &ours, first)).collect();
    if !rows.is_empty() {
        return Ok(rows);
    }
    let alone = format!("{:.1}", lower_quartile(&walls(&ours)));
    let nothing = || "-".to_owned();
    let first = format!("{first:.1}");
    let cells = [title, alone, nothing(), nothing(), nothing(), nothing(), first];
    Ok(vec![cells.into_iter().chain([nothing(), nothing()]).collect()])
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
                let time = timed(call, 1)?.wall;
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
    format!("has {}; lacks {}", has.join(", "), lacks.join(", "))
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
    let quick = words.iter().any(|word| word == "--quick");
    let extent = if quick { Extent::Quick } else { Extent::Full };
    let named: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !word.starts_with("--")).collect();
    let chosen: Vec<&str> = match named.as_slice() {
        [] => NAMES.into_iter().filter(|name| !quick || *name != "resnet50").collect(),
        named => named.to_vec(),
    };
    let (precisely, models): (Vec<_>, Vec<_>) =
        chosen.into_iter().partition(|name| *name == "precision");
    let entries: Vec<Entry> =
        models.into_iter().map(|name| entry(name, extent)).collect::<Result<_>>()?;

    print_heading("Steps and answers of models, milliseconds");
    println!("The processor {}.\n", features());
    if !entries.is_empty() {
        let mut others = Other::all()?;
        let mut table = Vec::new();
        for entry in &entries {
            table.extend(rows(entry, extent, &mut others)?);
        }
        let headings = [
            "model",
            "oxidax",
            "beside",
            "theirs",
            "ratio",
            "CPU ratio",
            "first call, s",
            "theirs, s",
            "apart",
        ];
        print_table(&headings, &table);
    }
    if !precisely.is_empty() {
        println!("In f32 and in bf16, oxidax alone:\n");
        print_table(&["what", "f32", "bf16", "bf16 / f32"], &precision(extent)?);
        curves(extent, words.iter().find_map(|word| word.strip_prefix("--chart=")))?;
    }
    Ok(())
}
