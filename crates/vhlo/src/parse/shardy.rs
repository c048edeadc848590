//! Attributes of Shardy. Source of their syntax: `parsers.cc` of
//! <https://github.com/openxla/shardy>.

use super::Parser;
use super::literal::Literal;
use super::scanner::Parsed;
use crate::entries::{Attribute, AttributeId};
use crate::shardy::{Shardy, TensorSharding};
use crate::version::VhloVersion;

impl Parser<'_> {
    fn shardy(&mut self, attribute: Shardy) -> AttributeId {
        self.need(VhloVersion::new(1, 11, 0), || "a sharding".to_owned());
        self.attribute(Attribute::Shardy(attribute))
    }

    /// Parses what follows `#sdy` or `#sdy.NAME`.
    pub(super) fn shardy_literal(&mut self, name: &str) -> Parsed<Literal> {
        let id = match name {
            "" => {
                self.scanner.expect("<")?;
                self.scanner.expect("manual_axes")?;
                self.scanner.expect("{")?;
                let mut names = Vec::new();
                while !self.scanner.is_end("}", names.is_empty())? {
                    let name = self.scanner.string()?;
                    names.push(self.attribute(Attribute::String(name)));
                }
                self.scanner.expect(">")?;
                self.shardy(Shardy::ManualAxes(names))
            }
            "mesh" => self.mesh()?,
            "sharding" => self.sharding()?,
            "sharding_per_value" => {
                self.scanner.expect("<")?;
                self.scanner.expect("[")?;
                let mut shardings = Vec::new();
                while !self.scanner.is_end("]", shardings.is_empty())? {
                    shardings.push(self.sharding()?);
                }
                self.scanner.expect(">")?;
                self.shardy(Shardy::PerValue(shardings))
            }
            other => return self.scanner.fail(format!("`#sdy.{other}` is not supported")),
        };
        Ok(Literal::Attribute(id))
    }

    /// Parses `<["data"=4, "model"=2], device_ids=[0, 1]>`.
    pub(super) fn mesh(&mut self) -> Parsed<AttributeId> {
        self.scanner.expect("<")?;
        self.scanner.expect("[")?;
        let (mut axes, mut devices) = (Vec::new(), Vec::new());
        while !self.scanner.is_end("]", axes.is_empty())? {
            let name = self.scanner.string()?;
            self.scanner.expect("=")?;
            let size = self.scanner.integer()?;
            axes.push(self.shardy(Shardy::MeshAxis(name, size)));
        }
        if self.scanner.eat(",") {
            self.scanner.expect("device_ids")?;
            self.scanner.expect("=")?;
            self.scanner.expect("[")?;
            while !self.scanner.is_end("]", devices.is_empty())? {
                devices.push(self.scanner.integer()?);
            }
        }
        self.scanner.expect(">")?;
        Ok(self.shardy(Shardy::Mesh(axes, devices)))
    }

    /// Parses `<@mesh, [{"data", ?}, {}p1], replicated={"model"}>`.
    fn sharding(&mut self) -> Parsed<AttributeId> {
        self.scanner.expect("<")?;
        let mesh = match self.scanner.eat("mesh") {
            true => self.mesh()?,
            false => {
                let name = self.scanner.symbol()?;
                let name = self.attribute(Attribute::String(name));
                self.attribute(Attribute::Symbol(name))
            }
        };
        self.scanner.expect(",")?;
        self.scanner.expect("[")?;
        let mut dimensions = Vec::new();
        while !self.scanner.is_end("]", dimensions.is_empty())? {
            dimensions.push(self.dimension_sharding()?);
        }
        let mut sharding = TensorSharding {
            mesh,
            dimensions,
            replicated: Vec::new(),
            unreduced: Vec::new(),
            reduction: "",
        };
        while !self.scanner.is_end(">", false)? {
            let is_replicated = self.scanner.eat("replicated");
            if !is_replicated {
                self.scanner.expect("unreduced")?;
            }
            self.scanner.expect("=")?;
            if self.scanner.eat("max") {
                sharding.reduction = "max";
            } else if self.scanner.eat("min") {
                sharding.reduction = "min";
            }
            self.scanner.expect("{")?;
            let mut axes = Vec::new();
            while !self.scanner.is_end("}", axes.is_empty())? {
                axes.push(self.axis()?);
            }
            match is_replicated {
                true => sharding.replicated = axes,
                false => sharding.unreduced = axes,
            }
        }
        Ok(self.shardy(Shardy::Tensor(sharding)))
    }

    fn dimension_sharding(&mut self) -> Parsed<AttributeId> {
        self.scanner.expect("{")?;
        let (mut axes, mut is_closed) = (Vec::new(), true);
        while !self.scanner.is_end("}", axes.is_empty() && is_closed)? {
            match self.scanner.eat("?") {
                true => is_closed = false,
                false => axes.push(self.axis()?),
            }
        }
        let priority = match self.scanner.eat_prefix("p") {
            true => match self.scanner.digits().and_then(|digits| digits.parse().ok()) {
                Some(priority) => Some(priority),
                None => return self.scanner.fail("expected a priority after `p`"),
            },
            false => None,
        };
        Ok(self.shardy(Shardy::Dimension(axes, is_closed, priority)))
    }

    /// Parses `"data"`, or the part `"data":(2)4` of an axis.
    fn axis(&mut self) -> Parsed<AttributeId> {
        let name = self.scanner.string()?;
        let part = match self.scanner.eat(":") {
            true => {
                self.scanner.expect("(")?;
                let before = self.scanner.integer()?;
                self.scanner.expect(")")?;
                let size = self.scanner.integer()?;
                Some(self.shardy(Shardy::SubAxis(before, size)))
            }
            false => None,
        };
        Ok(self.shardy(Shardy::AxisRef(name, part)))
    }
}
