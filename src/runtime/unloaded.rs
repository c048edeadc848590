//! Programs compiled for devices that are not here.

use super::analysis::Asked;
use super::callbacks::calls_host;
use super::lowering_target::lowering_target;
use super::too_large::refusal;
use super::topology::Topology;
use crate::core::{Error, Mesh, Program};
use crate::passes::{self, Placed};

/// A program compiled for a topology: it can be asked and saved, not run.
pub(crate) struct Unloaded {
    executable: oxidax_pjrt::Executable,
    name: String,
    calls_host: bool,
}

impl Unloaded {
    /// Lowers a program for the platform of `topology`, and compiles it: over the mesh that `placed` speaks of, or for
    /// one device.
    ///
    /// # Errors
    /// `Op` if a primitive refuses the platform; `Compile`.
    pub(crate) fn compile(
        program: &Program,
        name: &str,
        placed: Option<&Placed>,
        topology: &Topology,
    ) -> Result<Unloaded, Error> {
        let mesh = placed.and_then(Placed::mesh);
        refuse_larger(name, mesh, topology)?;
        let target = lowering_target(topology.platform());
        let text = passes::lower_placed(program, name, target, true, placed)?;
        let own = mesh.map(|mesh| topology.own_mesh(mesh)).transpose()?;
        let executable = topology.compile(&text, own.as_ref()).map_err(|error| {
            let devices = mesh.map_or(1, |mesh| mesh.devices().len());
            let name = format!("{name}, for {}", topology.name());
            refusal(&name, &error, (program, &text), devices)
        })?;
        Ok(Unloaded { executable, name: name.to_string(), calls_host: calls_host(&text) })
    }

    pub(super) fn executable(&self) -> &oxidax_pjrt::Executable {
        &self.executable
    }

    pub(super) fn calls_host(&self) -> bool {
        self.calls_host
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// To ask what the compiler knows of it.
    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked { executable: &self.executable, name: &self.name }
    }
}

/// A mesh that has more devices than the topology, or another's.
fn refuse_larger(name: &str, mesh: Option<&Mesh>, topology: &Topology) -> Result<(), Error> {
    let Some(mesh) = mesh else { return Ok(()) };
    let (wanted, there) = (mesh.devices().len(), topology.devices().len());
    let problem = match mesh.devices().first() {
        Some(device) if !device.is_absent() => format!("{mesh} is made of devices of this process"),
        _ if wanted > there => format!("{mesh} has {wanted} devices, the topology {there}"),
        _ => return Ok(()),
    };
    Err(Error::Compile {
        message: format!(
            "{name}, for {}: {problem}\n  help: `Topology::mesh` makes a mesh of a topology's devices, \
             `Mesh::without_devices` one for any",
            topology.name()
        ),
        dump: None,
    })
}
