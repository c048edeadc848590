//! [`Topology`]: devices to compile for that need not be attached.

use super::callbacks;
use super::client::{default_runtime, location, runtime_error, slice_index};
use super::compile::{first_device_options, mesh_options};
use crate::core::{Device, Error, Mesh};
use oxidax_cache::CacheKeyBuilder;
use oxidax_pjrt::{CompileOptions, NamedValue, PjrtValue, Plugin};
use oxidax_plugin::{Config, Platform, Request, Stderr, find_or_install};
use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Devices to compile for that need not be attached: a TPU slice described by libtpu, or GPUs
/// described by the CUDA plugin.
///
/// [`Lowered::compile_for`](crate::jit::Lowered::compile_for) runs the platform's compiler for
/// them. The compiled program reports its memory and cost, and can be serialized for a machine with
/// such devices. Meshes are made of a topology's devices as usual, but arrays cannot be placed on
/// them.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let slice = Topology::named("v5e:4x4")?;
/// let mesh = slice.mesh([("data", 4), ("model", 4)])?;
/// let (rows, columns) = (mesh.sharding(p!["data"])?, mesh.sharding(p![None, "model"])?);
/// let layer = jit(|x: Array, w: Array| tanh(&x.matmul(&w))).in_shardings((&rows, &columns));
/// let (x, w) = (Aval::new(DType::BF16, [1024, 4096]), Aval::new(DType::BF16, [4096, 4096]));
/// let compiled = layer.lower(x, w)?.compile_for(&slice)?;
/// let bytes = compiled.report().memory_analysis()?.total();
/// println!("{bytes} bytes on each of {} devices", slice.devices().len());
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone)]
#[doc(alias = "TopologyDescription")]
pub struct Topology(Arc<Description>);

struct Description {
    topology: oxidax_pjrt::TopologyDescription,
    plugin: PathBuf,
    name: String,
    platform: Platform,
    devices: Vec<Device>,
    memory: Option<u64>,
    cores_per_chip: i64,
}

/// Loads the plugin of a platform beside the process's own. Returns it with its file.
fn plugin_of(platform: Platform) -> Result<(Plugin, PathBuf), Error> {
    let plugin_error = |error: &dyn fmt::Display| Error::Plugin(error.to_string());
    let config = Config::from_env().map_err(|error| plugin_error(&error))?;
    let request = Request { platform: Some(platform), path: None };
    let file = find_or_install(&request, &config, &mut Stderr::new());
    let file = file.map_err(|error| plugin_error(&error))?.path;
    let plugin =
        super::plugin_profilers::load_plugin(&file).map_err(|error| plugin_error(&error))?;
    Ok((plugin, file))
}

/// Parses a name like `h100:8` to the kind and number of GPUs; `None` for the name of a TPU slice.
fn parse_gpus(name: &str) -> Option<(&str, usize)> {
    let (kind, count) = name.split_once(':').unwrap_or((name, "1"));
    // `v5e` is a TPU, `v100` a GPU.
    let generation = kind.strip_prefix('v').unwrap_or(kind);
    let digits = generation.bytes().take_while(u8::is_ascii_digit).count();
    let is_tpu = kind.starts_with("tpu") || digits == 1;
    Some((kind, count.parse().ok().filter(|_| !is_tpu)?))
}

fn attribute<'a>(attributes: &'a [NamedValue], name: &str) -> Option<&'a PjrtValue> {
    let attribute = attributes.iter().find(|attribute| attribute.name == name);
    attribute.map(|attribute| &attribute.value)
}

fn integer(attributes: &[NamedValue], name: &str) -> Option<i64> {
    match attribute(attributes, name) {
        Some(PjrtValue::Int64(number)) => Some(*number),
        _ => None,
    }
}

