//! Shardings of Shardy, for programs that translate operations.

use crate::entries::{Attribute, AttributeId};
use crate::error::Result;
use crate::module::PortableArtifact;
use crate::shardy::{Shardy, TensorSharding};
use crate::view::VhloOperation;

/// An axis of a mesh, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardingAxis<'m> {
    /// The name of the axis.
    pub name: &'m str,
    /// The product of the sizes before the part, and its size; `None` for the whole axis.
    pub part: Option<(i64, i64)>,
}

/// The sharding of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArraySharding<'m> {
    /// The axes of the mesh.
    pub mesh: Vec<(&'m str, u64)>,
    /// The axes over which each dimension is split.
    pub dimensions: Vec<Vec<ShardingAxis<'m>>>,
    /// True for each dimension that the compiler may split further.
    pub open: Vec<bool>,
}

impl PortableArtifact {
    /// Returns the axes of a mesh that is an attribute.
    pub(crate) fn axes_of_mesh(&self, id: AttributeId) -> Result<Vec<(&str, u64)>> {
        let Attribute::Shardy(Shardy::Mesh(axes, _)) = self.attribute(id)? else {
            return Err(self.error("a mesh does not list axes"));
        };
        let axes = axes.iter().map(|axis| match self.attribute(*axis)? {
            Attribute::Shardy(Shardy::MeshAxis(name, size)) => {
                let size = u64::try_from(*size);
                let size = size.map_err(|_| self.error("a mesh has a negative size"))?;
                Ok((name.as_str(), size))
            }
            other => Err(self.error(format!("{other:?} is not an axis of a mesh"))),
        });
        axes.collect()
    }

    /// Returns the axes of a mesh, which is an attribute or the name of one of the module.
    fn mesh_axes(&self, id: AttributeId) -> Result<Vec<(&str, u64)>> {
        let Attribute::Symbol(name) = self.attribute(id)? else { return self.axes_of_mesh(id) };
        let Attribute::String(name) = self.attribute(*name)? else {
            return Err(self.error("the name of a mesh is not text"));
        };
        let missing = || self.error(format!("there is no mesh `{name}`"));
        self.meshes()?.remove(name.as_str()).ok_or_else(missing)
    }

    fn array_sharding(&self, id: AttributeId) -> Result<ArraySharding<'_>> {
        let Attribute::Shardy(Shardy::Tensor(sharding)) = self.attribute(id)? else {
            return Err(self.error("a sharding is not that of an array"));
        };
        let TensorSharding { mesh, dimensions, .. } = sharding;
        let mut found =
            ArraySharding { mesh: self.mesh_axes(*mesh)?, dimensions: vec![], open: vec![] };
        for dimension in dimensions {
            let Attribute::Shardy(Shardy::Dimension(axes, is_closed, _)) =
                self.attribute(*dimension)?
            else {
                return Err(self.error("a dimension has no sharding"));
            };
            let axes = axes.iter().map(|axis| {
                let Attribute::Shardy(Shardy::AxisRef(name, part)) = self.attribute(*axis)? else {
                    return Err(self.error("a sharding names something else than an axis"));
                };
                let part = match part.map(|part| self.attribute(part)).transpose()? {
                    None => None,
                    Some(Attribute::Shardy(Shardy::SubAxis(before, size))) => {
                        Some((*before, *size))
                    }
                    Some(_) => return Err(self.error("a part of an axis is something else")),
                };
                Ok(ShardingAxis { name, part })
            });
            found.dimensions.push(axes.collect::<Result<_>>()?);
            found.open.push(!is_closed);
        }
        Ok(found)
    }
}

impl<'m> VhloOperation<'m> {
    /// Returns the sharding in an attribute; `None` if the operation does not have it.
    ///
    /// # Errors
    /// The attribute is not a sharding.
    pub fn sharding(self, name: &str) -> Result<Option<ArraySharding<'m>>> {
        let id = self.attribute_id(name);
        id.map(|id| self.module().array_sharding(id)).transpose()
    }

    /// Returns the shardings of several values in an attribute; none if the operation does not have
    /// it.
    ///
    /// # Errors
    /// The attribute is not a list of shardings.
    pub fn shardings(self, name: &str) -> Result<Vec<ArraySharding<'m>>> {
        let Some(id) = self.attribute_id(name) else { return Ok(Vec::new()) };
        let Attribute::Shardy(Shardy::PerValue(each)) = self.module().attribute(id)? else {
            return Err(self.error(format!("`{name}` is not a list of shardings")));
        };
        each.iter().map(|id| self.module().array_sharding(*id)).collect()
    }

    /// Returns the axes that a manual computation handles itself.
    ///
    /// # Errors
    /// The operation does not name any.
    pub fn manual_axes(self) -> Result<Vec<&'m str>> {
        let missing = || self.error("it does not name its manual axes");
        let id = self.attribute_id("manual_axes").ok_or_else(missing)?;
        let Attribute::Shardy(Shardy::ManualAxes(names)) = self.module().attribute(id)? else {
            return Err(missing());
        };
        let names = names.iter().map(|name| match self.module().attribute(*name)? {
            Attribute::String(name) => Ok(name.as_str()),
            _ => Err(missing()),
        });
        names.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::{Block, Operation};

    #[test]
    fn a_mesh_that_names_itself_is_refused() {
        let mesh = Operation {
            name: "sdy.mesh".to_owned(),
            properties: vec![("mesh", 1), ("sym_name", 0)],
            ..Operation::default()
        };
        let body = Block { operations: vec![mesh], ..Block::default() };
        let artifact = PortableArtifact {
            producer: String::new(),
            types: Vec::new(),
            attributes: vec![Attribute::String("mesh".to_owned()), Attribute::Symbol(0)],
            root: Operation { regions: vec![body], ..Operation::default() },
            bytes: 0,
        };
        let error = artifact.meshes().unwrap_err().to_string();
        assert!(error.contains("a mesh does not list axes"), "{error}");
    }
}
