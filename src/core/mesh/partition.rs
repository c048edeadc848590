//! [`PartitionSpec`] and [`NamedSharding`]: the sharding of an array over a mesh.

use super::axis_spec::AxisSpec;
use crate::core::error::throw;
use crate::core::error::{Error, Loc, RuleError, RuleResult};
use crate::core::mesh::device::Device;
use crate::core::mesh::memory_kind::MemoryKind;
use crate::core::mesh::mesh::Mesh;
use crate::core::types::shape::Shape;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The mesh axes over which each axis of an array is sharded. Axes after the last entry are not
/// sharded.
///
/// Written with [`p!`](crate::p): `p!["data", None]` shards the first axis over `data`,
/// `p![["data", "model"]]` over both, and `p![]` replicates the array on every device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[doc(alias = "P")]
pub struct PartitionSpec(pub Vec<AxisSpec>);

impl PartitionSpec {
    /// Leaves an axis of an array open in
    /// [`with_sharding_constraint`](crate::parallel::with_sharding_constraint): the compiler
    /// chooses its sharding. `p!` accepts the name: `p![UNCONSTRAINED, "model"]`.
    ///
    /// Arrays that exist have a sharding for each axis. `device_put`, `in_shardings`,
    /// `out_shardings`, `shard_map` and the functions that create arrays refuse it.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let spec = PartitionSpec(vec![PartitionSpec::UNCONSTRAINED, "model".into()]);
    /// assert_eq!(spec, p![UNCONSTRAINED, "model"]);
    /// assert_eq!(spec.to_string(), r#"p![UNCONSTRAINED, "model"]"#);
    /// ```
    pub const UNCONSTRAINED: AxisSpec = AxisSpec::Unconstrained;

    /// Returns the sharding with the whole array on every device.
    pub fn replicated() -> PartitionSpec {
        PartitionSpec::default()
    }

    /// Returns the mesh axes over which axis `axis` of the array is sharded.
    pub fn along(&self, axis: usize) -> &[String] {
        self.0.get(axis).map(AxisSpec::names).unwrap_or_default()
    }

    /// Returns all mesh axes of the spec, in order.
    pub fn mentioned(&self) -> impl Iterator<Item = &String> {
        self.0.iter().flat_map(AxisSpec::names)
    }

    /// Returns the spec over these mesh axes alone.
    pub(crate) fn over(&self, axes: &[String]) -> PartitionSpec {
        let own = self.0.iter().map(|along| {
            let names = along.names().iter().filter(|name| axes.contains(name));
            AxisSpec::Axes(names.cloned().collect())
        });
        PartitionSpec(own.collect()).trimmed()
    }

    /// Returns true if axis `axis` of the array is [`PartitionSpec::UNCONSTRAINED`].
    pub fn is_unconstrained(&self, axis: usize) -> bool {
        self.0.get(axis) == Some(&PartitionSpec::UNCONSTRAINED)
    }

    /// Returns the spec with a new axis at index `axis`, which is sharded over `over`.
    pub(crate) fn with_axis_over(&self, axis: usize, over: &AxisSpec) -> PartitionSpec {
        let mut axes = self.0.clone();
        axes.resize(axes.len().max(axis), AxisSpec::default());
        axes.insert(axis, over.clone());
        PartitionSpec(axes).trimmed()
    }

    /// Returns the spec with unconstrained axes not sharded.
    pub(crate) fn constrained(&self) -> PartitionSpec {
        let axes = self.0.iter().map(|axis| AxisSpec::Axes(axis.names().to_vec()));
        PartitionSpec(axes.collect()).trimmed()
    }

    /// Removes empty entries at the end.
    fn trimmed(mut self) -> PartitionSpec {
        while self.0.last() == Some(&AxisSpec::default()) {
            self.0.pop();
        }
        self
    }

