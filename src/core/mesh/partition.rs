//! [`PartitionSpec`] and [`NamedSharding`]: how an array lies on a mesh.

use crate::core::error::throw;
use crate::core::error::{Error, Loc, RuleError, RuleResult};
use crate::core::mesh::device::Device;
use crate::core::mesh::mesh::Mesh;
use crate::core::types::shape::Shape;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Along which axes of a mesh one axis of an array is cut: none, one, or several as one, the first varying slowest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AxisSpec(pub Vec<String>);

impl From<&str> for AxisSpec {
    fn from(name: &str) -> AxisSpec {
        AxisSpec(vec![name.into()])
    }
}

impl From<String> for AxisSpec {
    fn from(name: String) -> AxisSpec {
        AxisSpec(vec![name])
    }
}

impl From<&String> for AxisSpec {
    fn from(name: &String) -> AxisSpec {
        AxisSpec(vec![name.clone()])
    }
}

impl<T: Into<AxisSpec>> From<Option<T>> for AxisSpec {
    fn from(name: Option<T>) -> AxisSpec {
        name.map(Into::into).unwrap_or_default()
    }
}

impl<const N: usize> From<[&str; N]> for AxisSpec {
    fn from(names: [&str; N]) -> AxisSpec {
        AxisSpec(names.iter().map(ToString::to_string).collect())
    }
}

impl From<(&str, &str)> for AxisSpec {
    fn from((outer, inner): (&str, &str)) -> AxisSpec {
        AxisSpec::from([outer, inner])
    }
}

impl From<Vec<String>> for AxisSpec {
    fn from(names: Vec<String>) -> AxisSpec {
        AxisSpec(names)
    }
}

impl fmt::Display for AxisSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => f.write_str("None"),
            [one] => write!(f, "{one:?}"),
            many => write!(f, "{many:?}"),
        }
    }
}

/// For each axis of an array, the axes of a mesh along which it is cut. Axes behind the last entry are not cut.
///
/// Written with [`p!`](crate::p): `p!["data", None]` cuts the first axis along `data`,
/// `p![["data", "model"]]` cuts it along both, `p![]` leaves the array whole on every device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[doc(alias = "P")]
pub struct PartitionSpec(pub Vec<AxisSpec>);

impl PartitionSpec {
    /// The whole array on every device.
    pub fn replicated() -> PartitionSpec {
        PartitionSpec::default()
    }

    /// Along what axis `at` of the array is cut.
    pub fn along(&self, at: usize) -> &[String] {
        self.0.get(at).map(|axis| axis.0.as_slice()).unwrap_or_default()
    }

    /// All axes of the mesh that it speaks of, in order.
    pub fn mentioned(&self) -> impl Iterator<Item = &String> {
        self.0.iter().flat_map(|axis| &axis.0)
    }

    /// The same array with one axis more, at `at`, which is not cut.
    pub(crate) fn with_axis(&self, at: usize) -> PartitionSpec {
        let mut axes = self.0.clone();
        axes.resize(axes.len().max(at), AxisSpec::default());
        axes.insert(at, AxisSpec::default());
        PartitionSpec(axes).trimmed()
    }

    /// Without what says nothing at its end.
    fn trimmed(mut self) -> PartitionSpec {
        while self.0.last().is_some_and(|axis| axis.0.is_empty()) {
            self.0.pop();
        }
        self
    }

    /// Whether it can be said of arrays on this mesh.
    ///
    /// # Errors
    /// `Value` if an axis is not in the mesh or comes twice.
    pub(crate) fn check(&self, mesh: &Mesh) -> RuleResult<()> {
        let names: Vec<&String> = self.mentioned().collect();
        for (at, name) in names.iter().enumerate() {
            if mesh.size(name).is_none() {
                return Err(RuleError::value(format!(
                    "{self} names the axis `{name}`, {mesh} has none"
                ))
                .help("the axes of a spec are those of its mesh"));
            }
            if names[..at].contains(name) {
                return Err(RuleError::value(format!("{self} names the axis `{name}` twice"))
                    .help("an axis of the mesh can cut one axis of an array only"));
            }
        }
        Ok(())
    }

    /// The shape of one shard of an array.
    ///
    /// # Errors
    /// `Value` as [`PartitionSpec::check`]; `Shape` if the array has fewer axes than the spec, or one that cannot be cut
    /// into equal parts.
    pub(crate) fn shard_shape(&self, mesh: &Mesh, shape: &Shape) -> RuleResult<Shape> {
        self.check(mesh)?;
        if self.0.len() > shape.rank() {
            let (n, rank) = (self.0.len(), shape.rank());
            return Err(RuleError::shape(format!("{self} speaks of {n} axes, {shape} has {rank}")));
        }
        let mut dims = shape.to_vec();
        for (at, axis) in self.0.iter().enumerate() {
            let parts = mesh.count(&axis.0);
            if !dims[at].is_multiple_of(parts) {
                let size = dims[at];
                let along: Vec<String> = axis.0.iter().map(|name| format!("`{name}`")).collect();
                let along = along.join(", ");
                let fit = [size / parts * parts, size.next_multiple_of(parts)];
                return Err(RuleError::shape(format!(
                    "axis {at} of {shape} has size {size}, which is not divisible by the size {parts} of {along} \
                     in {mesh}"
                ))
                .help(match fit {
                    [0, more] => format!("pad it to {more}, or leave the axis whole: `None` in {self}"),
                    [less, more] => format!("{less} or {more} would do, or `None` in {self}"),
                }));
            }
            dims[at] /= parts;
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

/// A [`PartitionSpec`]: for each axis of an array the axes of the mesh that cut it, `None` for those left whole.
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
    (@axis $axis:expr) => { $crate::core::AxisSpec::from($axis) };
    ($($axis:tt),* $(,)?) => {
        $crate::core::PartitionSpec(::std::vec![$($crate::p!(@axis $axis)),*])
    };
}

/// How an array lies on the devices of a mesh: which axes of the mesh cut which of its axes. Along the others every
/// device has the same.
///
/// Two are equal if they say the same of every array: entries that cut nothing do not count.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Cut", into = "Cut")]
pub struct NamedSharding(Arc<Cut>);

// Shared, because every result of a program has one, and calls compare them.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Cut {
    mesh: Mesh,
    spec: PartitionSpec,
}

impl From<Cut> for NamedSharding {
    fn from(cut: Cut) -> NamedSharding {
        NamedSharding(Arc::new(cut))
    }
}

impl From<NamedSharding> for Cut {
    fn from(sharding: NamedSharding) -> Cut {
        (*sharding.0).clone()
    }
}

impl NamedSharding {
    /// Arrays on this mesh, cut so.
    ///
    /// # Errors
    /// [`Error::Op`] (value) if the spec names an axis that the mesh does not have, or one twice.
    #[track_caller]
    pub fn new(mesh: &Mesh, spec: PartitionSpec) -> Result<NamedSharding, Error> {
        let loc = Loc::caller();
        NamedSharding::checked(mesh, spec)
            .map_err(|error| throw::rule_error("NamedSharding", error, loc))
    }

