//! Devices to compile for, whether or not they are there.

use super::client::{runtime_error, slice_in};
use super::executable::{on_first, over};
use crate::core::{Device, Error, Mesh};
use oxidax_pjrt::{NamedValue, Plugin, Value};
use oxidax_plugin::{Config, Platform, Request, Stderr, find_or_install};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Devices to compile for that nobody needs to have: a slice of TPUs, described by libtpu, or GPUs, described by the CUDA plugin.
///
/// [`Lowered::compile_for`](crate::jit::Lowered::compile_for) runs the real compiler for them: the answer says what the
/// program takes and costs there, and can be saved for a machine that has such devices. Meshes are made of its devices as
/// of those that are here; nothing can be put on them.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let slice = Topology::named("v5e:4x4")?;
/// let mesh = slice.mesh([("data", 4), ("model", 4)])?;
/// let (rows, columns) = (mesh.sharding(p!["data"])?, mesh.sharding(p![None, "model"])?);
/// let layer = jit(|x: Array, w: Array| tanh(&x.matmul(&w))).in_shardings((&rows, &columns));
/// let (x, w) = (Aval::new(DType::BF16, [1024, 4096]), Aval::new(DType::BF16, [4096, 4096]));
/// let compiled = layer.lower((x, w))?.compile_for(&slice)?;
/// println!("{} bytes on each of {} devices", compiled.memory_analysis()?.total(), slice.devices().len());
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone)]
#[doc(alias = "TopologyDescription")]
pub struct Topology(Arc<Described>);

struct Described {
    topology: oxidax_pjrt::Topology,
    plugin: PathBuf,
    name: String,
    platform: Platform,
    devices: Vec<Device>,
    coordinates: Vec<Vec<i64>>,
    memory: Option<u64>,
    cores_per_chip: i64,
}

/// The plugin of a platform, beside the one that the process runs on, and its file.
fn plugin_of(platform: Platform) -> Result<(Plugin, PathBuf), Error> {
    let plugin_error = |error: &dyn fmt::Display| Error::Plugin(error.to_string());
    let config = Config::from_env().map_err(|error| plugin_error(&error))?;
    let wanted = Request { platform: Some(platform), path: None };
    let found = find_or_install(&wanted, &config, &mut Stderr::new());
    let found = found.map_err(|error| plugin_error(&error))?;
    let plugin = Plugin::load(&found.path).map_err(|error| plugin_error(&error))?;
    Ok((plugin, found.path))
}

/// The kind and the number of GPUs that `h100:8` asks for; `None` for the name of a TPU.
fn gpus(name: &str) -> Option<(&str, usize)> {
    let (kind, count) = name.split_once(':').unwrap_or((name, "1"));
    // `v5e` is a TPU, `v100` a GPU.
    let generation = kind.strip_prefix('v').unwrap_or(kind);
    let digits = generation.bytes().take_while(u8::is_ascii_digit).count();
    let is_tpu = kind.starts_with("tpu") || digits == 1;
    Some((kind, count.parse().ok().filter(|_| !is_tpu)?))
}

impl Topology {
    /// A slice of TPUs by libtpu's name for it: the generation, a colon, and how many chips lie along each axis. Or GPUs of one host: their
    /// kind, a colon, and how many: `h100:8`, `a100`, by the CUDA plugin (`oxidax plugin install cuda`) and without a GPU.
    ///
    /// Generations are `v2`, `v3`, `v5e` and `v6e` with two axes, `v4`, `v5p` and `7x` with three: `v5e:4x4`, `v5p:2x2x4`,
    /// `7x:2x2x1`. A device is a chip, but for v2, v3 and 7x, whose chips are two devices each.
    ///
    /// libtpu must be there (`oxidax plugin install tpu`), a TPU need not. It is loaded beside the plugin that the process
    /// runs on.
    ///
    /// # Errors
    /// `Plugin` if the plugin is not found, or does not know the name.
    #[doc(alias = "get_topology_desc")]
    pub fn named(name: &str) -> Result<Topology, Error> {
        Topology::of_slices(name, 1)
    }

