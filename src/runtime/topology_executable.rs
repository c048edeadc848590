//! [`TopologyExecutable`]: a program compiled for devices that are not attached.

use super::compile_error::compile_error;
use super::compiler_options::CompilerOptions;
use super::compiler_report::CompilerReport;
use super::dump_ir::dump_ir;
use super::lowering_target::{gpu_limits, lowering_target};
use super::topology::Topology;
use crate::core::spans::{EventKind, Span};
use crate::core::{Aval, Effects, Error, Loc, Mesh, NamedSharding, Placement, Program};
use crate::passes::{self, LowerOptions, Plan};
use std::sync::Arc;

/// A program compiled for a [`Topology`]. It can be analysed and serialized, not run.
pub(crate) struct TopologyExecutable {
    pub(super) executable: oxidax_pjrt::Executable,
    pub(super) name: String,
    pub(super) topology: Topology,
    /// The plan, over the topology's devices.
    pub(super) plan: Plan,
    /// The types of the results.
    pub(super) results: Vec<Arc<Aval>>,
    pub(super) waits: bool,
    pub(super) calls_host: bool,
}

impl TopologyExecutable {
    /// Lowers and compiles a program: for the mesh of `plan`, or for one device.
    ///
    /// # Errors
    /// `Op` if a primitive refuses the platform; `Compile`, `TooLarge`.
    pub(crate) fn compile(
        program: &Program,
        name: &str,
        plan: &Plan,
        topology: &Topology,
        compiler_options: &CompilerOptions,
    ) -> Result<TopologyExecutable, Error> {
        check_mesh(name, plan.mesh(), topology)?;
        let target = lowering_target(topology.platform()).with_gpu(gpu_limits(topology.kind()));
        let span = Span::within(EventKind::Lower, || name.to_owned());
        let module =
            passes::lower_with_plan(program, name, target, LowerOptions { donatable: true }, plan)?;
        drop(span);
        let _span = Span::within(EventKind::Compile, || name.to_owned());
        let plan = on_topology(plan, topology)?;
        if module.calls_host && !module.transfers_to_host {
            topology.install_callbacks().map_err(|error| Error::Plugin(error.to_string()))?;
        }
        dump_ir(name, &module.text);
        let options = compiler_options.apply(name, topology.options(plan.mesh()))?;
        let executable = topology.compile(&module.text, &options).map_err(|error| {
            if let Some(refused) = compiler_options.refused(name, &error) {
                return refused;
            }
            let devices = plan.mesh().map_or(1, |mesh| mesh.devices().len());
            let name = format!("{name}, for {}", topology.name());
            compile_error(&name, &error, (program, &module.text), devices)
        })?;
        Ok(TopologyExecutable {
            executable,
            name: name.to_string(),
            topology: topology.clone(),
            plan,
            results: program.avals_out().into_iter().map(Arc::new).collect(),
            waits: program.effects() == Effects::Ordered || module.facts.waits,
            calls_host: module.calls_host,
        })
    }

    /// Returns the name of the function.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the placements of arguments and results.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the topology.
    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the compiler's analysis of the program.
    pub(crate) fn report(&self) -> CompilerReport {
        CompilerReport::new(&self.executable, &self.name)
    }
}

/// Replaces the meshes of a plan by meshes of the topology's devices.
fn on_topology(plan: &Plan, topology: &Topology) -> Result<Plan, Error> {
    let convert = |sharding: &NamedSharding| -> Result<NamedSharding, Error> {
        let on_topology = topology.mesh_of(sharding.mesh())?.sharding(sharding.spec().clone())?;
        Ok(on_topology.with_memory_kind(sharding.memory_kind()))
    };
    let target = match &plan.target {
        Some(Placement::Mesh(sharding)) => Some(Placement::Mesh(convert(sharding)?)),
        _ => None,
    };
    let outputs = plan.outputs.iter().map(|sharding| sharding.as_ref().map(convert).transpose());
    Ok(Plan {
        target,
        inputs: plan.inputs.iter().map(convert).collect::<Result<_, _>>()?,
        outputs: outputs.collect::<Result<_, _>>()?,
        layouts: plan.layouts.clone(),
    })
}

/// Refuses a mesh with more devices than the topology, or with devices of this process.
fn check_mesh(name: &str, mesh: Option<&Mesh>, topology: &Topology) -> Result<(), Error> {
    let Some(mesh) = mesh else { return Ok(()) };
    let (needed, available) = (mesh.devices().len(), topology.devices().len());
    let problem = match mesh.devices().first() {
        Some(device) if !device.is_absent() => format!("{mesh} is made of devices of this process"),
        _ if needed > available => format!("{mesh} has {needed} devices, the topology {available}"),
        _ => return Ok(()),
    };
    Err(Error::Compile {
        message: format!(
            "{name}, for {}: {problem}\n  help: `Topology::mesh` makes a mesh of a topology's \
             devices, `Mesh::without_devices` one for any",
            topology.name()
        ),
        dump: None,
        loc: Loc::UNKNOWN,
    })
}
