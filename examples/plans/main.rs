//! Compiles the examples' training steps for TPU topologies, without a TPU.
//!
//! ```text
//! oxidax plugin install tpu
//! cargo run --release -p plans                               # all steps and generations: 1.5 h
//! cargo run --release -p plans -- --only gpt2 --on v5e,v6e   # some of them
//! cargo run --release -p plans -- --predict                  # the times again, without compiling
//! cargo run --release -p plans -- --only gpt2 --on v5e --html DIR   # a page for each step
//! cargo run --release -p plans -- --page docs/tpu-plans.md   # update the table of that page
//! cargo run --release -p plans -- --kernels --page docs/kernels.md   # kernels, for GPUs too
//! ```
//!
//! libtpu compiles each step for one device and for a slice of eight. Each result is a line of
//! `docs/tpu-plans.jsonl`: memory from the compiler, FLOPs from the program, time and utilization
//! from the roofline. Lines of the same program and libtpu are reused, so the command can be
//! interrupted at any time. A step that does not fit is recorded too, and tried again with half the
//! batch.
//!
//! A predicted time follows from the traced program and, on a slice, from the collectives of the
//! compiled one, which a row records. `--predict` computes the times of recorded rows again after a
//! change to the roofline, if their programs have not changed.

#![allow(clippy::print_stdout, reason = "an example shows its results")]

mod kernels;
mod predict;
mod rows;
mod steps;
mod table;
#[cfg(test)]
mod tests;

use anyhow::{Context as _, ensure};
use clap::Parser;
use oxidax::prelude::*;
use rows::{Row, Rows};
use std::path::{Path, PathBuf};
use steps::{Devices, SLICES, STEPS, Step};

/// Number of times that a batch is halved if it does not fit.
const HALVINGS: usize = 4;

/// Compiles training steps for TPUs and records the results.
#[derive(Parser)]
struct Options {
    /// The file of rows.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tpu-plans.jsonl"))]
    file: PathBuf,
    /// Compile only steps whose names contain one of these words.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Compile only for these generations: v4, v5e, v5p, v6e, 7x.
    #[arg(long, value_delimiter = ',')]
    on: Vec<String>,
    /// Compute the predicted times of the recorded rows again, without compiling.
    #[arg(long)]
    predict: bool,
    /// Write the doctor's page of each step to this folder, without recording it.
    #[arg(long, value_name = "FOLDER")]
    html: Option<PathBuf>,
    /// Compile the kernels of `oxidax::kernels` instead of the steps, and the same functions
    /// without kernels, for one device of each TPU generation and GPU.
    #[arg(long)]
    kernels: bool,
    /// Replace the table of this page with the recorded rows, without compiling.
    #[arg(long)]
    page: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let Options { file, only, on, predict, html, kernels, page } = Options::parse();
    if kernels {
        return kernels::run(&only, &on, page.as_deref());
    }
    let mut rows = Rows::open(&file)?;
    if let Some(page) = page {
        let text = std::fs::read_to_string(&page).with_context(|| format!("{}", page.display()))?;
        let text = table::replace_table(&text, &table::markdown(&rows));
        return std::fs::write(&page, text).with_context(|| format!("{}", page.display()));
    }
    let is_known =
        |generation: &String| SLICES.iter().any(|slice| generation_of(slice) == generation);
    for generation in &on {
        ensure!(
            is_known(generation),
            "`{generation}` is not one of {}",
            SLICES.map(generation_of).join(", ")
        );
    }
    let is_selected =
        |step: &&Step| only.is_empty() || only.iter().any(|word| step.name.contains(word.as_str()));
    ensure!(STEPS.iter().any(|step| is_selected(&step)), "no step matches {}", only.join(", "));
    for step in STEPS.iter().filter(is_selected) {
        for slice in SLICES {
            if !on.is_empty() && !on.iter().any(|generation| generation == generation_of(slice)) {
                continue;
            }
            let topology = Topology::named(slice)?;
            let alone = step.alone.then_some(Devices::Alone);
            for devices in alone.into_iter().chain([Devices::Slice(topology.devices())]) {
                if let Some(folder) = &html {
                    write_page(step, devices, &topology, folder)?;
                } else if predict {
                    predict::predict_again(step, devices, &topology, &mut rows)?;
                } else {
                    plan(step, devices, &topology, &mut rows)?;
                }
            }
        }
    }
    Ok(())
}

fn generation_of(slice: &str) -> &str {
    slice.split(':').next().unwrap_or(slice)
}

/// Compiles a step and writes the doctor's page.
fn write_page(
    step: &Step,
    devices: Devices<'_>,
    topology: &Topology,
    folder: &Path,
) -> anyhow::Result<()> {
    let lowered = (step.lower)(devices, step.batch * devices.devices())?;
    let page = lowered.examine(topology)?.to_html();
    std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    let name = format!("{} {} {}.html", step.name, topology.name(), devices.devices());
    let file = folder.join(name.replace([' ', ':', ','], "-"));
    std::fs::write(&file, page).with_context(|| format!("{}", file.display()))?;
    println!("{}", file.display());
    Ok(())
}

/// Compiles a step unless it is recorded, halving the batch until it fits.
fn plan(
    step: &Step,
    devices_of_step: Devices<'_>,
    topology: &Topology,
    rows: &mut Rows,
) -> anyhow::Result<()> {
    let mut batch_per_device = step.batch;
    for _ in 0..=HALVINGS {
        let batch = batch_per_device * devices_of_step.devices();
        let lowered = (step.lower)(devices_of_step, batch)
            .with_context(|| format!("{} over {} devices", step.name, devices_of_step.devices()))?;
        let row = Row::new_row(step, batch, devices_of_step, topology, &lowered.text()?)?;
        let fits = match rows.find(&row) {
            Some(is_known) => is_known.fits,
            None => {
                let row = row.finished(lowered.examine(topology));
                println!("{row}");
                rows.add(row)?.fits
            }
        };
        if fits != Some(false) || batch_per_device == 1 {
            break;
        }
        batch_per_device /= 2;
    }
    Ok(())
}
