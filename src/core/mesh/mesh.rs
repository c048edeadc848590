//! [`Mesh`]: a grid of devices with named axes.

use crate::core::error::loc::Loc;
use crate::core::error::throw;
use crate::core::error::{Error, OpErrorKind};
use crate::core::mesh::axis_type::AxisType;
use crate::core::mesh::device::Device;
use crate::core::mesh::torus;
use crate::core::scoped::scoped;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

/// A grid of devices with named axes, on which programs for several devices run.
///
/// Cheap to clone. Two meshes are equal if their axes, the types of these and the devices are.
/// Prints as `Mesh(data=4, model=2)`.
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?;
/// assert_eq!(mesh.size("data"), Some(4));
/// let batches = mesh.sharding(p!["data", None])?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Grid", into = "Grid")]
pub struct Mesh(Arc<Grid>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Grid {
    axes: Vec<(String, usize)>,
    devices: Vec<Device>,
    /// The type of each axis; empty if all are `Auto`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    axis_types: Vec<AxisType>,
}

scoped!(
    /// The devices of meshes that are read, by number, instead of those in the text.
    static STAND_INS: Option<Arc<[Device]>> = None
);

/// Runs `f` with the devices of every mesh that is read replaced by those of `devices` with the
/// same numbers.
pub(crate) fn with_stand_ins<R>(devices: Arc<[Device]>, f: impl FnOnce() -> R) -> R {
    STAND_INS.scope(Some(devices), f)
}

impl TryFrom<Grid> for Mesh {
    type Error = String;
    fn try_from(mut grid: Grid) -> Result<Mesh, String> {
        grid.check()?;
        if let Some(stand_ins) = STAND_INS.get() {
            for device in &mut grid.devices {
                let number = usize::try_from(device.id().0).ok();
                let stand_in = number.and_then(|number| stand_ins.get(number));
                let count = stand_ins.len();
                *device = stand_in
                    .ok_or_else(|| format!("a mesh has {device}, and there are {count} devices"))?
                    .clone();
            }
        }
        Ok(Mesh(Arc::new(grid)))
    }
}

impl From<Mesh> for Grid {
    fn from(mesh: Mesh) -> Grid {
        (*mesh.0).clone()
    }
}

impl Grid {
    fn check(&self) -> Result<(), String> {
        if self.axes.is_empty() {
            return Err("a mesh needs at least one axis".into());
        }
        for (index, (name, size)) in self.axes.iter().enumerate() {
            if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || "_-.:".contains(c)) {
                return Err(format!("`{name}` is not a valid name for an axis of a mesh"));
            }
            if self.axes[..index].iter().any(|(other, _)| other == name) {
                return Err(format!("the axis `{name}` is named twice"));
            }
            if *size == 0 {
                return Err(format!("the axis `{name}` has size 0"));
            }
        }
        if !self.axis_types.is_empty() && self.axis_types.len() != self.axes.len() {
            let (types, axes) = (self.axis_types.len(), self.axes.len());
            return Err(format!("{types} axis types are given for {axes} axes"));
        }
        let sizes: Vec<String> = self.axes.iter().map(|(name, n)| format!("{name}={n}")).collect();
        let needed = self.axes.iter().try_fold(1usize, |n, (_, size)| n.checked_mul(*size));
        if needed != Some(self.devices.len()) {
            let needed = needed.map_or("too many".into(), |needed| needed.to_string());
            let (sizes, count) = (sizes.join(", "), self.devices.len());
            return Err(format!("a mesh of {sizes} has {needed} devices, got {count}"));
        }
        let mut seen = HashSet::new();
        for device in &self.devices {
            if !seen.insert(device.id()) {
                return Err(format!("{device} occurs twice"));
            }
            if device.platform() != self.devices[0].platform() {
                let (first, platform) = (&self.devices[0], device.platform());
                return Err(format!(
                    "{first} and {device} ({platform}) are of different platforms"
                ));
            }
        }
        Ok(())
    }
}

/// Returns devices of one slice in the order of their coordinates, or in their own if they do not
/// have any or their number differs from that of the mesh.
fn in_torus_order(devices: &[Device], sizes: &[usize]) -> Vec<Device> {
    let count = sizes.iter().try_fold(1_usize, |count, &size| count.checked_mul(size));
    let fits = count == Some(devices.len());
    match fits.then(|| torus::order(devices, sizes)).flatten() {
        Some(order) => order.into_iter().map(|index| devices[index].clone()).collect(),
        None => devices.to_vec(),
    }
}