impl Topology {
    /// Returns the topology with this name: a TPU slice or the GPUs of one host.
    ///
    /// | name | devices | plugin |
    /// |---|---|---|
    /// | `v5e:4x4` | a TPU slice: generation, and chips along each axis | `oxidax plugin install tpu` |
    /// | `h100:8`, `a100` | GPUs of one host: kind, and number | `oxidax plugin install cuda` |
    ///
    /// The generations `v2`, `v3`, `v5e` and `v6e` have two axes, `v4`, `v5p` and `7x` three:
    /// `v5e:4x4`, `v5p:2x2x4`, `7x:2x2x1`. A chip is one device, except for `v2`, `v3` and `7x`,
    /// where it is two.
    ///
    /// The plugin must be installed; the devices need not be attached. It is loaded beside the
    /// process's own plugin.
    ///
    /// # Errors
    /// `Plugin` if the plugin is not installed, or does not know the name.
    #[doc(alias = "get_topology_desc")]
    pub fn named(name: &str) -> Result<Topology, Error> {
        Topology::of_slices(name, 1)
    }

    /// Returns the topology of the devices of this process's default platform, and of the other
    /// processes. Programs can be compiled for it without loading them.
    ///
    /// # Errors
    /// `Plugin` if the platform is a registered plugin; `Runtime` if the plugin does not describe
    /// its devices.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let topology = Topology::attached()?;
    /// assert_eq!(topology.devices().len(), device_count()?);
    /// let f = jit(|x: Array| sin(&x)).lower(Aval::new(DType::F32, [4]))?;
    /// let compiled = f.compile_for(&topology)?;
    /// assert_eq!(compiled.report().memory_analysis()?.arguments, 16);
    /// # use oxidax::parallel::device_count;
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias = "get_attached_topology")]
    pub fn attached() -> Result<Topology, Error> {
        let runtime = default_runtime()?;
        let name = runtime.platform.to_string();
        let platform = Platform::ALL.into_iter().find(|platform| platform.name() == name);
        let platform = platform.ok_or_else(|| {
            Error::Plugin(format!("`{name}` is a registered plugin, which has no topologies"))
        })?;
        let topology = runtime.client.topology().map_err(|error| {
            runtime_error("reading the topology of the attached devices".to_owned(), &error)
        })?;
        let file = topology.plugin().path().to_owned();
        Topology::described(topology, file, format!("attached {name}"), platform)
    }

    fn of_gpus(name: &str, (kind, count): (&str, usize)) -> Result<Topology, Error> {
        let (plugin, file) = plugin_of(Platform::Cuda)?;
        let topology = oxidax_pjrt::TopologyDescription::of_gpus(plugin, kind, count);
        let topology = topology.map_err(|error| {
            Error::Plugin(format!(
                "`{name}` is not a topology: {error}\n  help: TPUs are called `v5e:4x4`, GPUs \
                 `h100:8`"
            ))
        })?;
        Topology::described(topology, file, name.to_string(), Platform::Cuda)
    }

    /// Returns the topology of several equal TPU slices, connected by the data centre's network.
    ///
    /// [`Device::slice_index`] is the slice of a device; [`Mesh::across_slices`] makes a mesh of
    /// them.
    ///
    /// # Errors
    /// As [`Topology::named`]; `Plugin` if `slices` is 0, or more than 1 with GPUs.
    pub fn of_slices(name: &str, slices: usize) -> Result<Topology, Error> {
        match (parse_gpus(name), slices) {
            (None, _) => {}
            (Some(gpus), 1) => return Topology::of_gpus(name, gpus),
            (Some(_), _) => {
                return Err(Error::Plugin(format!(
                    "{slices} × `{name}`: a topology of GPUs has one host\n  help: `{name}` alone, or \
                     slices of TPUs"
                )));
            }
        }
        let (plugin, file) = plugin_of(Platform::Tpu)?;
        let libtpu_name = match name.strip_prefix("7x:") {
            Some(form) => format!("tpu7x:{form}"),
            None => name.to_string(),
        };
        let options = match slices {
            0 => return Err(Error::Plugin(format!("{name}: there is no topology of 0 slices"))),
            1 => None,
            _ => Some(NamedValue::new("num_slices", slices as i64)),
        };
        // The two cores of a v4 chip form one device, as on Cloud TPU VMs. Later generations do so
        // by default.
        let megacore = name.starts_with("v4:");
        let megacore = megacore.then(|| NamedValue::new("chip_config_name", "megacore"));
        let options: Vec<_> = options.into_iter().chain(megacore).collect();
        let topology = oxidax_pjrt::TopologyDescription::named(plugin, &libtpu_name, &options);
        let topology = topology.map_err(|error| {
            Error::Plugin(format!(
                "`{name}` is not a topology of libtpu: {error}\n  help: a name is a generation and \
                 the chips along each axis, as `v5e:4x4`, `v6e:2x4`, `v4:2x2x4`, `v5p:2x2x1` or `7x:2x2x1`"
            ))
        })?;
        Topology::described(topology, file, name.to_string(), Platform::Tpu)
    }

    fn described(
        topology: oxidax_pjrt::TopologyDescription,
        plugin: PathBuf,
        name: String,
        platform: Platform,
    ) -> Result<Topology, Error> {
        let failed = |error| runtime_error(format!("reading the devices of {name}"), &error);
        let descriptions = topology.devices().map_err(failed)?;
        let topology_attributes = topology.attributes().unwrap_or_default();
        let memory = descriptions
            .first()
            .and_then(|device| integer(&device.attributes, "device_memory_bytes_limit"))
            .or_else(|| integer(&topology_attributes, "device_memory_bytes_limit"));
        let devices = descriptions.iter().map(|device| {
            let process = device.process_index;
            let (coordinates, core) = location(&device.attributes);
            Device::new(device.id, process, platform.name(), &device.kind, false)
                .in_slice(slice_index(&device.attributes))
                .at(coordinates, core)
                .absent()
        });
        let devices: Vec<Device> = devices.collect();
        let last_core = devices.iter().map(Device::core_on_chip).max().unwrap_or_default();
        Ok(Topology(Arc::new(Description {
            devices,
            memory: memory.and_then(|bytes| u64::try_from(bytes).ok()),
            cores_per_chip: last_core + 1,
            topology,
            plugin,
            name,
            platform,
        })))
    }

    /// Returns the name that it was created with.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the platform: `tpu` or `cuda`, or `cpu` for [attached](Topology::attached) devices.
    pub fn platform(&self) -> &str {
        self.0.platform.name()
    }

    /// Returns the plugin's version; for libtpu its build and date.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the plugin does not report it.
    pub fn platform_version(&self) -> Result<String, Error> {
        let failed =
            |error| runtime_error(format!("reading the version of {}", self.name()), &error);
        self.0.topology.platform_version().map_err(failed)
    }

    /// Returns the devices, ordered by id. Programs are compiled for them; arrays cannot be placed
    /// on them.
    pub fn devices(&self) -> &[Device] {
        &self.0.devices
    }

    /// Returns the plugin's name for the kind of device, for example `TPU v5 lite`.
    pub fn kind(&self) -> &str {
        self.0.devices.first().map_or("", Device::kind)
    }

    /// Returns the coordinates of a device's chip in its slice; empty if the plugin does not report
    /// them.
    pub fn coordinates(&self, device: &Device) -> &[i64] {
        let own = self.0.devices.iter().find(|other| *other == device);
        own.map_or(&[], Device::coordinates)
    }

    /// Returns the number of devices per chip.
    pub fn devices_per_chip(&self) -> usize {
        usize::try_from(self.0.cores_per_chip).unwrap_or(1)
    }

    /// Returns the number of processes that drive it, one per host.
    pub fn process_count(&self) -> usize {
        let last = self.0.devices.iter().map(Device::process_index).max();
        last.and_then(|last| usize::try_from(last).ok()).map_or(1, |last| last + 1)
    }

    /// Returns the memory of a device available to programs, in bytes; `None` if the plugin does
    /// not report it.
    pub fn memory(&self) -> Option<u64> {
        self.0.memory
    }

    /// Returns a mesh of the first devices, as many as the axes need. Those of one slice are
    /// ordered as by [`Mesh::by_coordinates`], those of several by id: use [`Mesh::across_slices`]
    /// there.
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
        let count = axes.iter().map(|(_, size)| size).product::<usize>();
        let devices = self.devices();
        let devices = &devices[..count.min(devices.len())];
        let is_one_slice =
            devices.iter().all(|device| device.slice_index() == devices[0].slice_index());
        if is_one_slice { Mesh::by_coordinates(devices, axes) } else { Mesh::new(devices, axes) }
    }

    /// Returns an equal mesh of the topology's devices. A mesh made `without_devices` gets the
    /// first ones.
    pub(crate) fn mesh_of(&self, mesh: &Mesh) -> Result<Mesh, Error> {
        let is_ours = |device: &Device| device.platform() == self.platform();
        if mesh.devices().iter().all(is_ours) {
            return Ok(mesh.clone());
        }
        self.mesh(mesh.axes().to_vec())
    }

    /// Returns the plugin's file.
    pub(super) fn plugin_file(&self) -> &Path {
        &self.0.plugin
    }

    /// Compiles a module for the first device, or for a mesh of the topology's devices.
    ///
    /// # Errors
    /// Errors of the compiler.
    pub(crate) fn compile(
        &self,
        text: &str,
        options: &CompileOptions,
    ) -> oxidax_pjrt::Result<oxidax_pjrt::Executable> {
        let text = with_hashes_for(text, self.kind());
        let program = oxidax_pjrt::PjrtProgram::mlir(text)?;
        self.0.topology.compile(&program, options)
    }

    /// Returns the compile options of the platform for the mesh, or for one device.
    pub(super) fn options(&self, mesh: Option<&Mesh>) -> CompileOptions {
        match mesh {
            Some(mesh) => mesh_options(self.platform(), mesh),
            None => first_device_options(self.platform()),
        }
    }

    /// Registers the custom call of callbacks with the compiler.
    ///
    /// # Errors
    /// Errors of the plugin.
    pub(super) fn install_callbacks(&self) -> oxidax_pjrt::Result<()> {
        callbacks::install_for(self.0.topology.plugin(), self.platform())
    }
}

