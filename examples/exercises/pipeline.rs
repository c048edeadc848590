//! Feeds training steps from a file or from memory, with and without prefetching.

use super::{SIZES, training};
use anyhow::{Context, ensure};
use data::{HostArray, Source, Stream, Synthetic, TfRecordWriter, ToDevice};
use oxidax::prelude::*;
use rand::{RngExt as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(clap::Args)]
pub struct Options {
    #[arg(long, default_value_t = 1024)]
    batch: usize,
    #[arg(long, default_value_t = 40)]
    steps: usize,
    /// Number of prefetched batches. 0 reads each batch after the previous step has ended.
    #[arg(long, num_args = 1.., default_values_t = [0, 2, 4])]
    depth: Vec<usize>,
    /// The path of the image file, with 788 bytes per image.
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
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        }
        write(file, batch * steps).with_context(|| format!("{}", file.display()))?;
        println!("data         depth  step/ms  waiting/%  bottleneck");
        for &depth in &self.depth {
            let path = file.clone();
            let read = data::tfrecord(path.as_path()).map(|bytes| decode_example(&bytes));
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
        let (mut model, mut state, step) = training()?;
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

/// Random pixels, and a label computed from them.
fn bytes(index: usize) -> Vec<u8> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(index as u64);
    let mut bytes = vec![0; SIZES[0]];
    random.fill(&mut bytes[..]);
    bytes.push(bytes[0] % SIZES[3] as u8);
    bytes
}

fn write(file: &Path, images: usize) -> Result<(), Error> {
    let mut writer = TfRecordWriter::create(file)?;
    (0..images).try_for_each(|index| writer.write(&bytes(index)))?;
    writer.finish()
}

fn decode_example(bytes: &[u8]) -> Result<Example, Error> {
    let Some((label, pixels)) = bytes.split_last().filter(|(_, pixels)| pixels.len() == SIZES[0])
    else {
        let message = format!("{} bytes, expected {} pixels and a label", bytes.len(), SIZES[0]);
        return Err(Error::data("decode", message));
    };
    let pixels: Vec<f32> = pixels.iter().map(|&pixel| f32::from(pixel) / 255.0).collect();
    let image = HostArray::from_slice(&pixels, [pixels.len()])?;
    Ok((image, HostArray::from_slice(&[i32::from(*label)], [])?))
}

fn random_example(index: usize) -> Result<Example, Error> {
    decode_example(&bytes(index))
}
