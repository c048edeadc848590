//! Feeds training steps with distorted images, from a file or from memory, with and without
//! prefetching.

use super::elastic::{SIDE, distort};
use super::{SIZES, loss, model};
use anyhow::{Context, ensure};
use data::{HostArray, Source, Stream, Synthetic, TfRecordWriter, ToDevice};
use oxidax::prelude::*;
use rand::{RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The environment variable with the number of threads of the CPU plugin.
const THREADS: &str = "NPROC";

#[derive(clap::Args)]
pub struct Options {
    #[arg(long, default_value_t = 256)]
    batch: usize,
    #[arg(long, default_value_t = 40)]
    steps: usize,
    /// Number of prefetched batches. 0 reads each batch after the previous step has ended.
    #[arg(long, num_args = 1.., default_values_t = [0, 2, 4])]
    depth: Vec<usize>,
    /// Number of threads of the CPU device. The other cores prepare batches.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// The path of the image file, with 809 bytes per image.
    #[arg(long, default_value = "target/exercises.tfrecord")]
    file: PathBuf,
    /// Print the time of each stage.
    #[arg(long)]
    stages: bool,
}

/// An image `f32[784]` and its label `i32[]`.
type Example = (HostArray, HostArray);

impl Options {
    pub fn run(&self) -> anyhow::Result<()> {
        let Options { batch, steps, file, .. } = self;
        ensure!(*batch > 0 && *steps > 0, "a batch and steps of at least 1 are needed");
        if std::env::var_os(THREADS).is_none() {
            // The plugin reads the variable when it is loaded.
            let mut command = Command::new(std::env::current_exe()?);
            command.args(std::env::args_os().skip(1)).env(THREADS, self.threads.to_string());
            let status = command.status().context("the program cannot start itself")?;
            ensure!(status.success(), "the measuring process ended with {status}");
            return Ok(());
        }
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        }
        write(file, batch * steps).with_context(|| format!("{}", file.display()))?;
        println!("data         depth  step/ms  waiting/%  bottleneck");
        for &depth in &self.depth {
            let path = file.clone();
            let read = data::tfrecord(path.as_path()).map(|record| example(&record));
            self.measure("from disk", read, depth)?;
        }
        for &depth in &self.depth {
            let synthetic = Synthetic::new(batch * steps, random_example).stream();
            self.measure("random", synthetic, depth)?;
        }
        Ok(())
    }

    /// Prints a row with the mean of all steps except the first, which compiles.
    fn measure(&self, name: &str, examples: Stream<Example>, depth: usize) -> anyhow::Result<()> {
        let mut model = model()?;
        let optimizer = optim::adamw(1e-3);
        let mut state = optimizer.init(&model);
        let step = jit(move |model: nn::Mlp, state: optim::State, batch: (Array, Array)| {
            let (loss, gradients) =
                value_and_grad(|model: &nn::Mlp| loss(model, &batch.0, &batch.1))(&model);
            let (updates, state) = optimizer.update(&gradients, &state, &model);
            (optim::apply_updates(&model, &updates), state, loss)
        });
        let batches = examples.batch(self.batch);
        let mut batches = match depth {
            0 => batches.map(ToDevice::to_device),
            depth => batches.to_device(depth),
        };
        let instruments = batches.instruments();
        for batch in Synthetic::new(self.batch, random_example).stream().batch(self.batch) {
            (model, state, _) = step.call(model, state, batch?.to_device()?)?;
        }
        let clock = Instant::now();
        for batch in &mut batches {
            let loss;
            (model, state, loss) = step.call(model, state, batch?)?;
            // Without this, the program would run ahead of the device and wait for it instead.
            loss.block_until_ready()?;
        }
        let seconds = clock.elapsed().as_secs_f64();
        let report = instruments.report();
        let (waiting, stepping) = (report.waiting.as_secs_f64(), report.stepping.as_secs_f64());
        let bottleneck = report.bottleneck().context("nothing was read")?;
        println!(
            "{name:11}  {depth:5}  {:7.2}  {:9.1}  the {bottleneck}",
            1e3 * seconds / self.steps as f64,
            100.0 * waiting / (waiting + stepping)
        );
        if self.stages {
            println!("{report}\n");
        }
        Ok(())
    }
}

/// Returns a seed, random pixels, and a label computed from them.
fn record(index: usize) -> Vec<u8> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(index as u64);
    let mut record = (index as u64).to_le_bytes().to_vec();
    record.resize(8 + SIZES[0], 0);
    random.fill(&mut record[8..]);
    record.push(record[8] % SIZES[3] as u8);
    record
}

fn write(file: &Path, images: usize) -> Result<(), Error> {
    let mut writer = TfRecordWriter::create(file)?;
    (0..images).try_for_each(|index| writer.write(&record(index)))?;
    writer.finish()
}

/// Decodes a record and distorts its image.
fn example(record: &[u8]) -> Result<Example, Error> {
    let parts = record.split_first_chunk::<8>().zip(record.split_last());
    let Some(((seed, _), (label, _))) = parts.filter(|_| record.len() == 8 + SIZES[0] + 1) else {
        let message = format!("{} bytes, expected {}", record.len(), 8 + SIZES[0] + 1);
        return Err(Error::data("decode", message));
    };
    let mut image = [0.0; SIDE * SIDE];
    for (pixel, &byte) in image.iter_mut().zip(&record[8..]) {
        *pixel = f32::from(byte) / 255.0;
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(u64::from_le_bytes(*seed));
    let image = HostArray::from_slice(&distort(&image, &mut random), [SIZES[0]])?;
    Ok((image, HostArray::from_slice(&[i32::from(*label)], [])?))
}

pub fn random_example(index: usize) -> Result<Example, Error> {
    example(&record(index))
}