    /// Checks the spec against a mesh.
    ///
    /// # Errors
    /// `Value` if an axis is not in the mesh or occurs twice.
    pub(crate) fn check(&self, mesh: &Mesh) -> RuleResult<()> {
        let names: Vec<&String> = self.mentioned().collect();
        for (index, name) in names.iter().enumerate() {
            if mesh.size(name).is_none() {
                return Err(RuleError::value(format!(
                    "{self} names the axis `{name}`, {mesh} has none"
                ))
                .help("the axes of a spec are those of its mesh"));
            }
            if names[..index].contains(name) {
                return Err(RuleError::value(format!("{self} names the axis `{name}` twice"))
                    .help("a mesh axis can shard only one axis of an array"));
            }
        }
        Ok(())
    }

    /// Checks that every axis has a sharding.
    ///
    /// # Errors
    /// `Value` if an axis is unconstrained.
    pub(crate) fn check_constrained(&self) -> RuleResult<()> {
        match (0..self.0.len()).find(|&axis| self.is_unconstrained(axis)) {
            None => Ok(()),
            Some(axis) => Err(RuleError::value(format!("{self} leaves axis {axis} unconstrained"))
                .help(
                    "name the mesh axes that shard it, or `None`; `UNCONSTRAINED` is for \
                     `with_sharding_constraint` inside of `jit`",
                )),
        }
    }

    /// Checks the spec as a constraint on a value of shape `shape` inside a program. Axes may be
    /// unconstrained, and their sizes need not be divisible: the compiler pads the shards.
    ///
    /// # Errors
    /// `Value` as [`PartitionSpec::check`]. `Shape` if the array has fewer axes than the spec.
    pub(crate) fn check_constraint(&self, mesh: &Mesh, shape: &Shape) -> RuleResult<()> {
        self.check(mesh)?;
        if self.0.len() > shape.rank() {
            let (n, rank) = (self.0.len(), shape.rank());
            return Err(RuleError::shape(format!("{self} speaks of {n} axes, {shape} has {rank}")));
        }
        Ok(())
    }

    /// Returns the shape of one shard of an array.
    ///
    /// # Errors
    /// `Value` as [`PartitionSpec::check`], or if an axis is unconstrained. `Shape` if the array
    /// has fewer axes than the spec, or an axis is not divisible into equal shards.
    pub(crate) fn shard_shape(&self, mesh: &Mesh, shape: &Shape) -> RuleResult<Shape> {
        self.check_constraint(mesh, shape)?;
        self.check_constrained()?;
        let mut dims = shape.to_vec();
        for (index, axis) in self.0.iter().enumerate() {
            let parts = mesh.count(axis.names());
            let size = dims[index];
            if !size.is_multiple_of(parts) {
                let along: Vec<String> =
                    axis.names().iter().map(|name| format!("`{name}`")).collect();
                let along = along.join(", ");
                let fit = [size / parts * parts, size.next_multiple_of(parts)];
                return Err(RuleError::shape(format!(
                    "axis {index} of {shape} has size {size}, which is not divisible by the size \
                     {parts} of {along} in {mesh}"
                ))
                .help(match fit {
                    [0, more] => {
                        format!("pad it to {more}, or leave the axis whole: `None` in {self}")
                    }
                    [less, more] => format!("{less} or {more} would do, or `None` in {self}"),
                }));
            }
            dims[index] = size / parts;
        }
        Ok(Shape::from(dims))
    }
}

impl fmt::Display for PartitionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<String> = self.0.iter().map(AxisSpec::to_string).collect();
        write!(f, "p![{}]", axes.join(", "))
    }
}

/// Creates a [`PartitionSpec`]: the mesh axes that shard each axis of an array, `None` for axes
/// that are not sharded, and `UNCONSTRAINED` for axes that a constraint leaves to the compiler.
///
/// ```
/// use oxidax::prelude::*;
/// let spec: PartitionSpec = p!["data", None, ["model", "expert"]];
/// assert_eq!(spec.to_string(), r#"p!["data", None, ["model", "expert"]]"#);
/// assert_eq!(p![], PartitionSpec::replicated());
/// ```
#[macro_export]
macro_rules! p {
    (@axis None) => { $crate::core::AxisSpec::default() };
    (@axis UNCONSTRAINED) => { $crate::core::PartitionSpec::UNCONSTRAINED };
    (@axis $axis:expr) => { $crate::core::AxisSpec::from($axis) };
    ($($axis:tt),* $(,)?) => {
        $crate::core::PartitionSpec(::std::vec![$($crate::p!(@axis $axis)),*])
    };
}