    fn of_gpus(name: &str, (kind, count): (&str, usize)) -> Result<Topology, Error> {
        let (plugin, file) = plugin_of(Platform::Cuda)?;
        let topology = oxidax_pjrt::Topology::of_gpus(plugin, kind, count);
        let topology = topology.map_err(|error| {
            Error::Plugin(format!(
                "`{name}` is no topology: {error}\n  help: TPUs are called `v5e:4x4`, GPUs `h100:8`"
            ))
        })?;
        Topology::described(topology, file, name.to_string(), Platform::Cuda)
    }

    /// Several slices of the same form, which reach each other over the data centre's network. Their devices know
    /// [which slice](Device::slice_index) they belong to; [`Mesh::across_slices`] makes a mesh of them.
    ///
    /// # Errors
    /// As [`Topology::named`]; `Plugin` if `slices` is 0, or there are several of GPUs, of which one host's are known.
    pub fn of_slices(name: &str, slices: usize) -> Result<Topology, Error> {
        match (gpus(name), slices) {
            (None, _) => {}
            (Some(asked), 1) => return Topology::of_gpus(name, asked),
            (Some(_), _) => {
                return Err(Error::Plugin(format!(
                    "{slices} × `{name}`: GPUs are those of one host\n  help: `{name}` alone, or slices of TPUs"
                )));
            }
        }
        let (plugin, file) = plugin_of(Platform::Tpu)?;
        let known = match name.strip_prefix("7x:") {
            Some(form) => format!("tpu7x:{form}"),
            None => name.to_string(),
        };
        let options = match slices {
            0 => return Err(Error::Plugin(format!("{name}: there is no topology of 0 slices"))),
            1 => None,
            _ => Some(NamedValue::new("num_slices", slices as i64)),
        };
        // The cores of a v4 chip work as one device, as they do on Cloud TPU VMs; of later ones that is the rule.
        let megacore = name.starts_with("v4:");
        let megacore = megacore.then(|| NamedValue::new("chip_config_name", "megacore"));
        let options: Vec<_> = options.into_iter().chain(megacore).collect();
        let topology = oxidax_pjrt::Topology::named(plugin, &known, &options).map_err(|error| {
            Error::Plugin(format!(
                "`{name}` is no topology of libtpu's: {error}\n  help: a name is a generation and the chips along each \
                 axis, as `v5e:4x4`, `v6e:2x4`, `v4:2x2x4`, `v5p:2x2x1` or `7x:2x2x1`"
            ))
        })?;
        Topology::described(topology, file, name.to_string(), Platform::Tpu)
    }

    fn described(
        topology: oxidax_pjrt::Topology,
        plugin: PathBuf,
        name: String,
        platform: Platform,
    ) -> Result<Topology, Error> {
        let failed = |error| runtime_error(format!("asking for the devices of {name}"), &error);
        let found = topology.devices().map_err(failed)?;
        let number = |of: &[NamedValue], wanted: &str| {
            of.iter().find(|attribute| attribute.name == wanted).and_then(|it| match it.value {
                Value::Int64(number) => Some(number),
                _ => None,
            })
        };
        let coordinates = found.iter().map(|device| {
            let coords = device.attributes.iter().find(|attribute| attribute.name == "coords");
            match coords.map(|attribute| &attribute.value) {
                Some(Value::Int64List(coords)) => coords.clone(),
                _ => Vec::new(),
            }
        });
        let coordinates = coordinates.collect();
        let all = topology.attributes().unwrap_or_default();
        let of_devices = |wanted| {
            let own = found.first().and_then(|device| number(&device.attributes, wanted));
            own.or_else(|| number(&all, wanted))
        };
        let memory = of_devices("device_memory_bytes_limit");
        let cores = found.iter().filter_map(|it| number(&it.attributes, "core_on_chip")).max();
        let devices = found.iter().map(|device| {
            let process = device.process_index;
            Device::new(device.id, process, platform.name(), &device.kind, false)
                .in_slice(slice_in(&device.attributes))
                .absent()
        });
        Ok(Topology(Arc::new(Described {
            devices: devices.collect(),
            memory: memory.and_then(|bytes| u64::try_from(bytes).ok()),
            cores_per_chip: cores.unwrap_or_default() + 1,
            topology,
            plugin,
            name,
            platform,
            coordinates,
        })))
    }

    /// The name that it was asked for by.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// `tpu` or `cuda`.
    pub fn platform(&self) -> &str {
        self.0.platform.name()
    }

