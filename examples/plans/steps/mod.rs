//! The examples' training steps, lowered from shapes for one device or a slice.
//!
//! Models and steps are the examples' own files. This folder adds sizes and shardings.

mod bert;
mod gpt2;
mod mlp;
mod parallel;
mod resnet;
mod shardings;

use oxidax::doctor::{self, Report};
use oxidax::jit::{Collectives, CompilerReport};
use oxidax::prelude::*;
use oxidax::roofline::{DeviceSpec, Exchange, Network, Prediction, Roofline};
use oxidax::stablehlo::without_locations;
use oxidax::tree::Args;

/// The devices of a step.
#[derive(Clone, Copy)]
pub enum Devices<'a> {
    /// One device.
    Alone,
    /// All of these devices.
    Slice(&'a [Device]),
}

impl Devices<'_> {
    pub fn devices(self) -> usize {
        match self {
            Devices::Alone => 1,
            Devices::Slice(devices) => devices.len(),
        }
    }
}

/// A training step.
pub struct Step {
    pub name: &'static str,
    /// Model size and dtype.
    pub about: &'static str,
    /// The unit of a batch.
    pub unit: &'static str,
    /// Batch per device.
    pub batch: usize,
    /// The step also runs on one device.
    pub alone: bool,
    /// Lowers the step with a batch over all devices.
    pub lower: Lower,
}

/// A function that lowers a step.
pub type Lower = fn(Devices<'_>, usize) -> anyhow::Result<Box<dyn LoweredStep>>;

/// All steps, in order of compile time.
pub const STEPS: [Step; 12] = [
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
    gpt2::OFFLOADED,
    resnet::FIFTY,
];

/// A slice of eight devices for each generation.
pub const SLICES: [&str; 5] = ["v4:2x2x2", "v5e:2x4", "v5p:2x2x2", "v6e:2x4", "7x:2x2x1"];

/// The small GPT that continuous integration compiles.
#[allow(dead_code, reason = "for tests")]
pub const TWO_LAYERS: Step = gpt2::TWO_LAYERS;

/// As [`TWO_LAYERS`], with the optimizer state in host memory.
#[allow(dead_code, reason = "for tests")]
pub const TWO_LAYERS_OFFLOADED: Step = gpt2::TWO_LAYERS_OFFLOADED;

/// A lowered step of any argument and result types.
pub trait LoweredStep {
    /// Returns the StableHLO module without locations, independent of the source folder.
    fn text(&self) -> Result<String, Error>;

    /// Reports the cost of the step on a topology.
    fn examine(&self, topology: &Topology) -> Result<Report, Error>;

    /// Predicts the time of the step without compiling, as [`LoweredStep::examine`] does. On a
    /// slice, `exchanges` are those of the compiled program. Also returns the FLOPs of a step over
    /// all devices. `None` if the topology's device is not in the roofline's table.
    fn predict(&self, topology: &Topology, exchanges: &[Exchange]) -> Option<(Prediction, u64)>;

    #[allow(dead_code, reason = "for tests")]
    fn compile_for(&self, topology: &Topology) -> Result<CompilerReport, Error>;
}

impl<A: Args, O: Tree> LoweredStep for Lowered<A, O> {
    fn text(&self) -> Result<String, Error> {
        Ok(without_locations(&self.as_text("tpu")?).collect())
    }

    fn examine(&self, topology: &Topology) -> Result<Report, Error> {
        doctor::examine(self, topology)
    }

    fn predict(&self, topology: &Topology, exchanges: &[Exchange]) -> Option<(Prediction, u64)> {
        let spec = DeviceSpec::of_topology(topology.name())
            .or_else(|| DeviceSpec::named(topology.kind()))?;
        let costs = Roofline::with_arguments(self.program(), &self.arguments());
        let flops = costs.flops();
        let prediction = match self.mesh() {
            None => costs.on(&spec),
            Some(mesh) => {
                let mut costs = costs.with_exchanges(&Collectives::default(), mesh);
                costs.exchanges = exchanges.to_vec();
                costs.over(&spec, &Network::of_mesh(&spec, mesh))
            }
        };
        Some((prediction, flops))
    }

    fn compile_for(&self, topology: &Topology) -> Result<CompilerReport, Error> {
        Ok(Lowered::compile_for(self, topology)?.report())
    }
}

/// Returns an aval as an array without elements.
fn of_type<const N: usize>(dtype: DType, shape: [usize; N]) -> Array {
    Array::of_type(Aval::new(dtype, shape))
}