impl Mesh {
    /// Arranges devices in row-major order: the last axis varies fastest.
    ///
    /// Neighbours along the last axis should have the fastest links. Use it for the axis with the
    /// most communication, for example tensor parallelism rather than data parallelism.
    ///
    /// # Errors
    /// [`Error::Op`] (value) if the product of the sizes differs from the number of devices, a name
    /// or a device occurs twice, or a size is 0.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::new(&devices()?[..4], [("data", 4)])?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn new<S: Into<String>>(
        devices: impl AsRef<[Device]>,
        axes: impl IntoIterator<Item = (S, usize)>,
    ) -> Result<Mesh, Error> {
        let axes = axes.into_iter().map(|(name, size)| (name.into(), size)).collect();
        let grid = Grid { axes, devices: devices.as_ref().to_vec(), axis_types: Vec::new() };
        match Mesh::try_from(grid) {
            Ok(mesh) => Ok(mesh),
            Err(message) => {
                let error = throw::op_error(OpErrorKind::Value, "Mesh", message, Loc::caller());
                Err(error.with_help(
                    "`devices()?` lists the devices; `OXIDAX_CPU_DEVICES=8` shows eight on a CPU",
                ))
            }
        }
    }

    /// Arranges devices like [`Mesh::new`], in an order in which the devices along an axis are
    /// neighbours in their TPU slice. [`make_mesh`](crate::parallel::make_mesh()) does this for the
    /// devices of the process.
    ///
    /// The order is that of JAX. Each mesh axis takes whole axes of the slice if possible, and
    /// parts of them otherwise. The last axis chooses first: use it for the most communication.
    /// Devices without coordinates keep their order.
    ///
    /// # Errors
    /// [`Error::Op`] (value) if the devices belong to several TPU slices. Otherwise as
    /// [`Mesh::new`].
    ///
    /// ```no_run
    /// use oxidax::parallel::Topology;
    /// use oxidax::prelude::*;
    /// let slice = Topology::named("v4:4x4x4")?;
    /// // `model` takes the plane of x and y, `data` the axis z.
    /// let mesh = Mesh::by_coordinates(slice.devices(), [("data", 4), ("model", 16)])?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "create_device_mesh")]
    #[track_caller]
    pub fn by_coordinates<S: Into<String>>(
        devices: impl AsRef<[Device]>,
        axes: impl IntoIterator<Item = (S, usize)>,
    ) -> Result<Mesh, Error> {
        let devices = devices.as_ref();
        let axes: Vec<(String, usize)> =
            axes.into_iter().map(|(name, size)| (name.into(), size)).collect();
        let slices: BTreeSet<i64> = devices.iter().map(Device::slice_index).collect();
        // Devices without coordinates, such as GPUs, keep their order in any number of slices.
        let is_torus = devices.iter().any(|device| !device.coordinates().is_empty());
        if slices.len() > 1 && is_torus {
            let message = format!("the devices belong to {} slices", slices.len());
            let error =
                throw::op_error(OpErrorKind::Value, "by_coordinates", message, Loc::caller());
            return Err(error.with_help("arrange devices of several slices with `across_slices`"));
        }
        let sizes: Vec<usize> = axes.iter().map(|(_, size)| *size).collect();
        Mesh::new(in_torus_order(devices, &sizes), axes)
    }

    /// Arranges devices of several TPU slices or hosts. Devices along the axes `across` belong to
    /// different slices, connected by the slow data centre network. Devices along the axes `within`
    /// belong to one slice. Without slices, the devices of each process count as one slice.
    ///
    /// Use the axes `across` for the least communication, for example data parallelism. The devices
    /// of a slice are ordered as by [`Mesh::by_coordinates`].
    ///
    /// # Errors
    /// [`Error::Op`] (value) if the number of slices differs from `across`, or their size from
    /// `within`. Otherwise as [`Mesh::new`].
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let within_slice = [("data", 16), ("model", 16)];
    /// let mesh = Mesh::across_slices(devices()?, [("replica", 2)], within_slice)?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "create_hybrid_device_mesh")]
    #[track_caller]
    pub fn across_slices<S: Into<String>, T: Into<String>>(
        devices: impl AsRef<[Device]>,
        across: impl IntoIterator<Item = (S, usize)>,
        within: impl IntoIterator<Item = (T, usize)>,
    ) -> Result<Mesh, Error> {
        let across: Vec<(String, usize)> =
            across.into_iter().map(|(name, size)| (name.into(), size)).collect();
        let within: Vec<(String, usize)> =
            within.into_iter().map(|(name, size)| (name.into(), size)).collect();
        let mut devices = devices.as_ref().to_vec();
        let has_slices = devices.iter().any(|device| device.slice_index() != 0);
        let slice = |device: &Device| {
            if has_slices { device.slice_index() } else { i64::from(device.process_index()) }
        };
        devices.sort_by_key(slice);
        let mut sizes: Vec<(i64, usize)> = Vec::new();
        for device in &devices {
            match sizes.last_mut() {
                Some((last, size)) if *last == slice(device) => *size += 1,
                _ => sizes.push((slice(device), 1)),
            }
        }
        let n_slices: usize = across.iter().map(|(_, size)| size).product();
        let slice_size: usize = within.iter().map(|(_, size)| size).product();
        if sizes.len() != n_slices || sizes.iter().any(|(_, size)| *size != slice_size) {
            let listed: Vec<String> = sizes.iter().map(|(id, n)| format!("{id}: {n}")).collect();
            let unit = if has_slices { "slices" } else { "processes" };
            let message = format!(
                "expected {n_slices} {unit} of {slice_size} devices, there are {} ({unit} and \
                 their devices: {})",
                sizes.len(),
                listed.join(", ")
            );
            let loc = Loc::caller();
            return Err(throw::op_error(OpErrorKind::Value, "across_slices", message, loc));
        }
        let sizes: Vec<usize> = within.iter().map(|(_, size)| *size).collect();
        let slices = devices.chunks(slice_size.max(1));
        let devices: Vec<Device> = slices.flat_map(|slice| in_torus_order(slice, &sizes)).collect();
        Mesh::new(devices, across.into_iter().chain(within))
    }

    /// Creates a mesh of absent devices with ids from 0, to trace and lower programs for another
    /// machine. It stores no arrays and runs no programs.
    ///
    /// # Errors
    /// As [`Mesh::new`].
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::without_devices([("data", 64), ("model", 4)])?;
    /// let rows = mesh.sharding(p!["data"])?;
    /// let f = jit(|x: Array| tanh(&x)).in_shardings(&rows);
    /// let text = f.lower(Aval::new(DType::F32, [128, 8]))?.as_text("tpu")?;
    /// assert!(text.contains("sdy.sharding"));
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "AbstractMesh")]
    #[track_caller]
    pub fn without_devices<S: Into<String>>(
        axes: impl IntoIterator<Item = (S, usize)>,
    ) -> Result<Mesh, Error> {
        let axes: Vec<(String, usize)> =
            axes.into_iter().map(|(name, size)| (name.into(), size)).collect();
        let count = axes.iter().map(|(_, size)| size).product::<usize>().min(1 << 20) as i32;
        let devices: Vec<Device> =
            (0..count).map(|id| Device::new(id, 0, Device::ABSENT, "", false).absent()).collect();
        Mesh::new(devices, axes)
    }

    /// Returns the mesh with a type for each of its axes. By default all are
    /// [`Auto`](AxisType::Auto).
    ///
    /// # Errors
    /// [`Error::Op`] (value) if the number of types differs from that of the axes.
    #[track_caller]
    pub fn with_axis_types(
        &self,
        axis_types: impl IntoIterator<Item = AxisType>,
    ) -> Result<Mesh, Error> {
        let mut axis_types: Vec<AxisType> = axis_types.into_iter().collect();
        if axis_types.len() == self.axes().len() && !axis_types.contains(&AxisType::Explicit) {
            axis_types.clear();
        }
        Mesh::try_from(Grid { axis_types, ..(*self.0).clone() }).map_err(|message| {
            throw::op_error(OpErrorKind::Value, "with_axis_types", message, Loc::caller())
        })
    }

    /// Returns the mesh with [`Explicit`](AxisType::Explicit) axes: the shardings of arrays over it
    /// are part of their types.
    ///
    /// ```
    /// # oxidax::parallel::set_cpu_devices(8)?;
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?.explicit();
    /// let x = device_put(&ones([8, 6]), mesh.sharding(p!["data", "model"])?)?;
    /// let w = device_put(&ones([6]), mesh.sharding(p!["model"])?)?;
    /// assert_eq!((&x * &w).aval().to_string(), "f32[8@data,6@model]");
    /// assert_eq!(x.sum_axes(0).aval().to_string(), "f32[6@model]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn explicit(&self) -> Mesh {
        let axis_types = vec![AxisType::Explicit; self.axes().len()];
        Mesh(Arc::new(Grid { axis_types, ..(*self.0).clone() }))
    }

    /// Returns the type of an axis, or `None` if the mesh does not have it.
    pub fn axis_type(&self, axis: &str) -> Option<AxisType> {
        let index = self.axis_names().position(|name| name == axis)?;
        Some(self.0.axis_types.get(index).copied().unwrap_or_default())
    }

    /// Returns true if this is the name of an explicit axis.
    pub(crate) fn is_explicit(&self, axis: &str) -> bool {
        self.axis_type(axis) == Some(AxisType::Explicit)
    }

    /// Returns true if an axis is explicit.
    pub(crate) fn has_explicit_axes(&self) -> bool {
        self.0.axis_types.contains(&AxisType::Explicit)
    }

    /// Returns true if every axis is explicit.
    pub(crate) fn is_fully_explicit(&self) -> bool {
        self.has_explicit_axes() && !self.0.axis_types.contains(&AxisType::Auto)
    }

    /// Returns true if the devices are absent.
    pub(crate) fn is_absent(&self) -> bool {
        self.devices()[0].is_absent()
    }

    /// Returns name and size of the axes, outermost first.
    pub fn axes(&self) -> &[(String, usize)] {
        &self.0.axes
    }

    /// Returns the names of the axes, outermost first.
    pub fn axis_names(&self) -> impl Iterator<Item = &str> {
        self.0.axes.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the size of an axis, or `None` if the mesh does not have it.
    pub fn size(&self, axis: &str) -> Option<usize> {
        self.0.axes.iter().find(|(name, _)| name == axis).map(|(_, size)| *size)
    }

    /// Returns the devices in row-major order.
    pub fn devices(&self) -> &[Device] {
        &self.0.devices
    }

    /// Returns the index along each axis of the device with this ordinal in [`Mesh::devices`].
    pub fn coordinates(&self, mut ordinal: usize) -> Vec<usize> {
        let mut coordinates = vec![0; self.0.axes.len()];
        for (coordinate, (_, size)) in coordinates.iter_mut().zip(&self.0.axes).rev() {
            *coordinate = ordinal % size;
            ordinal /= size;
        }
        coordinates
    }

    /// Returns the product of the sizes of these axes, which is the number of shards.
    pub(crate) fn count(&self, axes: &[String]) -> usize {
        axes.iter().filter_map(|axis| self.size(axis)).product()
    }

    /// Returns the distance between the ordinals of neighbours along an axis.
    pub(crate) fn stride(&self, axis: &str) -> usize {
        let inner = self.0.axes.iter().rev().take_while(|(name, _)| name != axis);
        inner.map(|(_, size)| size).product()
    }

    /// Returns the index of a device along several axes combined into one. The first varies
    /// slowest.
    pub(crate) fn position(&self, ordinal: usize, axes: &[String]) -> usize {
        axes.iter().fold(0, |index, axis| {
            let size = self.size(axis).unwrap_or(1);
            index * size + ordinal / self.stride(axis) % size
        })
    }

    /// Groups the ordinals of the mesh along these axes. Members of a group differ along these axes
    /// only and are ordered by them. The first axis varies slowest.
    pub(crate) fn groups(&self, axes: &[String]) -> Vec<Vec<usize>> {
        let others: Vec<String> =
            self.axis_names().map(String::from).filter(|name| !axes.contains(name)).collect();
        let mut groups = vec![vec![0; self.count(axes)]; self.count(&others)];
        for ordinal in 0..self.devices().len() {
            groups[self.position(ordinal, &others)][self.position(ordinal, axes)] = ordinal;
        }
        groups
    }

    /// Returns true if both have the same devices in the same order, so that one program can use
    /// both.
    pub(crate) fn same_devices(&self, other: &Mesh) -> bool {
        self.devices() == other.devices()
    }

    /// Returns the part of the mesh whose devices belong to this process. An axis along which the
    /// process has one device has size 1.
    ///
    /// # Errors
    /// [`Error::Op`] (value) if the devices of this process are not a block of the mesh.
    ///
    /// ```
    /// # oxidax::parallel::set_cpu_devices(8)?;
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?;
    /// // One process has all devices.
    /// assert_eq!(mesh.local_mesh()?, mesh);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn local_mesh(&self) -> Result<Mesh, Error> {
        let ordinals = (0..self.devices().len()).filter(|&n| self.devices()[n].is_local());
        let ordinals: Vec<usize> = ordinals.collect();
        let sizes = (0..self.axes().len()).map(|axis| {
            let along: BTreeSet<usize> =
                ordinals.iter().map(|&ordinal| self.coordinates(ordinal)[axis]).collect();
            along.len()
        });
        let sizes: Vec<usize> = sizes.collect();
        if ordinals.is_empty() || sizes.iter().product::<usize>() != ordinals.len() {
            let message = format!(
                "the {} devices of this process are not a block of {self}; order the devices of \
                 the mesh by process",
                ordinals.len()
            );
            let loc = Loc::caller();
            return Err(throw::op_error(OpErrorKind::Value, "local_mesh", message, loc));
        }
        let names = self.axis_names().map(str::to_owned);
        let grid = Grid {
            axes: names.zip(sizes).collect(),
            devices: ordinals.iter().map(|&ordinal| self.devices()[ordinal].clone()).collect(),
            axis_types: self.0.axis_types.clone(),
        };
        Mesh::try_from(grid).map_err(|message| {
            throw::op_error(OpErrorKind::Value, "local_mesh", message, Loc::caller())
        })
    }

    /// Returns true if all devices belong to this process.
    pub(crate) fn is_local(&self) -> bool {
        self.devices().iter().all(Device::is_local)
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<String> = (self.0.axes.iter())
            .map(|(name, n)| match self.is_explicit(name) {
                true => format!("{name}={n} explicit"),
                false => format!("{name}={n}"),
            })
            .collect();
        write!(f, "Mesh({})", axes.join(", "))
    }
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh(axes: &[(&str, usize)]) -> Result<Mesh, Error> {
        let n = axes.iter().map(|(_, size)| size).product::<usize>() as i32;
        let devices: Vec<Device> = (0..n).map(|id| Device::new(id, 0, "cpu", "", true)).collect();
        Mesh::new(devices, axes.iter().copied())
    }

    #[test]
    fn groups_follow_axes() {
        let mesh = mesh(&[("a", 2), ("b", 3)]).unwrap();
        let along = |names: &[&str]| {
            mesh.groups(&names.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(along(&["a"]), [[0, 3], [1, 4], [2, 5]]);
        assert_eq!(along(&["b"]), [[0, 1, 2], [3, 4, 5]]);
        assert_eq!(along(&["a", "b"]), [[0, 1, 2, 3, 4, 5]]);
        assert_eq!(along(&["b", "a"]), [[0, 3, 1, 4, 2, 5]]);
        assert_eq!(mesh.coordinates(4), [1, 1]);
        assert_eq!(mesh.stride("a"), 3);
    }

    #[test]
    fn across_slices_makes_slices_an_axis() {
        let device = |id: i32, slice| Device::new(id, id / 2, "tpu", "", true).in_slice(slice);
        let devices = [device(0, 1), device(1, 0), device(2, 1), device(3, 0)];
        let mesh = Mesh::across_slices(&devices, [("replica", 2)], [("data", 2)]).unwrap();
        assert_eq!(
            mesh.devices().iter().map(|device| device.id().0).collect::<Vec<_>>(),
            [1, 3, 0, 2]
        );
        assert_eq!(mesh.to_string(), "Mesh(replica=2, data=2)");
        let error = Mesh::across_slices(&devices, [("replica", 4)], [("data", 1)]).unwrap_err();
        assert!(
            error.to_string().contains("there are 2 (slices and their devices: 0: 2, 1: 2)"),
            "{error}"
        );
        // Without slices, by process.
        let plain: Vec<Device> = (0..4).map(|id| device(id, 0)).collect();
        let mesh = Mesh::across_slices(&plain, [("host", 2)], [("data", 2)]).unwrap();
        assert_eq!(mesh.devices(), plain);
    }

    #[test]
    fn mesh_rejects_invalid_axes_and_devices() {
        let error = |axes: &[(&str, usize)]| mesh(axes).unwrap_err().to_string();
        assert!(error(&[("a", 2), ("a", 1)]).contains("named twice"));
        assert!(error(&[("a", 0)]).contains("size 0"));
        assert!(error(&[]).contains("at least one axis"));
        assert!(error(&[("a b", 2)]).contains("not a valid name"));
        let one = Device::new(0, 0, "cpu", "", true);
        let duplicate = Mesh::new([one.clone(), one.clone()], [("a", 2)]).unwrap_err().to_string();
        assert!(duplicate.contains("cpu:0 occurs twice"), "{duplicate}");
        let few = Mesh::new([one], [("a", 4), ("b", 2)]).unwrap_err().to_string();
        assert!(few.contains("a mesh of a=4, b=2 has 8 devices, got 1"), "{few}");
    }
}