/// Returns a module whose hashes of kernels of Mosaic GPU depend on the kind of GPU as well.
///
/// The plugin keeps the code of a kernel by its hash alone, for all clients and topologies of the
/// process, and would return the code for another GPU.
fn with_hashes_for<'a>(text: &'a str, kind: &str) -> Cow<'a, str> {
    const START: &str = "{kernel_hash = \"";
    /// The length of 32 bytes as `\XX`.
    const LENGTH: usize = 96;
    if !text.contains(START) {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split(START);
    let mut changed = parts.next().unwrap_or_default().to_string();
    for part in parts {
        changed.push_str(START);
        let Some((hash, rest)) = part.split_at_checked(LENGTH) else {
            changed.push_str(part);
            continue;
        };
        let mut key = CacheKeyBuilder::new();
        key.part("kernel", hash.as_bytes());
        key.part("kind", kind.as_bytes());
        for byte in key.finish().as_bytes() {
            write!(changed, "\\{byte:02X}").expect("strings take any text");
        }
        changed.push_str(rest);
    }
    Cow::Owned(changed)
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Topology({}, {} devices)", self.name(), self.devices().len())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::{Topology, parse_gpus, with_hashes_for};

    #[test]
    fn hashes_of_kernels_depend_on_the_gpu() {
        let hash = "\\0A".repeat(32);
        let text = format!("a {{kernel_hash = \"{hash}\", module}} b {{kernel_hash = \"{hash}\"}}");
        let [a100, h100] = ["A100", "H100"].map(|kind| with_hashes_for(&text, kind).into_owned());
        assert!(a100 != h100 && a100 != text && a100.len() == text.len(), "{a100}");
        assert!(a100.starts_with("a {kernel_hash = \"\\") && a100.ends_with("\"}"), "{a100}");
        assert_eq!(with_hashes_for("no kernels", "H100"), "no kernels");
    }

    #[test]
    fn several_hosts_of_gpus_are_an_error() {
        let error = Topology::of_slices("h100:8", 2).unwrap_err().to_string();
        assert!(error.contains("2 × `h100:8`: a topology of GPUs has one host"), "{error}");
    }

    #[test]
    fn gpu_names_differ_from_tpu_names() {
        assert_eq!(parse_gpus("h100:8"), Some(("h100", 8)));
        assert_eq!(parse_gpus("a100"), Some(("a100", 1)));
        assert_eq!(parse_gpus("rtx:1"), Some(("rtx", 1)));
        assert_eq!(parse_gpus("v100:2"), Some(("v100", 2)));
        for tpu in ["v5e:4x4", "v5e:1", "v5p:2x2x1", "7x:2x2x1", "tpu7x:2x2x1", "7x", "h100:many"] {
            assert_eq!(parse_gpus(tpu), None, "{tpu}");
        }
    }
}
