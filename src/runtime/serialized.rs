//! Executables as bytes, for other processes and other machines.

use super::client::{Runtime, platform_named, runtime_error, runtime_of};
use super::compile::{output_shardings, runtime_at, target_options};
use super::default_device::default_device;
use super::device_buffer::array_type;
use super::disk_cache;
use super::executable::{Executable, OutputPlacement};
use super::stalls;
use super::topology::Topology;
use super::topology_executable::TopologyExecutable;
use crate::core::spans::{Details, EventKind, Span};
use crate::core::{
    Aval, DeviceId, Error, Loc, MemoryKind, Mesh, NamedSharding, PartitionSpec, Placement,
    PlatformId,
};
use oxidax_cache::{file_hash, processor};
use oxidax_pjrt::{CompileOptions, ExecutableSignature};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The machine that a program was compiled for. The program runs only on an equal one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    platform: String,
    /// The plugin's description of its version, for messages.
    plugin: String,
    /// SHA-256 of the plugin's file.
    plugin_sha256: String,
    /// The kind of its devices.
    device: String,
    /// The number of its devices.
    devices: usize,
    /// The processor, if the program is machine code for it.
    processor: Option<String>,
}

/// The description of a serialized program: everything but its machine code.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProgramHeader {
    machine: Machine,
    /// The device, or the mesh, that the program was compiled for.
    target: Placement,
    /// On one device: true if an argument was committed to it.
    committed: bool,
    /// On a mesh: the spec of each argument.
    inputs: Vec<PartitionSpec>,
    /// On a mesh: the spec of each result.
    outputs: Vec<PartitionSpec>,
    ordered: bool,
}

/// A serialized program.
pub(crate) struct SerializedProgram {
    pub(crate) header: ProgramHeader,
    /// The plugin's bytes.
    pub(crate) code: Vec<u8>,
}

impl Machine {
    /// Describes the machine of a client of this process.
    fn current(runtime: &Runtime) -> Result<Machine, Error> {
        let devices = runtime.client.devices();
        Ok(Machine {
            platform: runtime.platform.to_string(),
            plugin: runtime.client.platform_version().to_string(),
            plugin_sha256: disk_cache::plugin_hash(runtime)?,
            device: devices.first().map_or_else(String::new, |device| device.kind().to_string()),
            devices: devices.len(),
            processor: if runtime.client.is_cpu() { processor() } else { None },
        })
    }

    /// Describes the machine of a topology.
    fn of_topology(topology: &Topology) -> Result<Machine, Error> {
        let plugin = topology.plugin_file();
        let failed = |error: oxidax_cache::Error| Error::Plugin(error.to_string());
        Ok(Machine {
            platform: topology.platform().to_string(),
            plugin: topology.platform_version()?,
            plugin_sha256: file_hash(plugin, None).map_err(failed)?,
            device: topology.kind().to_string(),
            devices: topology.devices().len(),
            processor: None,
        })
    }

    /// Returns the reason why a program for this machine cannot run on `current`, if there is one.
    fn mismatch(&self, current: &Machine) -> Option<String> {
        let Machine { platform, plugin, plugin_sha256, device, devices, processor } = self;
        if *platform != current.platform {
            return Some(format!("it was compiled for {platform}, not for {}", current.platform));
        }
        if device != &current.device {
            return Some(format!(
                "it was compiled for {device}, the devices here are {}",
                current.device
            ));
        }
        if *devices > current.devices {
            return Some(format!(
                "it was compiled for a machine of {devices} devices, there are {} here",
                current.devices
            ));
        }
        if *plugin_sha256 != current.plugin_sha256 {
            let short = |hash: &str| hash.get(..12).unwrap_or_default().to_string();
            return Some(format!(
                "it was compiled by another build of the plugin: {plugin} (SHA-256 {}…), here is \
                 {} ({}…); install the same build, or compile it again",
                short(plugin_sha256),
                current.plugin,
                short(&current.plugin_sha256)
            ));
        }
        (processor != &current.processor).then(|| {
            "it is machine code for another processor, with other features or threads; compile it \
             again"
                .to_string()
        })
    }
}

