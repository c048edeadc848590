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
//! cargo run -p kernels -- --on v5e:2x2,h100    what the compilers of absent chips report
//! ```
//!
//! Each step is a file that begins with its idea. A step runs its kernel, compares the result with
//! that of the plain function, and prints the number of programs, operations and bytes that the
//! kernel moves between the device's memory and its own. With `--on`, each kernel is also compiled
//! for absent chips.

#![allow(clippy::print_stdout, reason = "an example shows its results")]

mod flash_attention;
mod gather;
mod matmul;
mod rms_norm;
mod softmax;
mod vector_addition;

use anyhow::{Result, ensure};
use clap::Parser;
use oxidax::core::{Primitive, bind};
use oxidax::kernel::KernelCall;
use oxidax::prelude::*;

/// Runs steps of the course.
#[derive(Parser)]
struct Options {
    /// The number of the step, 1 to 6; all steps by default.
    #[arg(value_parser = clap::value_parser!(u8).range(1..=6))]
    step: Option<u8>,
    /// Compile the kernels for these topologies too, such as `v5e:2x2` and `h100`, which need not
    /// be there. Needs `oxidax plugin install tpu` or `cuda`.
    #[arg(long, value_delimiter = ',')]
    on: Vec<String>,
}

/// A kernel that has run.
pub(crate) struct Step {
    kernel: KernelCall,
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
        let largest = expected.abs().max().item::<f32>()?;
        let difference = (actual - expected).abs().max().item::<f32>()? / largest;
        Ok(Step { kernel: kernel.clone(), difference })
    }

    /// Compiles the kernel for an absent chip. Returns what its compiler reports.
    fn report(&self, topology: &Topology) -> Result<String> {
        let kernel = self.kernel.clone();
        let call = jit(move |x: Vec<Array>| bind(kernel.clone(), &x.iter().collect::<Vec<_>>()));
        let body = self.kernel.body.avals_in();
        let prefetched = body[self.kernel.rank()..self.kernel.first_input()].iter();
        let arrays = self.kernel.inputs.iter().map(|window| &window.array);
        let types = prefetched.chain(arrays).cloned().map(Array::of_type);
        let lowered = call.name(&self.kernel.name).lower(types.collect::<Vec<_>>())?;
        let memory = lowered.compile_for(topology)?.report().memory_analysis()?;
        let code = match memory.code {
            // The CUDA plugin does not report it.
            0 => "code of unknown size".to_string(),
            bytes => format!("{bytes} bytes of code"),
        };
        Ok(format!("{code}, {} bytes of temporaries in main memory", memory.temporaries))
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
    let topologies = options.on.iter().map(|name| Topology::named(name));
    let topologies: Vec<Topology> = topologies.collect::<Result<_, Error>>()?;
    println!("step                          programs   operations        bytes   difference");
    let mut most = 0.0f32;
    for (index, (name, run)) in STEPS.iter().enumerate() {
        let number = index + 1;
        if options.step.is_some_and(|step| usize::from(step) != number) {
            continue;
        }
        let step = catch(run)??;
        let (n_programs, cost) = (step.kernel.n_programs(), step.kernel.cost(&[], &[]));
        let (operations, bytes, difference) = (cost.flops, cost.bytes, step.difference);
        println!(
            "{number} {name:<26} {n_programs:>9} {operations:>12} {bytes:>12}      {difference:.1e}"
        );
        for topology in &topologies {
            println!("  {}: {}", topology.name(), step.report(topology)?);
        }
        ensure!(difference < 1e-5, "step {number} differs from the plain function");
        most = most.max(difference);
    }
    println!("difference at most {most:.1e} of the largest element");
    Ok(())
}
