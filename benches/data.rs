//! Measures the throughput of input pipelines beside tf.data and grain.
//!
//! ```text
//! cargo bench --bench data                      OXIDAX_BENCH_PYTHON=… adds tf.data and grain
//! cargo bench --bench data -- --quick           a third of the rounds
//! ```
//!
//! The data is eight TFRecord files of 8,000 examples in the page cache: 784 bytes of image and a
//! label. *Read* interleaves the files and verifies checksums. *Decode* adds a shuffle buffer of
//! 10,000, parsing to `f32[784]` and `i32[]`, and batches of 128. *Decode, parallel* parses on one
//! thread per core and prefetches batches. All sides alternate in each round. Figures are thousands
//! of records per second at the lower quartile of times; ratios are medians over rounds.

#[path = "support/figures.rs"]
mod figures;
#[path = "support/jax.rs"]
mod jax;

use anyhow::Result;
use figures::{lower_quartile, print_heading, print_table, ratio};
use jax::Jax;
use oxidax::data::{
    self, File, HostArray, InterleaveOptions, PipelineReport, Stream, TfExample, TfFeature,
    TfRecordWriter,
};
use oxidax::{DType, Error};
use serde_json::json;
use std::path::Path;
use std::time::Instant;

const FILES: usize = 8;
const RECORDS_OF_FILE: usize = 8_000;
const PIXELS: usize = 784;
const BATCH: usize = 128;
const BUFFER: usize = 10_000;
const RECORDS: f64 = (FILES * RECORDS_OF_FILE) as f64;

type Pair = (HostArray, HostArray);

fn write(folder: &Path) -> Result<()> {
    let mut state = 1u32;
    for file in 0..FILES {
        let mut writer = TfRecordWriter::create(folder.join(format!("{file}.tfrecord")))?;
        for record in 0..RECORDS_OF_FILE {
            let pixel = |_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            };
            let image: Vec<u8> = (0..PIXELS).map(pixel).collect();
            let example = TfExample::from([
                ("image", TfFeature::Bytes(vec![image])),
                ("label", TfFeature::Int64(vec![record as i64 % 10])),
            ]);
            writer.write(&example.encode())?;
        }
        writer.finish()?;
    }
    Ok(())
}

fn records(files: &[File]) -> Stream<Vec<u8>> {
    let turns = InterleaveOptions { cycle_length: 4, block_length: 16 };
    data::interleave(files.iter().map(data::tfrecord), turns)
}

fn decode(record: Vec<u8>) -> Result<Pair, Error> {
    let example = TfExample::parse(&record)?;
    let image: Vec<f32> =
        example.bytes("image")?.iter().map(|&pixel| f32::from(pixel) / 255.0).collect();
    Ok((HostArray::from_slice(&image, [PIXELS])?, example.array("label", DType::I32, [])?))
}

/// Times a pass that yields `n` items, in seconds.
fn timed<T>(stream: impl Iterator<Item = Result<T, Error>>, items: usize) -> Result<f64> {
    let start = Instant::now();
    let mut count = 0;
    for item in stream {
        drop(item?);
        count += 1;
    }
    anyhow::ensure!(count == items, "{count} items, expected {items}");
    Ok(start.elapsed().as_secs_f64())
}

fn ours(files: &[File], work: &str, workers: usize) -> Result<f64> {
    let batches = FILES * RECORDS_OF_FILE / BATCH;
    match work {
        "read" => timed(records(files), FILES * RECORDS_OF_FILE),
        "decode" => timed(records(files).shuffle(BUFFER, 1).map(decode).batch(BATCH), batches),
        _ => {
            let shuffled = records(files).shuffle(BUFFER, 1);
            timed(shuffled.parallel_map(workers, decode).batch(BATCH).prefetch(2), batches)
        }
    }
}

#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
fn show(report: &PipelineReport) {
    println!("{report}");
}

fn main() -> Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let rounds = if quick { 5 } else { 15 };
    let folder = tempfile::tempdir()?;
    write(folder.path())?;
    let pattern = folder.path().join("*.tfrecord").display().to_string();
    let files = data::files(&pattern)?;
    let workers = std::thread::available_parallelism()?.get();
    let mut others = Jax::start("data_bench.py")?;

    print_heading("Records per second of an input pipeline, in thousands");
    // (name, our work, tf.data's, grain's)
    let rows = [
        ("read", "read", "read", "read"),
        ("decode", "decode", "", "decode"),
        ("decode, parallel", "parallel", "decode", ""),
        ("decode, parallel; tf.data parses whole batches", "parallel", "batch_first", ""),
    ];
    let mut table = Vec::new();
    for (name, our_work, of_tf_data, of_grain) in rows {
        let (mut us, mut tf_data, mut grain) = (Vec::new(), Vec::new(), Vec::new());
        // The first round fills caches and includes tf.data's tracing.
        for round in 0..=rounds {
            let times = [(&mut tf_data, "tf.data", of_tf_data), (&mut grain, "grain", of_grain)];
            let time = ours(&files, our_work, workers)?;
            if round > 0 {
                us.push(time);
            }
            for (times, with, work) in times {
                let Some(others) = others.as_mut().filter(|_| !work.is_empty()) else { continue };
                let request = json!({"with": with, "work": work, "files": pattern});
                let time = others.numbers(&request)?;
                if round > 0 {
                    times.extend(time);
                }
            }
        }
        let rate = |times: &[f64]| match times.is_empty() {
            true => String::new(),
            false => format!("{:.0}", RECORDS / lower_quartile(times) / 1e3),
        };
        // Throughput relative to the others.
        let times_as_fast = |times: &[f64]| match times.len() == us.len() {
            true => format!("{:.2}", ratio(times, &us)),
            false => String::new(),
        };
        table.push(vec![
            name.to_owned(),
            rate(&us),
            rate(&tf_data),
            times_as_fast(&tf_data),
            rate(&grain),
            times_as_fast(&grain),
        ]);
    }
    let headings = ["pass", "oxidax", "tf.data", "oxidax / tf.data", "grain", "oxidax / grain"];
    print_table(&headings, &table);

    // The report of a program that only sums each batch.
    let batches = records(&files).shuffle(BUFFER, 1).parallel_map(workers, decode).batch(BATCH);
    let batches = batches.prefetch(2);
    let instruments = batches.instruments();
    let mut sum = 0.0;
    for batch in batches {
        sum += batch?.0.to_vec::<f32>()?.iter().sum::<f32>();
    }
    anyhow::ensure!(sum > 0.0, "the images are not black");
    show(&instruments.report());
    Ok(())
}