impl Executable {
    /// Serializes the program.
    ///
    /// # Errors
    /// `Plugin` if it calls closures of this process, or the plugin's file cannot be read;
    /// `Runtime` if the plugin cannot serialize programs.
    pub(crate) fn serialize(&self) -> Result<SerializedProgram, Error> {
        refuse_closures(&self.name, self.calls_host)?;
        refuse_layouts(&self.name, self.layouts.is_none())?;
        let OutputPlacement { target, committed, shardings } = &self.outputs;
        let header = ProgramHeader {
            machine: Machine::current(runtime_at(target)?)?,
            target: target.clone(),
            committed: *committed,
            inputs: self.inputs.iter().filter_map(Placement::sharding).map(spec_of).collect(),
            outputs: shardings.iter().map(spec_of).collect(),
            ordered: self.waits,
        };
        serialized(&self.name, header, self.loaded.executable())
    }

    /// Loads a serialized program. `avals` are the types of its arguments and captured arrays,
    /// `results` those of its results.
    ///
    /// # Errors
    /// `Plugin` if it was compiled for another machine; `Runtime` if the plugin refuses the bytes.
    pub(crate) fn deserialize(
        name: &str,
        serialized: &SerializedProgram,
        avals: &[Aval],
        results: Vec<Arc<Aval>>,
    ) -> Result<Executable, Error> {
        let ProgramHeader { machine, target, committed, inputs, outputs, ordered } =
            &serialized.header;
        let refuse = |reason: &dyn std::fmt::Display| {
            Err(Error::Plugin(format!("{name}: this program does not run here: {reason}")))
        };
        let runtime = match platform_named(&machine.platform).and_then(runtime_of) {
            Ok(runtime) => runtime,
            Err(error) => {
                let reason = match error {
                    Error::Plugin(message) => message,
                    other => other.to_string(),
                };
                return refuse(&format!("it was compiled for {}: {reason}", machine.platform));
            }
        };
        if let Some(reason) = machine.mismatch(&Machine::current(runtime)?) {
            return refuse(&reason);
        }
        let (inputs, outputs, options) = match target {
            Placement::Device(compiled_for) => {
                let default = default_device()?;
                let is_ours = default.1 == runtime.platform;
                let device = if is_ours { default } else { runtime.first_device() };
                let target = Placement::Device(device);
                let inputs = vec![target.clone(); avals.len()];
                let shardings = Vec::new();
                let outputs = OutputPlacement { target, committed: *committed, shardings };
                // On the CPU the code may be from before a load that changed the device.
                let replaces_device = device.0 != compiled_for.0 || runtime.client.is_cpu();
                (inputs, outputs, replaces_device.then(|| CompileOptions::on_device(device.0)))
            }
            Placement::Mesh(sharding) => {
                let mesh = attached_mesh(runtime, name, sharding.mesh())?;
                let shardings = |specs: &[PartitionSpec]| {
                    let shardings = specs.iter().map(|spec| mesh.sharding(spec.clone()));
                    shardings.collect::<Result<Vec<NamedSharding>, Error>>()
                };
                let in_memory = |(sharding, memory): (NamedSharding, MemoryKind)| {
                    sharding.with_memory_kind(memory)
                };
                let memories = avals.iter().map(|aval| aval.memory);
                let inputs = shardings(inputs)?.into_iter().zip(memories).map(in_memory);
                let inputs = inputs.map(Placement::Mesh).collect();
                let target = Placement::Mesh(mesh.replicated());
                let memories = results.iter().map(|aval| aval.memory);
                let shardings = shardings(outputs)?.into_iter().zip(memories);
                let shardings = shardings.map(in_memory).collect();
                (inputs, OutputPlacement { target, committed: true, shardings }, None)
            }
        };
        let _span =
            Span::within(EventKind::Compile, || Details::new(name.to_owned(), "from_bytes", true));
        let device_avals = Executable::device_avals(avals, &inputs)?;
        let parameters = device_avals.iter().map(array_type).collect::<Result<_, _>>();
        let loaded = parameters.and_then(|parameters| {
            let signature = Some(ExecutableSignature { parameters });
            runtime.client.load(&serialized.code, signature, options.as_ref())
        });
        let loaded = loaded.map_err(|error| runtime_error(format!("loading {name}"), &error))?;
        Ok(Executable {
            options: target_options(runtime, &outputs.target),
            loaded,
            name: name.into(),
            results,
            inputs,
            outputs,
            layouts: None,
            program: stalls::next_program(),
            waits: *ordered,
            has_unordered_effects: false,
            host_functions: Vec::new(),
            host_transfers: Vec::new(),
            from_disk: false,
            calls_host: false,
            closures: None,
        })
    }
}