    /// What its plugin says of its own version: of libtpu which build it is, and from when.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the plugin does not say.
    pub fn platform_version(&self) -> Result<String, Error> {
        let failed =
            |error| runtime_error(format!("asking for the version of {}", self.name()), &error);
        self.0.topology.platform_version().map_err(failed)
    }

    /// Its devices, in the order of their numbers. They are not here: programs are compiled for them, nothing is put on
    /// them.
    pub fn devices(&self) -> &[Device] {
        &self.0.devices
    }

    /// What the plugin calls its devices: `TPU v5 lite`, say.
    pub fn kind(&self) -> &str {
        self.0.devices.first().map_or("", Device::kind)
    }

    /// Where the chip of a device stands in its slice, along each axis; empty where the plugin knows no places.
    pub fn coordinates(&self, device: &Device) -> &[i64] {
        let at = self.0.devices.iter().position(|known| known == device);
        at.map_or(&[], |at| &self.0.coordinates[at])
    }

    /// How many devices a chip is.
    pub fn devices_per_chip(&self) -> usize {
        usize::try_from(self.0.cores_per_chip).unwrap_or(1)
    }

    /// How many processes drive it, one on each host.
    pub fn process_count(&self) -> usize {
        let last = self.0.devices.iter().map(Device::process_index).max();
        last.and_then(|last| usize::try_from(last).ok()).map_or(1, |last| last + 1)
    }

    /// The memory of a device that programs may use, in bytes; `None` where the plugin does not say.
    pub fn memory(&self) -> Option<u64> {
        self.0.memory
    }

    /// A mesh of its first devices, as many as the axes ask for, in the order of their numbers.
    ///
    /// # Errors
    /// As [`Mesh::new`]; `Op` (value) if it has fewer devices.
    #[track_caller]
    pub fn mesh<S: Into<String>>(
        &self,
        axes: impl IntoIterator<Item = (S, usize)>,
    ) -> Result<Mesh, Error> {
        let axes: Vec<(String, usize)> =
            axes.into_iter().map(|(name, size)| (name.into(), size)).collect();
        let wanted = axes.iter().map(|(_, size)| size).product::<usize>();
        let devices = self.devices();
        Mesh::new(&devices[..wanted.min(devices.len())], axes)
    }

    /// The mesh as one of its own devices: one `without_devices` takes its first.
    pub(super) fn own_mesh(&self, mesh: &Mesh) -> Result<Mesh, Error> {
        // Devices of a mesh `without_devices` were numbered before anybody knew for what.
        let known = |device: &Device| device.platform() == self.platform();
        match mesh.devices().iter().all(known) {
            true => Ok(mesh.clone()),
            false => self.mesh(mesh.axes().to_vec()),
        }
    }

    /// The plugin's file.
    pub(super) fn plugin_file(&self) -> &Path {
        &self.0.plugin
    }

    /// Compiles a module for it: for its first device, or over a mesh of its own.
    ///
    /// # Errors
    /// The compiler's.
    pub(crate) fn compile(
        &self,
        text: &str,
        mesh: Option<&Mesh>,
    ) -> oxidax_pjrt::Result<oxidax_pjrt::Executable> {
        let program = oxidax_pjrt::Program::mlir(text)?;
        let options = match mesh {
            Some(mesh) => {
                let ids = mesh.devices().iter().map(|device| i64::from(device.id()));
                over(self.platform(), ids.collect())
            }
            None => on_first(self.platform()),
        };
        self.0.topology.compile(&program, &options)
    }
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Topology({}, {} devices)", self.name(), self.devices().len())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::{Topology, gpus};

    #[test]
    fn gpus_are_those_of_one_host() {
        let error = Topology::of_slices("h100:8", 2).unwrap_err().to_string();
        assert!(error.contains("2 × `h100:8`: GPUs are those of one host"), "{error}");
    }

    #[test]
    fn names_of_gpus_are_told_from_those_of_tpus() {
        assert_eq!(gpus("h100:8"), Some(("h100", 8)));
        assert_eq!(gpus("a100"), Some(("a100", 1)));
        assert_eq!(gpus("rtx:1"), Some(("rtx", 1)));
        assert_eq!(gpus("v100:2"), Some(("v100", 2)));
        for tpu in ["v5e:4x4", "v5e:1", "v5p:2x2x1", "7x:2x2x1", "tpu7x:2x2x1", "7x", "h100:many"] {
            assert_eq!(gpus(tpu), None, "{tpu}");
        }
    }
}