/// A sharding of arrays over the devices of a mesh. The spec assigns mesh axes to array axes. Along
/// the other mesh axes the array is replicated.
///
/// Two shardings are equal if they shard every array alike, in the same memory. Empty entries do
/// not count.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "MeshSpec", into = "MeshSpec")]
pub struct NamedSharding(Arc<MeshSpec>);

// Shared, because every result of a program has one and calls compare them.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct MeshSpec {
    mesh: Mesh,
    spec: PartitionSpec,
    #[serde(default, skip_serializing_if = "is_device")]
    memory: MemoryKind,
}

fn is_device(memory: &MemoryKind) -> bool {
    *memory == MemoryKind::Device
}

impl MeshSpec {
    fn on_devices(mesh: &Mesh, spec: PartitionSpec) -> MeshSpec {
        MeshSpec { mesh: mesh.clone(), spec: spec.trimmed(), memory: MemoryKind::Device }
    }
}

impl From<MeshSpec> for NamedSharding {
    fn from(mesh_spec: MeshSpec) -> NamedSharding {
        NamedSharding(Arc::new(mesh_spec))
    }
}

impl From<NamedSharding> for MeshSpec {
    fn from(sharding: NamedSharding) -> MeshSpec {
        (*sharding.0).clone()
    }
}

impl NamedSharding {
    /// Creates a sharding.
    ///
    /// # Errors
    /// [`Error::Op`] (value) if the spec names an axis twice, or one that the mesh does not have.
    #[track_caller]
    pub fn new(mesh: &Mesh, spec: PartitionSpec) -> Result<NamedSharding, Error> {
        let loc = Loc::caller();
        NamedSharding::checked(mesh, spec)
            .map_err(|error| throw::rule_error("NamedSharding", error, loc))
    }

    /// Creates a sharding within a rule.
    ///
    /// # Errors
    /// `Value` as [`PartitionSpec::check`].
    pub(crate) fn checked(mesh: &Mesh, spec: PartitionSpec) -> RuleResult<NamedSharding> {
        spec.check(mesh)?;
        Ok(MeshSpec::on_devices(mesh, spec).into())
    }

    /// The whole array on every device of a mesh.
    pub fn replicated(mesh: &Mesh) -> NamedSharding {
        MeshSpec::on_devices(mesh, PartitionSpec::replicated()).into()
    }

    /// Returns the mesh.
    pub fn mesh(&self) -> &Mesh {
        &self.0.mesh
    }

    /// Returns the mesh axes of each array axis.
    pub fn spec(&self) -> &PartitionSpec {
        &self.0.spec
    }

