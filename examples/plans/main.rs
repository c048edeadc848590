//! What the training steps of the examples take on TPUs that nobody needs to have.
//!
//! ```text
//! oxidax plugin install tpu
//! cargo run --release -p plans                               every step, every generation: hours of compiling
//! cargo run --release -p plans -- --only gpt2 --on v5e,v6e   some of it
//! cargo run --release -p plans -- --page docs/tpu-plans.md   the table of that page anew, of what was made so far
//! ```
//!
//! Each step is compiled by libtpu for one device and for a slice of eight, and becomes a line of `docs/tpu-plans.jsonl`: memory by
//! the compiler, FLOPs by the program, time and utilization by the roofline. A line that is there already, of the same program and
//! the same libtpu, is not made again; so the command may be stopped at any time. A step that does not fit is a line too, and is
//! tried again with half the batch.

#![allow(clippy::print_stdout, reason = "an example shows its results")]

mod rows;
mod steps;
mod table;
#[cfg(test)]
mod tests;

use anyhow::{Context as _, ensure};
use clap::Parser;
use oxidax::prelude::*;
use rows::{Row, Rows};
use std::path::PathBuf;
use steps::{Place, SLICES, STEPS, Step};

/// How often a batch that does not fit is halved.
const HALVINGS: usize = 4;

/// Compiles training steps for TPUs, and keeps what came of it.
#[derive(Parser)]
struct Options {
    /// The file of rows.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tpu-plans.jsonl"))]
    file: PathBuf,
    /// Steps whose names hold one of these words [all].
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Generations [all]: v4, v5e, v5p, v6e, 7x.
    #[arg(long, value_delimiter = ',')]
    on: Vec<String>,
    /// Compile nothing; write the table of the rows that are there into this page, in place of the one that is there.
    #[arg(long)]
    page: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let Options { file, only, on, page } = Options::parse();
    let mut rows = Rows::open(&file)?;
    if let Some(page) = page {
        let text = std::fs::read_to_string(&page).with_context(|| format!("{}", page.display()))?;
        let text = table::replaced(&text, &table::markdown(&rows));
        return std::fs::write(&page, text).with_context(|| format!("{}", page.display()));
    }
    let known = |generation: &String| SLICES.iter().any(|slice| generation_of(slice) == generation);
    for generation in &on {
        ensure!(
            known(generation),
            "`{generation}` is none of {}",
            SLICES.map(generation_of).join(", ")
        );
    }
    let wanted =
        |step: &&Step| only.is_empty() || only.iter().any(|word| step.name.contains(word.as_str()));
    ensure!(STEPS.iter().any(|step| wanted(&step)), "no step is called so: {}", only.join(", "));
    for step in STEPS.iter().filter(wanted) {
        for slice in SLICES {
            if !on.is_empty() && !on.iter().any(|generation| generation == generation_of(slice)) {
                continue;
            }
            let topology = Topology::named(slice)?;
            if step.alone {
                plan(step, Place::Alone, &topology, &mut rows)?;
            }
            plan(step, Place::Slice(topology.devices()), &topology, &mut rows)?;
        }
    }
    Ok(())
}

fn generation_of(slice: &str) -> &str {
    slice.split(':').next().unwrap_or(slice)
}

/// Makes the rows that are not there: one, or more if the batch has to be halved until it fits.
fn plan(step: &Step, place: Place<'_>, topology: &Topology, rows: &mut Rows) -> anyhow::Result<()> {
    let mut each = step.batch;
    for _ in 0..=HALVINGS {
        let batch = each * place.devices();
        let lowered = (step.lower)(place, batch)
            .with_context(|| format!("{} over {} devices", step.name, place.devices()))?;
        let row = Row::begun(step, batch, place, topology, &lowered.text()?)?;
        let fits = match rows.find(&row) {
            Some(known) => known.fits,
            None => {
                let row = row.finished(lowered.examine(topology));
                println!("{row}");
                rows.add(row)?.fits
            }
        };
        if fits != Some(false) || each == 1 {
            break;
        }
        each /= 2;
    }
    Ok(())
}