    /// The same, as a rule says it.
    ///
    /// # Errors
    /// `Value` as [`PartitionSpec::check`].
    pub(crate) fn checked(mesh: &Mesh, spec: PartitionSpec) -> RuleResult<NamedSharding> {
        spec.check(mesh)?;
        Ok(Cut { mesh: mesh.clone(), spec: spec.trimmed() }.into())
    }

    /// The whole array on every device of a mesh.
    pub fn replicated(mesh: &Mesh) -> NamedSharding {
        Cut { mesh: mesh.clone(), spec: PartitionSpec::replicated() }.into()
    }

    /// The mesh.
    pub fn mesh(&self) -> &Mesh {
        &self.0.mesh
    }

    /// Which axes of the mesh cut which axes of the array.
    pub fn spec(&self) -> &PartitionSpec {
        &self.0.spec
    }

    /// Whether every device has the whole array.
    #[doc(alias = "is_fully_replicated")]
    pub fn is_replicated(&self) -> bool {
        self.spec().mentioned().all(|name| self.mesh().size(name) == Some(1))
    }

    /// The shape of the part that each device has of an array of shape `shape`.
    ///
    /// # Errors
    /// [`Error::Op`] (shape) if the array has too few axes, or one that cannot be cut into equal parts.
    #[track_caller]
    pub fn shard_shape(&self, shape: impl Into<Shape>) -> Result<Shape, Error> {
        let shape = shape.into();
        let loc = Loc::caller();
        let part = self.spec().shard_shape(self.mesh(), &shape);
        part.map_err(|error| throw::rule_error("sharding", error, loc))
    }

    /// Which part of an array of shape `shape` the device at `place` of the mesh has. The array must be divisible.
    pub(crate) fn part(&self, place: usize, shape: &Shape) -> Vec<Range<usize>> {
        let along = |(at, &size): (usize, &usize)| {
            let axes = self.spec().along(at);
            let parts = self.mesh().count(axes);
            let (each, index) = (size / parts, self.mesh().position(place, axes));
            index * each..(index + 1) * each
        };
        shape.iter().enumerate().map(along).collect()
    }

    /// The devices, in the order of the mesh.
    pub fn devices(&self) -> &[Device] {
        self.mesh().devices()
    }

    /// The same of an array with one axis more, at `at`, which is not cut.
    pub(crate) fn with_axis(&self, at: usize) -> NamedSharding {
        Cut { mesh: self.mesh().clone(), spec: self.spec().with_axis(at) }.into()
    }
}

impl fmt::Display for NamedSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.spec(), self.mesh())
    }
}

impl fmt::Debug for NamedSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Mesh {
    /// Arrays on this mesh, cut so: short for [`NamedSharding::new`].
    ///
    /// # Errors
    /// As [`NamedSharding::new`].
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?;
    /// let x = device_put(&zeros([8, 6], DType::F32), mesh.sharding(p!["data", "model"])?)?;
    /// assert_eq!(x.addressable_shards()?[0].data.shape().dims(), [2, 3]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn sharding(&self, spec: PartitionSpec) -> Result<NamedSharding, Error> {
        NamedSharding::new(self, spec)
    }

    /// Arrays that every device of this mesh has whole.
    pub fn replicated(&self) -> NamedSharding {
        NamedSharding::replicated(self)
    }
}

/// What is wrong with a sharding for the leaf at `path`, as an error of `function`.
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
    fn shards_and_their_places() {
        let sharding = mesh().sharding(p!["model", ["data"]]).unwrap();
        assert_eq!(sharding.shard_shape([4, 8]).unwrap().dims(), [2, 2]);
        assert_eq!(sharding.part(3, &Shape::new(&[4, 8])), [2..4, 2..4]);
        let both = mesh().sharding(p![["model", "data"]]).unwrap();
        assert_eq!(both.part(1, &Shape::new(&[8]))[0], 4..5);
        assert_eq!(both.part(2, &Shape::new(&[8]))[0], 1..2);
        assert_eq!(mesh().sharding(p![None, None]).unwrap(), mesh().replicated());
        assert_eq!(p!["data"].with_axis(0), p![None, "data"]);
        assert_eq!(p!["data"].with_axis(3), p!["data"]);
    }

    #[test]
    fn what_does_not_fit() {
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
    }
}
