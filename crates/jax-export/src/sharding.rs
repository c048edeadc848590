//! [`Sharding`]: the layout of an argument or result over devices.

use crate::error::{Error, Result};
use crate::flatbuffer::Table;

/// The sharding of a leaf.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sharding {
    /// Axes of the array are split over axes of a mesh.
    Named {
        /// The mesh.
        mesh: MeshShape,
        /// The axes of the mesh over which each axis of the array is split. It may be shorter than
        /// the shape.
        spec: Vec<Vec<String>>,
        /// The axes of the mesh over which the array is a sum that has not been added up.
        unreduced: Vec<String>,
        /// The axes of the mesh over which the gradient of the array is such a sum.
        reduced: Vec<String>,
        /// The kind of memory, such as `pinned_host`.
        memory_kind: Option<String>,
    },
    /// A serialized `xla.OpSharding`, of a file before version 6.
    Hlo(Vec<u8>),
}

/// The axes of a mesh of devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct MeshShape {
    /// The axes.
    pub axes: Vec<MeshAxis>,
    /// The kind of devices, if the function was exported for one.
    pub device: Option<AbstractDevice>,
}

/// An axis of a mesh.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct MeshAxis {
    /// The name.
    pub name: String,
    /// The number of devices along it.
    pub size: u32,
    /// The place that decides how arrays are split along it.
    pub kind: MeshAxisType,
}

/// The place that decides how arrays are split along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MeshAxisType {
    /// The compiler.
    Auto,
    /// The types of arrays.
    Explicit,
    /// The program, in `shard_map`.
    Manual,
}

/// The kind of devices that a function was exported for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AbstractDevice {
    /// The kind, such as `TPU v5 lite`.
    pub kind: String,
    /// The number of cores, if it is stated.
    pub cores: Option<u32>,
    /// The platform, such as `tpu`. Files before version 11 do not have it.
    pub platform: Option<String>,
}

impl MeshShape {
    pub(crate) fn read(table: Table<'_>) -> Result<MeshShape> {
        let fail = |message: String| Err(Error::at(table.at(), message));
        let (sizes, names) = (table.u32s(0)?, table.texts(1)?);
        let kinds = table.bytes(2)?.unwrap_or_default();
        if sizes.len() != names.len() || sizes.len() != kinds.len() {
            let (sizes, names, kinds) = (sizes.len(), names.len(), kinds.len());
            return fail(format!("a mesh has {sizes} sizes, {names} names and {kinds} types"));
        }
        let mut axes = Vec::with_capacity(sizes.len());
        for ((size, name), kind) in sizes.into_iter().zip(names).zip(kinds) {
            let kind = match kind {
                1 => MeshAxisType::Auto,
                2 => MeshAxisType::Explicit,
                3 => MeshAxisType::Manual,
                other => return fail(format!("the type {other} of a mesh's axis is not known")),
            };
            axes.push(MeshAxis { name, size, kind });
        }
        let device = table.table(3)?.map(|device| {
            Ok(AbstractDevice {
                kind: device.text(0)?.unwrap_or_default(),
                cores: device.u32(1)?,
                platform: device.text(2)?,
            })
        });
        Ok(MeshShape { axes, device: device.transpose()? })
    }
}

impl Sharding {
    /// Reads a sharding of a file that has whole ones for each leaf; `None` if it is unspecified.
    pub(crate) fn read(
        table: Table<'_>,
        meshes: &[(MeshShape, usize)],
    ) -> Result<Option<Sharding>> {
        if let Some(named) = table.table(2)? {
            return Sharding::read_named(named, meshes).map(Some);
        }
        Ok(table.bytes(1)?.map(|bytes| Sharding::Hlo(bytes.to_vec())))
    }

    pub(crate) fn read_named(table: Table<'_>, meshes: &[(MeshShape, usize)]) -> Result<Sharding> {
        let missing = |what: &str| Error::at(table.at(), format!("a sharding has no {what}"));
        let mesh = match meshes {
            [] => MeshShape::read(table.table(0)?.ok_or_else(|| missing("mesh"))?)?,
            meshes => {
                let index = table.u32(3)?.unwrap_or(0) as usize;
                let missing = || Error::at(table.at(), format!("there is no mesh {index}"));
                table.copy(meshes.get(index).ok_or_else(missing)?)?
            }
        };
        let spec = table.table(1)?.ok_or_else(|| missing("partition spec"))?;
        let partitions = spec.tables(0)?.into_iter().map(|axis| axis.texts(0));
        Ok(Sharding::Named {
            mesh,
            spec: partitions.collect::<Result<_>>()?,
            reduced: spec.texts(1)?,
            unreduced: spec.texts(2)?,
            memory_kind: table.text(2)?,
        })
    }
}
