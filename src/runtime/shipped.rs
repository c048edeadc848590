//! Compiled programs as bytes, for another process or another machine.

use super::client::{Runtime, runtime, runtime_error};
use super::executable::{Executable, Gives, chosen};
use super::home::{Home, default_device};
use super::saved;
use super::topology::Topology;
use super::unloaded::Unloaded;
use crate::core::{Aval, Device, Effects, Error, Mesh, NamedSharding, PartitionSpec, Program};
use crate::passes::Placed;
use oxidax_cache::{KeyBuilder, file_hash, processor};
use oxidax_pjrt::{CompileOptions, Signature};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a program was compiled for: it runs where all of this is the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    platform: String,
    /// What the plugin says of itself, for messages.
    plugin: String,
    /// SHA-256 of the plugin's file.
    plugin_sha256: String,
    /// What its devices are called.
    device: String,
    /// How many there are.
    devices: usize,
    /// Where it is machine code for a processor, which one.
    processor: Option<String>,
}

/// How arguments and results lie.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Lie {
    /// On one device, compiled for the one of this number; results count as put there if the arguments did.
    One { device: i32, committed: bool },
    /// Over a mesh of devices of these numbers.
    Over {
        axes: Vec<(String, usize)>,
        devices: Vec<i32>,
        inputs: Vec<PartitionSpec>,
        results: Vec<PartitionSpec>,
    },
}

/// What besides the machine code a program needs to be run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Frame {
    machine: Machine,
    lie: Lie,
    ordered: bool,
}

/// A program as bytes, and what it needs to be run.
pub(crate) struct Shipped {
    pub(crate) frame: Frame,
    pub(crate) code: Vec<u8>,
}

impl Machine {
    fn here(runtime: &Runtime) -> Result<Machine, Error> {
        let kinds = runtime.client.devices();
        Ok(Machine {
            platform: runtime.platform.clone(),
            plugin: runtime.client.platform_version().to_string(),
            plugin_sha256: saved::plugin_hash(runtime)?,
            device: kinds.first().map_or_else(String::new, |device| device.kind().to_string()),
            devices: kinds.len(),
            processor: if runtime.client.is_cpu() { processor() } else { None },
        })
    }

    fn of(topology: &Topology) -> Result<Machine, Error> {
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

    /// Why a program that was compiled for this does not run there.
    fn refuses(&self, there: &Machine) -> Option<String> {
        let Machine { platform, plugin, plugin_sha256, device, devices, processor } = self;
        if *platform != there.platform {
            return Some(format!(
                "it was compiled for {platform}, this process runs on {}; `OXIDAX_PLATFORM={platform}` chooses another",
                there.platform
            ));
        }
        if device != &there.device {
            return Some(format!(
                "it was compiled for {device}, the devices here are {}",
                there.device
            ));
        }
        if *devices > there.devices {
            return Some(format!(
                "it was compiled for a machine of {devices} devices, there are {} here",
                there.devices
            ));
        }
        if *plugin_sha256 != there.plugin_sha256 {
            let short = |hash: &str| hash.get(..12).unwrap_or_default().to_string();
            return Some(format!(
                "it was compiled by another build of the plugin: {plugin} (SHA-256 {}…), here is {} ({}…); install the same one, \
                 or compile it anew",
                short(plugin_sha256),
                there.plugin,
                short(&there.plugin_sha256)
            ));
        }
        (processor != &there.processor).then(|| {
            "it is machine code for another processor, whose features or threads differ from those here; compile it anew"
                .to_string()
        })
    }
}

impl Executable {
    /// The program as bytes.
    ///
    /// # Errors
    /// `Runtime` where the plugin does not write it down; `Plugin` if its file cannot be read.
    pub(crate) fn ship(&self) -> Result<Shipped, Error> {
        let runtime = runtime()?;
        if self.calls_host() {
            return Err(unshippable(self.name()));
        }
        let lie = match &self.gives {
            Gives::On { device, committed } => Lie::One { device: *device, committed: *committed },
            Gives::Over(results) => over(self.inputs(), results)?,
        };
        let frame = Frame { machine: Machine::here(runtime)?, lie, ordered: self.is_ordered() };
        let code = self.loaded.executable().serialize();
        let doing = || format!("writing down {}", self.name());
        let code = code.map_err(|error| runtime_error(doing(), &error))?;
        Ok(Shipped { frame, code })
    }

