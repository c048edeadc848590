//! The encodings of Shardy's attributes.

use super::encoder::Encoder;
use super::entries::{Dialect, Tables};
use crate::entries::{Attribute, AttributeId};
use crate::error::Result;
use crate::shardy::{Shardy, TensorSharding};

impl Tables<'_> {
    pub(super) fn shardy_attribute(&mut self, attribute: &Shardy, to: &mut Encoder) -> Result<()> {
        let builtin = Dialect::Builtin;
        match attribute {
            Shardy::ManualAxes(names) => {
                to.number(0);
                self.attribute_list(names, builtin, to)?;
            }
            Shardy::MeshAxis(name, size) => {
                to.number(1);
                to.index(self.string(name));
                to.signed(*size);
            }
            Shardy::Mesh(axes, devices) => {
                to.number(2);
                self.attribute_list(axes, builtin, to)?;
                to.signed_list(devices.iter().copied());
            }
            Shardy::SubAxis(before, size) => {
                to.number(3);
                to.signed(*before);
                to.signed(*size);
            }
            Shardy::AxisRef(name, part) => {
                let part = part.map(|part| self.attribute(part, builtin)).transpose()?;
                to.number(4);
                to.index(self.string(name));
                to.optional(part);
            }
            Shardy::Dimension(axes, is_closed, priority) => {
                to.number(5);
                self.attribute_list(axes, builtin, to)?;
                to.bytes.push((*is_closed).into());
                to.optional(*priority);
            }
            Shardy::Tensor(sharding) => {
                let TensorSharding { mesh, dimensions, replicated, unreduced, reduction } =
                    sharding;
                to.number(match (unreduced.is_empty(), *reduction) {
                    (true, _) => 6,
                    (false, "") => 15,
                    (false, _) => 17,
                });
                to.index(self.attribute(*mesh, builtin)?);
                self.attribute_list(dimensions, builtin, to)?;
                self.attribute_list(replicated, builtin, to)?;
                if !unreduced.is_empty() {
                    self.attribute_list(unreduced, builtin, to)?;
                    match *reduction {
                        "" => {}
                        reduction => to.signed(if reduction == "max" { 1 } else { 2 }),
                    }
                }
            }
            Shardy::PerValue(shardings) => {
                let is_unreduced = |id: &AttributeId| match self.module.attributes.get(*id) {
                    Some(Attribute::Shardy(Shardy::Tensor(each))) => !each.unreduced.is_empty(),
                    _ => false,
                };
                to.number(if shardings.iter().any(is_unreduced) { 16 } else { 7 });
                self.attribute_list(shardings, builtin, to)?;
            }
        }
        Ok(())
    }
}