    /// Returns the sharding with the shards in another memory of the devices.
    ///
    /// ```
    /// # oxidax::parallel::set_cpu_devices(8)?;
    /// use oxidax::prelude::*;
    /// let rows = Mesh::new(devices()?, [("data", 8)])?.sharding(p!["data"])?;
    /// let x = device_put(&ones([16]), rows.with_memory_kind(MemoryKind::PinnedHost))?;
    /// assert_eq!(x.aval().to_string(), "f32<pinned_host>[16]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn with_memory_kind(&self, memory: MemoryKind) -> NamedSharding {
        if memory == self.memory_kind() {
            return self.clone();
        }
        MeshSpec { memory, ..(*self.0).clone() }.into()
    }

    /// Returns the memory of the shards, by default the devices' own.
    pub fn memory_kind(&self) -> MemoryKind {
        self.0.memory
    }

    /// Returns the sharding over the explicit axes of the mesh, in the devices' own memory. `None`
    /// if no array axis is sharded over them.
    pub(crate) fn explicit_part(&self) -> Option<NamedSharding> {
        let mesh = self.mesh();
        if !mesh.has_explicit_axes() {
            return None;
        }
        let explicit = |axis: &AxisSpec| {
            let names = axis.names().iter().filter(|name| mesh.is_explicit(name));
            AxisSpec::Axes(names.cloned().collect())
        };
        let spec = PartitionSpec(self.spec().0.iter().map(explicit).collect()).trimmed();
        let is_sharded = !spec.0.is_empty();
        is_sharded.then(|| MeshSpec::on_devices(mesh, spec).into())
    }

    /// Returns the sharding of an array without axis `axis`. `None` if no axis remains sharded.
    pub(crate) fn without_axis(&self, axis: usize) -> Option<NamedSharding> {
        let mut axes = self.spec().0.clone();
        if axis < axes.len() {
            axes.remove(axis);
        }
        let spec = PartitionSpec(axes).trimmed();
        let is_sharded = !spec.0.is_empty();
        is_sharded.then(|| MeshSpec { spec, ..(*self.0).clone() }.into())
    }

    /// Returns the sharding over the mesh axes that are not among `names`. `None` if no array axis
    /// remains sharded.
    pub(crate) fn without_mesh_axes(&self, names: &[String]) -> Option<NamedSharding> {
        let remaining = |axis: &AxisSpec| {
            let own = axis.names().iter().filter(|name| !names.contains(name));
            AxisSpec::Axes(own.cloned().collect())
        };
        let spec = PartitionSpec(self.spec().0.iter().map(remaining).collect()).trimmed();
        let is_sharded = !spec.0.is_empty();
        is_sharded.then(|| MeshSpec { spec, ..(*self.0).clone() }.into())
    }

    /// Returns the sharding of an array whose axis `i` is axis `axes[i]` of this one.
    pub(crate) fn permuted(&self, axes: &[usize]) -> NamedSharding {
        let along = |&axis: &usize| self.spec().0.get(axis).cloned().unwrap_or_default();
        let spec = PartitionSpec(axes.iter().map(along).collect()).trimmed();
        MeshSpec { spec, ..(*self.0).clone() }.into()
    }

    /// Returns true if every device has the whole array. Unconstrained axes count as not sharded.
    #[doc(alias = "is_fully_replicated")]
    pub fn is_replicated(&self) -> bool {
        self.spec().mentioned().all(|name| self.mesh().size(name) == Some(1))
    }

    /// Returns the shape of each shard of an array of shape `shape`.
    ///
    /// # Errors
    /// [`Error::Op`] (shape) if the array has too few axes, or an axis is not divisible into equal
    /// shards; (value) if an axis is unconstrained.
    #[track_caller]
    pub fn shard_shape(&self, shape: impl Into<Shape>) -> Result<Shape, Error> {
        let shape = shape.into();
        let loc = Loc::caller();
        let part = self.spec().shard_shape(self.mesh(), &shape);
        part.map_err(|error| throw::rule_error("sharding", error, loc))
    }

    /// Returns the index ranges of the shard on the device with this ordinal in the mesh. The array
    /// of shape `shape` must be divisible.
    pub(crate) fn part(&self, ordinal: usize, shape: &Shape) -> Vec<Range<usize>> {
        let range = |(axis, &size): (usize, &usize)| {
            let axes = self.spec().along(axis);
            let shard_size = size / self.mesh().count(axes);
            let index = self.mesh().position(ordinal, axes);
            index * shard_size..(index + 1) * shard_size
        };
        shape.iter().enumerate().map(range).collect()
    }

    /// Returns the devices in the order of the mesh.
    pub fn devices(&self) -> &[Device] {
        self.mesh().devices()
    }

    /// Returns the sharding with a new axis at index `axis`, which is sharded over `over`.
    ///
    /// # Errors
    /// If the mesh does not have one of the axes, or the sharding uses it already.
    pub(crate) fn with_axis_over(&self, axis: usize, over: &AxisSpec) -> RuleResult<NamedSharding> {
        let spec = self.spec().with_axis_over(axis, over);
        spec.check(self.mesh())?;
        Ok(MeshSpec { spec, ..(*self.0).clone() }.into())
    }
}

