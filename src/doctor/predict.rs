//! The roofline of a lowered step on a topology.

use crate::core::{Error, Mesh, Program};
use crate::jit::{Argument, Collectives, Lowered};
use crate::parallel::Topology;
use crate::roofline::{DeviceSpec, Roofline};
use crate::tree::{Args, Tree};

/// Returns the device of a topology, if it is in the table.
pub(super) fn spec(topology: &Topology) -> Option<DeviceSpec> {
    DeviceSpec::of_topology(topology.name()).or_else(|| DeviceSpec::named(topology.kind()))
}

/// Counts the costs of a step, with the collectives of the compiled program.
pub(super) fn roofline(
    program: &Program,
    arguments: &[Argument],
    mesh: Option<&Mesh>,
    collectives: Option<&Collectives>,
) -> Roofline {
    let roofline = Roofline::with_arguments(program, arguments);
    match mesh {
        Some(mesh) => roofline.with_exchanges(collectives.unwrap_or(&Collectives::default()), mesh),
        None => roofline,
    }
}

/// Returns the least seconds of a step without exchanges, or `None` if the device is not in the
/// table.
pub(super) fn seconds<A: Args, O: Tree>(
    lowered: &Lowered<A, O>,
    topology: &Topology,
) -> Result<Option<f64>, Error> {
    let Some(spec) = spec(topology) else { return Ok(None) };
    let (arguments, mesh) = (lowered.arguments(), lowered.mesh());
    let costs = roofline(lowered.program(), &arguments, mesh, None);
    Ok(Some(costs.on(&spec).seconds))
}
