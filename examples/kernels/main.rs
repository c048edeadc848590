//! A course on custom kernels in six steps, from vector addition to flash attention.
//!
//! ```text
//! cargo run -p kernels -- 1        vector addition
//! cargo run -p kernels -- 2        matrix multiplication with an accumulator
//! cargo run -p kernels -- 3        softmax of rows
//! cargo run -p kernels -- 4        RMS norm with a derivative
//! cargo run -p kernels -- 5        rows chosen by prefetched indices
//! cargo run -p kernels -- 6        flash attention
//! cargo run -p kernels             all of them
//! ```
//!
//! Each step is a file that begins with its idea. A step runs its kernel, compares the result with
//! that of the plain function, and prints the number of programs, operations and bytes that the
//! kernel moves between the device's memory and its own.

#![allow(clippy::print_stdout, reason = "an example shows its results")]

mod flash_attention;
mod gather;
mod matmul;
mod rms_norm;
mod softmax;
mod vector_addition;

use anyhow::{Result, ensure};
use clap::Parser;
use oxidax::core::Primitive;
use oxidax::kernel::KernelCall;
use oxidax::prelude::*;

/// Runs steps of the course.
#[derive(Parser)]
struct Options {
    /// The number of the step, 1 to 6 [all].
    #[arg(value_parser = clap::value_parser!(u8).range(1..=6))]
    step: Option<u8>,
}

/// A kernel that has run.
pub(crate) struct Step {
    n_programs: usize,
    operations: u64,
    bytes: u64,
    /// The greatest difference from the plain function, relative to its largest element.
    difference: f32,
}

impl Step {
    /// Compares the results of a kernel with the expected ones.
    pub(crate) fn new(
        kernel: &KernelCall,
        actual: &Array,
        expected: &Array,
    ) -> Result<Step, Error> {
        let cost = kernel.cost(&[], &[]);
        let largest = expected.abs().max().item::<f32>()?;
        Ok(Step {
            n_programs: kernel.n_programs(),
            operations: cost.flops,
            bytes: cost.bytes,
            difference: (actual - expected).abs().max().item::<f32>()? / largest,
        })
    }
}

type Run = fn() -> Result<Step, Error>;

const STEPS: [(&str, Run); 6] = [
    ("vector addition", vector_addition::run),
    ("matrix multiplication", matmul::run),
    ("softmax of rows", softmax::run),
    ("RMS norm, gradient", rms_norm::run),
    ("rows by prefetched indices", gather::run),
    ("flash attention", flash_attention::run),
];

fn main() -> Result<()> {
    let options = Options::parse();
    println!("step                          programs   operations        bytes   difference");
    let mut most = 0.0f32;
    for (index, (name, run)) in STEPS.iter().enumerate() {
        let number = index + 1;
        if options.step.is_some_and(|step| usize::from(step) != number) {
            continue;
        }
        let Step { n_programs, operations, bytes, difference } = catch(run)??;
        println!(
            "{number} {name:<26} {n_programs:>9} {operations:>12} {bytes:>12}      {difference:.1e}"
        );
        ensure!(difference < 1e-5, "step {number} differs from the plain function");
        most = most.max(difference);
    }
    println!("difference at most {most:.1e} of the largest element");
    Ok(())
}