impl fmt::Display for NamedSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.spec(), self.mesh())?;
        if self.memory_kind().is_host() {
            write!(f, " in {}", self.memory_kind())?;
        }
        Ok(())
    }
}

impl fmt::Debug for NamedSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Mesh {
    /// Creates a sharding over this mesh; see [`NamedSharding::new`].
    ///
    /// # Errors
    /// As [`NamedSharding::new`].
    ///
    /// ```
    /// # oxidax::parallel::set_cpu_devices(8)?;
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?;
    /// let x = device_put(&zeros([8, 6]), mesh.sharding(p!["data", "model"])?)?;
    /// assert_eq!(x.addressable_shards()?[0].data.shape().dims(), [2, 3]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn sharding(&self, spec: PartitionSpec) -> Result<NamedSharding, Error> {
        NamedSharding::new(self, spec)
    }

    /// Returns the sharding that replicates arrays on every device of this mesh.
    pub fn replicated(&self) -> NamedSharding {
        NamedSharding::replicated(self)
    }
}

/// Converts the error of a leaf's sharding to an error of `function` with the path of the leaf.
pub(crate) fn leaf_error(function: &str, path: &str, error: RuleError, loc: Loc) -> Error {
    let error = RuleError { message: format!("{path}: {}", error.message), ..error };
    throw::rule_error(function, error, loc)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh() -> Mesh {
        let devices: Vec<Device> = (0..8).map(|id| Device::new(id, 0, "cpu", "", true)).collect();
        Mesh::new(devices, [("data", 4), ("model", 2)]).unwrap()
    }

    #[test]
    fn shards_follow_the_spec() {
        let sharding = mesh().sharding(p!["model", ["data"]]).unwrap();
        assert_eq!(sharding.shard_shape([4, 8]).unwrap().dims(), [2, 2]);
        assert_eq!(sharding.part(3, &Shape::new(&[4, 8])), [2..4, 2..4]);
        let both = mesh().sharding(p![["model", "data"]]).unwrap();
        assert_eq!(both.part(1, &Shape::new(&[8]))[0], 4..5);
        assert_eq!(both.part(2, &Shape::new(&[8]))[0], 1..2);
        assert_eq!(mesh().sharding(p![None, None]).unwrap(), mesh().replicated());
        assert_eq!(p!["data"].with_axis_over(0, &AxisSpec::default()), p![None, "data"]);
        assert_eq!(p!["data"].with_axis_over(3, &AxisSpec::default()), p!["data"]);
        assert_eq!(p![None, UNCONSTRAINED].constrained(), p![]);
        let rows = mesh().sharding(p!["data"]).unwrap();
        let batched = rows.with_axis_over(2, &PartitionSpec::UNCONSTRAINED).unwrap();
        assert_eq!(*batched.spec(), p!["data", None, UNCONSTRAINED]);
    }

    #[test]
    fn invalid_specs_are_rejected() {
        let error = |spec: PartitionSpec, shape: &[usize]| {
            let sharding = mesh().sharding(spec);
            sharding.and_then(|sharding| sharding.shard_shape(shape)).unwrap_err().to_string()
        };
        let uneven = error(p!["data"], &[6]);
        assert!(
            uneven.contains(
                "axis 0 of [6] has size 6, which is not divisible by the size 4 of `data`"
            ),
            "{uneven}"
        );
        assert!(uneven.contains("4 or 8 would do"), "{uneven}");
        assert!(
            error(p!["batch"], &[8])
                .contains("names the axis `batch`, Mesh(data=4, model=2) has none")
        );
        assert!(error(p!["data", "data"], &[8, 8]).contains("`data` twice"));
        assert!(error(p!["data", "model"], &[8]).contains("speaks of 2 axes, [8] has 1"));
        let open = error(p!["data", UNCONSTRAINED], &[8, 8]);
        assert!(
            open.contains(r#"p!["data", UNCONSTRAINED] leaves axis 1 unconstrained"#),
            "{open}"
        );
    }
}
