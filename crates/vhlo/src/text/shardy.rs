//! The text of Shardy's attributes. Source: `attrs.td` and `printers.cc` of
//! <https://github.com/openxla/shardy>.

use super::{Writer, quoted, write_to};
use crate::entries::{Attribute, AttributeId};
use crate::error::Result;
use crate::shardy::{Shardy, TensorSharding};

impl Writer<'_> {
    /// Returns the text of an attribute that stands alone.
    pub(super) fn shardy_text(&self, attribute: &Shardy) -> Result<String> {
        Ok(match attribute {
            Shardy::ManualAxes(names) => {
                let names = names.iter().map(|name| Ok(quoted(self.string(*name)?)));
                let names = names.collect::<Result<Vec<String>>>()?.join(", ");
                format!("#sdy<manual_axes{{{names}}}>")
            }
            Shardy::Mesh(axes, devices) => format!("#sdy.mesh{}", self.mesh_text(axes, devices)?),
            Shardy::Tensor(sharding) => format!("#sdy.sharding{}", self.sharding_text(sharding)?),
            Shardy::PerValue(shardings) => {
                let each = shardings.iter().map(|id| match self.attribute(*id)? {
                    Attribute::Shardy(Shardy::Tensor(sharding)) => self.sharding_text(sharding),
                    other => self.fail(format!("{other:?} is not a sharding")),
                });
                let each = each.collect::<Result<Vec<String>>>()?.join(", ");
                format!("#sdy.sharding_per_value<[{each}]>")
            }
            other => return self.fail(format!("{other:?} does not stand alone")),
        })
    }

    fn mesh_text(&self, axes: &[AttributeId], devices: &[i64]) -> Result<String> {
        self.spend(devices.len())?;
        let axes = axes.iter().map(|id| match self.attribute(*id)? {
            Attribute::Shardy(Shardy::MeshAxis(name, size)) => {
                self.spend(name.len())?;
                Ok(format!("{}={size}", quoted(name)))
            }
            other => self.fail(format!("{other:?} is not an axis of a mesh")),
        });
        let mut text = format!("<[{}]", axes.collect::<Result<Vec<String>>>()?.join(", "));
        if !devices.is_empty() {
            write_to(&mut text, format_args!(", device_ids={devices:?}"));
        }
        Ok(text + ">")
    }

    fn sharding_text(&self, sharding: &TensorSharding) -> Result<String> {
        let TensorSharding { mesh, dimensions, replicated, unreduced, reduction } = sharding;
        let mut text = match self.attribute(*mesh)? {
            Attribute::Symbol(name) => format!("<{}, [", self.symbol(*name)?),
            Attribute::Shardy(Shardy::Mesh(axes, devices)) => {
                format!("<mesh{}, [", self.mesh_text(axes, devices)?)
            }
            other => return self.fail(format!("{other:?} is not a mesh")),
        };
        let dimensions = dimensions.iter().map(|id| match self.attribute(*id)? {
            Attribute::Shardy(Shardy::Dimension(axes, is_closed, priority)) => {
                self.spend(0)?;
                let mut each = self.axes_text(axes)?;
                if !is_closed {
                    each.push("?".to_owned());
                }
                let priority = priority.map(|priority| format!("p{priority}")).unwrap_or_default();
                Ok(format!("{{{}}}{priority}", each.join(", ")))
            }
            other => self.fail(format!("{other:?} is not the sharding of a dimension")),
        });
        text += &dimensions.collect::<Result<Vec<String>>>()?.join(", ");
        text.push(']');
        let lists = [("replicated", "", replicated), ("unreduced", reduction, unreduced)];
        for (name, word, axes) in lists {
            if !axes.is_empty() {
                let axes = self.axes_text(axes)?.join(", ");
                write_to(&mut text, format_args!(", {name}={word}{{{axes}}}"));
            }
        }
        Ok(text + ">")
    }

    fn axes_text(&self, axes: &[AttributeId]) -> Result<Vec<String>> {
        let each = axes.iter().map(|id| match self.attribute(*id)? {
            Attribute::Shardy(Shardy::AxisRef(name, part)) => {
                self.spend(name.len())?;
                let Some(part) = part else { return Ok(quoted(name)) };
                match self.attribute(*part)? {
                    Attribute::Shardy(Shardy::SubAxis(before, size)) => {
                        Ok(format!("{}:({before}){size}", quoted(name)))
                    }
                    other => self.fail(format!("{other:?} is not a part of an axis")),
                }
            }
            other => self.fail(format!("{other:?} is not an axis")),
        });
        each.collect()
    }
}