impl TopologyExecutable {
    /// Serializes the program, for a machine with devices like the topology's.
    ///
    /// # Errors
    /// `Plugin` if it calls closures of this process, or the plugin's file cannot be read;
    /// `Runtime` if the plugin cannot serialize programs; `Compile` if the compiler chose a
    /// sharding of a result that the axes of the mesh cannot express.
    pub(crate) fn serialize(&self) -> Result<SerializedProgram, Error> {
        let TopologyExecutable { executable, topology, plan, results, .. } = self;
        refuse_closures(&self.name, self.calls_host)?;
        refuse_layouts(&self.name, plan.layouts.are_default())?;
        let target = plan.target.clone().unwrap_or_else(|| {
            let first = topology.devices().first();
            Placement::Device(
                first
                    .map_or(DeviceId(0, PlatformId::of(topology.platform())), |device| device.id()),
            )
        });
        let outputs = match plan.mesh() {
            None => Vec::new(),
            Some(mesh) => output_shardings(executable, mesh, results, &plan.outputs)
                .map_err(|message| Error::Compile { message, dump: None, loc: Loc::UNKNOWN })?,
        };
        let header = ProgramHeader {
            machine: Machine::of_topology(topology)?,
            target,
            committed: false,
            inputs: plan.inputs.iter().map(spec_of).collect(),
            outputs: outputs.iter().map(spec_of).collect(),
            ordered: self.waits,
        };
        serialized(&self.name, header, executable)
    }
}

fn spec_of(sharding: &NamedSharding) -> PartitionSpec {
    sharding.spec().clone()
}

fn serialized(
    name: &str,
    header: ProgramHeader,
    executable: &oxidax_pjrt::Executable,
) -> Result<SerializedProgram, Error> {
    let code = executable.serialize();
    let code = code.map_err(|error| runtime_error(format!("serializing {name}"), &error))?;
    Ok(SerializedProgram { header, code })
}

fn refuse_closures(name: &str, calls_host: bool) -> Result<(), Error> {
    if !calls_host {
        return Ok(());
    }
    Err(Error::Plugin(format!(
        "{name} cannot be serialized: it calls closures of this process (callbacks, prints)"
    )))
}

fn refuse_layouts(name: &str, are_default: bool) -> Result<(), Error> {
    if are_default {
        return Ok(());
    }
    Err(Error::Plugin(format!(
        "{name} cannot be serialized: `in_layouts` or `out_layouts` request layouts, which are not \
         stored; serialize it without them"
    )))
}

/// Returns a deserialized mesh with this process's devices of the same ids.
fn attached_mesh(runtime: &Runtime, name: &str, mesh: &Mesh) -> Result<Mesh, Error> {
    let mut devices = Vec::with_capacity(mesh.devices().len());
    for device in mesh.devices() {
        let id = device.id();
        devices.push(runtime.described(id).cloned().ok_or_else(|| {
            Error::Plugin(format!(
                "{name}: it was compiled for a mesh with device {id}, which this process lacks"
            ))
        })?);
    }
    Mesh::new(devices, mesh.axes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            platform: "tpu".into(),
            plugin: "libtpu 1".into(),
            plugin_sha256: "0123456789abcdef".into(),
            device: "TPU v5 lite".into(),
            devices: 4,
            processor: None,
        }
    }

    #[test]
    fn mismatch_names_the_difference() {
        let compiled_for = machine();
        assert_eq!(compiled_for.mismatch(&machine()), None);
        assert_eq!(compiled_for.mismatch(&Machine { devices: 8, ..machine() }), None);
        let other_build = Machine {
            plugin_sha256: "fedcba9876543210".into(),
            plugin: "libtpu 2".into(),
            ..machine()
        };
        for (current, expected) in [
            (Machine { platform: "cpu".into(), ..machine() }, "compiled for tpu, not for cpu"),
            (
                Machine { device: "TPU v4".into(), ..machine() },
                "compiled for TPU v5 lite, the devices here are TPU v4",
            ),
            (Machine { devices: 1, ..machine() }, "a machine of 4 devices, there are 1 here"),
            (
                other_build,
                "another build of the plugin: libtpu 1 (SHA-256 0123456789ab…), here is libtpu 2",
            ),
            (Machine { processor: Some("x".into()), ..machine() }, "another processor"),
        ] {
            let reason = compiled_for.mismatch(&current).unwrap();
            assert!(reason.contains(expected), "{reason}");
        }
    }
}
