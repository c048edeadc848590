//! The training steps of the examples, by shapes alone, for one device or spread over a slice.
//!
//! Models and steps are the examples' own files; here is how large they are, and how they are cut.

mod bert;
mod cut;
mod gpt2;
mod mlp;
mod parallel;
mod resnet;

use oxidax::doctor::{self, Report};
use oxidax::jit::CompilerReport;
use oxidax::prelude::*;
use oxidax::stablehlo::without_locations;
use oxidax::tree::Args;

/// Where a step is to run.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    /// On one device.
    Alone,
    /// On all of these.
    Slice(&'a [Device]),
}

impl Place<'_> {
    pub fn devices(self) -> usize {
        match self {
            Place::Alone => 1,
            Place::Slice(devices) => devices.len(),
        }
    }
}

/// A training step.
pub struct Step {
    pub name: &'static str,
    /// How large the model is, and what it computes in.
    pub about: &'static str,
    /// What a batch is made of.
    pub unit: &'static str,
    /// How much of it each device is given.
    pub batch: usize,
    /// Whether there is a step for one device.
    pub alone: bool,
    /// The step where it is to run, with so large a batch on all devices together.
    pub lower: Lower,
}

/// What makes a step.
pub type Lower = fn(Place<'_>, usize) -> anyhow::Result<Box<dyn Traced>>;

/// Every step, those that compile fastest first.
pub const STEPS: [Step; 11] = [
    mlp::STEP,
    parallel::DATA,
    parallel::FSDP,
    parallel::TENSOR,
    parallel::DATA_TENSOR,
    parallel::SEQUENCE,
    parallel::PIPELINE,
    parallel::EXPERTS,
    bert::BASE,
    gpt2::SMALLEST,
    resnet::FIFTY,
];

/// A slice of each generation: eight devices.
pub const SLICES: [&str; 5] = ["v4:2x2x2", "v5e:2x4", "v5p:2x2x2", "v6e:2x4", "7x:2x2x1"];

/// The small GPT that continuous integration compiles.
#[allow(dead_code, reason = "for tests")]
pub const TWO_LAYERS: Step = gpt2::TWO_LAYERS;

/// A lowered step, whatever its arguments and results.
pub trait Traced {
    /// Its StableHLO module, without locations: the same wherever the sources lie.
    fn text(&self) -> Result<String, Error>;

    /// What it takes on a device of a topology.
    fn examine(&self, topology: &Topology) -> Result<Report, Error>;

    #[allow(dead_code, reason = "for tests")]
    fn compile_for(&self, topology: &Topology) -> Result<CompilerReport, Error>;
}

impl<A: Args, O: Tree> Traced for Lowered<A, O> {
    fn text(&self) -> Result<String, Error> {
        Ok(without_locations(&self.as_text("tpu")?).collect())
    }

    fn examine(&self, topology: &Topology) -> Result<Report, Error> {
        doctor::examine(self, topology)
    }

    fn compile_for(&self, topology: &Topology) -> Result<CompilerReport, Error> {
        Ok(Lowered::compile_for(self, topology)?.report())
    }
}

/// An array without elements.
fn of_type<const N: usize>(dtype: DType, shape: [usize; N]) -> Array {
    Array::of_type(Aval::new(dtype, shape))
}
