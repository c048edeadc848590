//! Writes functions as files that `jax.export.deserialize` reads, with arguments, results and
//! gradients for `python-compat/export_check.py`, which calls them in JAX and compares.
//!
//! `cargo run -p exports -- target/exported`, then
//! `python-compat/.venv/bin/python python-compat/export_check.py target/exported`

#![allow(clippy::needless_borrows_for_generic_args, reason = "all operands are borrowed")]

mod arrays;
mod cases;
mod models;
mod numbers;
mod parallel;

use anyhow::{Context, Result};
use cases::Cases;

#[allow(clippy::print_stdout, reason = "this is a program for the command line")]
fn main() -> Result<()> {
    let folder = std::env::args().nth(1).context("usage: exports FOLDER")?;
    // Eight devices, for the functions over a mesh.
    oxidax::parallel::set_cpu_devices(8)?;
    let mut cases = Cases::new(&folder)?;
    arrays::write(&mut cases)?;
    numbers::write(&mut cases)?;
    models::write(&mut cases)?;
    parallel::write(&mut cases)?;
    println!("{} functions in {folder}, {} with derivatives", cases.count, cases.derivatives);
    Ok(())
}