    /// The program of these bytes, if it runs here; `results` are the types of what it gives, `avals` those of what it takes.
    ///
    /// # Errors
    /// `Plugin` with why it does not run here; `Runtime` if the plugin refuses the bytes.
    pub(crate) fn unship(
        name: &str,
        shipped: &Shipped,
        avals: &[Aval],
        results: Vec<Arc<Aval>>,
    ) -> Result<Executable, Error> {
        let runtime = runtime()?;
        let Frame { machine, lie, ordered } = &shipped.frame;
        if let Some(why) = machine.refuses(&Machine::here(runtime)?) {
            return Err(Error::Plugin(format!("{name}: this program does not run here: {why}")));
        }
        let (inputs, gives, elsewhere) = match lie {
            Lie::One { device: compiled_for, committed } => {
                let device = default_device()?;
                (
                    vec![Home::Device(device); avals.len()],
                    Gives::On { device, committed: *committed },
                    (device != *compiled_for).then(|| CompileOptions::on_device(device)),
                )
            }
            Lie::Over { axes, devices, inputs, results } => {
                let mesh = mesh_here(runtime, name, axes, devices)?;
                let all = |specs: &[PartitionSpec]| {
                    let each = specs.iter().map(|spec| mesh.sharding(spec.clone()));
                    each.collect::<Result<Vec<NamedSharding>, Error>>()
                };
                let inputs = all(inputs)?.into_iter().map(Home::Mesh).collect();
                (inputs, Gives::Over(all(results)?), None)
            }
        };
        let shares = Executable::shares(avals, &inputs)?;
        let parameters = shares.iter().map(super::buffer::array_type).collect::<Result<_, _>>();
        let loaded = parameters.and_then(|parameters| {
            runtime.client.load(&shipped.code, Some(Signature { parameters }), elsewhere.as_ref())
        });
        let loaded = loaded.map_err(|error| runtime_error(format!("loading {name}"), &error))?;
        Ok(Executable::made(name, loaded, results, inputs, gives, *ordered))
    }
}

impl Unloaded {
    /// The program as bytes, for a machine like the topology.
    ///
    /// # Errors
    /// `Runtime` where the plugin does not write it down; `Plugin` if its file cannot be read; `Compile` if the results lie in a
    /// way that no sharding says.
    pub(crate) fn ship(
        &self,
        program: &Program,
        placed: Option<&Placed>,
        topology: &Topology,
    ) -> Result<Shipped, Error> {
        if self.calls_host() {
            return Err(unshippable(self.name()));
        }
        let lie = match placed.and_then(Placed::mesh).zip(placed) {
            None => Lie::One {
                device: topology.devices().first().map_or(0, Device::id),
                committed: false,
            },
            Some((mesh, placed)) => {
                let own = topology.own_mesh(mesh)?;
                let wish = |sharding: &Option<NamedSharding>| match sharding {
                    Some(sharding) => own.sharding(sharding.spec().clone()).map(Some),
                    None => Ok(None),
                };
                let inputs = placed.inputs.iter().map(|sharding| {
                    Ok(Home::Mesh(wish(sharding)?.unwrap_or_else(|| own.replicated())))
                });
                let inputs = inputs.collect::<Result<Vec<_>, Error>>()?;
                let wished = placed.outputs.iter().map(wish).collect::<Result<Vec<_>, _>>()?;
                let results: Vec<_> = program.avals_out().into_iter().map(Arc::new).collect();
                let refused = |message| Error::Compile { message, dump: None };
                over(
                    &inputs,
                    &chosen(self.executable(), &own, &results, &wished).map_err(refused)?,
                )?
            }
        };
        let ordered = program.effects() == Effects::Ordered;
        let frame = Frame { machine: Machine::of(topology)?, lie, ordered };
        let code = self.executable().serialize();
        let doing = || format!("writing down {}", self.name());
        Ok(Shipped { frame, code: code.map_err(|error| runtime_error(doing(), &error))? })
    }
}

fn unshippable(name: &str) -> Error {
    Error::Plugin(format!(
        "{name} cannot be written down: it calls closures of this process (callbacks, prints)"
    ))
}

fn over(inputs: &[Home], results: &[NamedSharding]) -> Result<Lie, Error> {
    let spec = |home: &Home| match home {
        Home::Mesh(sharding) => sharding.spec().clone(),
        Home::Device(_) => PartitionSpec::default(),
    };
    let of_input = inputs.iter().find_map(|home| match home {
        Home::Mesh(sharding) => Some(sharding.mesh()),
        Home::Device(_) => None,
    });
    let mesh = of_input.or_else(|| results.first().map(NamedSharding::mesh));
    let Some(mesh) = mesh else {
        return Ok(Lie::One { device: default_device()?, committed: false });
    };
    Ok(Lie::Over {
        axes: mesh.axes().to_vec(),
        devices: mesh.devices().iter().map(Device::id).collect(),
        inputs: inputs.iter().map(spec).collect(),
        results: results.iter().map(|sharding| sharding.spec().clone()).collect(),
    })
}

/// The mesh of devices of these numbers.
fn mesh_here(
    runtime: &Runtime,
    name: &str,
    axes: &[(String, usize)],
    numbers: &[i32],
) -> Result<Mesh, Error> {
    let device = |&id: &i32| {
        runtime.facts(id).cloned().ok_or_else(|| {
            Error::Plugin(format!(
                "{name}: it was compiled for a mesh with device {id}, which is not here"
            ))
        })
    };
    Mesh::new(numbers.iter().map(device).collect::<Result<Vec<_>, _>>()?, axes.to_vec())
}

/// A hash of bytes, to find out whether they were changed.
pub(crate) fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut key = KeyBuilder::new();
    key.part("bytes", bytes);
    *key.finish().as_bytes()
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
    fn every_difference_is_told() {
        let ours = machine();
        assert_eq!(ours.refuses(&machine()), None);
        assert_eq!(ours.refuses(&Machine { devices: 8, ..machine() }), None);
        for (there, expected) in [
            (
                Machine { platform: "cpu".into(), ..machine() },
                "compiled for tpu, this process runs on cpu",
            ),
            (
                Machine { device: "TPU v4".into(), ..machine() },
                "compiled for TPU v5 lite, the devices here are TPU v4",
            ),
            (Machine { devices: 1, ..machine() }, "a machine of 4 devices, there are 1 here"),
            (
                Machine {
                    plugin_sha256: "fedcba9876543210".into(),
                    plugin: "libtpu 2".into(),
                    ..machine()
                },
                "another build of the plugin: libtpu 1 (SHA-256 0123456789ab…), here is libtpu 2",
            ),
            (Machine { processor: Some("x".into()), ..machine() }, "another processor"),
        ] {
            let why = ours.refuses(&there).unwrap();
            assert!(why.contains(expected), "{why}");
        }
    }
}
