//! [`Tables`]: the strings, types and attributes of a file.

use super::encoder::Encoder;
use crate::cases::ENUMERATIONS;
use crate::entries::{Attribute, AttributeId, Type, TypeId};
use crate::error::{Error, Result};
use crate::module::PortableArtifact;
use std::collections::HashMap;

/// Nesting at which types and attributes are refused.
const MAX_DEPTH: usize = 128;

/// The dialect of an operation, or that which encodes a type or an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Dialect {
    Builtin,
    Vhlo,
    Shardy,
    /// It encodes none of those that are written.
    Chlo,
}

/// Encoded types or attributes, in the order of their numbers.
#[derive(Default)]
pub(super) struct Table {
    pub(super) entries: Vec<(Dialect, Vec<u8>)>,
    indices: HashMap<(Dialect, Vec<u8>), usize>,
}

impl Table {
    fn add(&mut self, dialect: Dialect, entry: Encoder) -> usize {
        let key = (dialect, entry.bytes);
        if let Some(index) = self.indices.get(&key) {
            return *index;
        }
        self.entries.push(key.clone());
        self.indices.insert(key, self.entries.len() - 1);
        self.entries.len() - 1
    }
}

/// The tables of a file.
pub(super) struct Tables<'m> {
    pub(super) module: &'m PortableArtifact,
    pub(super) strings: Vec<String>,
    string_indices: HashMap<String, usize>,
    pub(super) types: Table,
    pub(super) attributes: Table,
    /// The numbers of types and attributes of the module that are encoded already.
    type_numbers: HashMap<(TypeId, Dialect), usize>,
    attribute_numbers: HashMap<(AttributeId, Dialect), usize>,
    depth: usize,
}

impl<'m> Tables<'m> {
    pub(super) fn of(module: &'m PortableArtifact) -> Tables<'m> {
        Tables {
            module,
            strings: Vec::new(),
            string_indices: HashMap::new(),
            types: Table::default(),
            attributes: Table::default(),
            type_numbers: HashMap::new(),
            attribute_numbers: HashMap::new(),
            depth: 0,
        }
    }

    pub(super) fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(Error::at(self.module.bytes, message))
    }

    /// Returns the number of a string.
    pub(super) fn string(&mut self, text: &str) -> usize {
        if let Some(index) = self.string_indices.get(text) {
            return *index;
        }
        self.string_indices.insert(text.to_owned(), self.strings.len());
        self.strings.push(text.to_owned());
        self.strings.len() - 1
    }

    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        match self.depth > MAX_DEPTH {
            true => self.fail(format!("types or attributes are nested deeper than {MAX_DEPTH}")),
            false => Ok(()),
        }
    }

    /// Returns the number of a type, as the dialect encodes it.
    pub(super) fn ty(&mut self, id: TypeId, dialect: Dialect) -> Result<usize> {
        if let Some(number) = self.type_numbers.get(&(id, dialect)) {
            return Ok(*number);
        }
        self.enter()?;
        let Some(ty) = self.module.types.get(id) else {
            return self.fail(format!("there is no type {id}"));
        };
        let mut entry = Encoder::default();
        match dialect {
            Dialect::Vhlo => self.vhlo_type(ty, &mut entry)?,
            _ => self.builtin_type(ty, &mut entry)?,
        }
        let number = self.types.add(dialect, entry);
        self.type_numbers.insert((id, dialect), number);
        self.depth -= 1;
        Ok(number)
    }

    /// Returns the number of an attribute, as the dialect encodes it.
    pub(super) fn attribute(&mut self, id: AttributeId, dialect: Dialect) -> Result<usize> {
        if let Some(number) = self.attribute_numbers.get(&(id, dialect)) {
            return Ok(*number);
        }
        self.enter()?;
        let Some(attribute) = self.module.attributes.get(id) else {
            return self.fail(format!("there is no attribute {id}"));
        };
        let mut entry = Encoder::default();
        let encoded_by = match (attribute, dialect) {
            (Attribute::Shardy(attribute), _) => {
                self.shardy_attribute(attribute, &mut entry)?;
                Dialect::Shardy
            }
            // Flags are builtin everywhere.
            (Attribute::Unit, _) => {
                entry.number(7);
                Dialect::Builtin
            }
            (attribute, Dialect::Vhlo) => {
                self.vhlo_attribute(attribute, &mut entry)?;
                Dialect::Vhlo
            }
            (attribute, _) => {
                self.builtin_attribute(attribute, &mut entry)?;
                Dialect::Builtin
            }
        };
        let number = self.attributes.add(encoded_by, entry);
        self.attribute_numbers.insert((id, dialect), number);
        self.depth -= 1;
        Ok(number)
    }

    /// Returns the number of the position of all operations, which is not known.
    pub(super) fn unknown_location(&mut self) -> usize {
        let mut entry = Encoder::default();
        entry.number(15);
        self.attributes.add(Dialect::Builtin, entry)
    }

    /// Returns the number of a builtin dictionary, whose values another dialect encodes.
    pub(super) fn dictionary(&mut self, id: AttributeId, dialect: Dialect) -> Result<usize> {
        let Some(Attribute::Dictionary(entries)) = self.module.attributes.get(id) else {
            return self.fail(format!("attribute {id} is not a dictionary"));
        };
        let mut entry = Encoder::default();
        self.dictionary_entries(1, entries, Dialect::Builtin, dialect, &mut entry)?;
        Ok(self.attributes.add(Dialect::Builtin, entry))
    }

    fn dictionary_entries(
        &mut self,
        code: u64,
        entries: &[(AttributeId, AttributeId)],
        of_names: Dialect,
        of_values: Dialect,
        to: &mut Encoder,
    ) -> Result<()> {
        let is_known = |(_, value): &&(AttributeId, AttributeId)| {
            !matches!(self.module.attributes.get(*value), Some(Attribute::Foreign))
        };
        let known: Vec<_> = entries.iter().filter(is_known).copied().collect();
        to.number(code);
        to.index(known.len());
        for (name, value) in known {
            to.index(self.attribute(name, of_names)?);
            to.index(self.attribute(value, of_values)?);
        }
        Ok(())
    }

    pub(super) fn attribute_list(
        &mut self,
        list: &[AttributeId],
        dialect: Dialect,
        to: &mut Encoder,
    ) -> Result<()> {
        let numbers = list.iter().map(|id| self.attribute(*id, dialect));
        to.indices(&numbers.collect::<Result<Vec<usize>>>()?);
        Ok(())
    }

    fn vhlo_attribute(&mut self, attribute: &Attribute, to: &mut Encoder) -> Result<()> {
        let vhlo = Dialect::Vhlo;
        match attribute {
            Attribute::Array(list) => {
                to.number(1);
                self.attribute_list(list, vhlo, to)?;
            }
            Attribute::Boolean(flag) => {
                to.number(2);
                to.number((*flag).into());
            }
            Attribute::Enum(name, case) => {
                let found = ENUMERATIONS.iter().find(|(known, ..)| known == name);
                let number = found.and_then(|(_, code, first, cases)| {
                    let index = cases.iter().position(|known| known == case)?;
                    Some((*code, first + index as u64))
                });
                let Some((code, number)) = number else {
                    return self.fail(format!("`{name}` has no case `{case}`"));
                };
                to.number(code);
                to.number(number);
            }
            Attribute::Dictionary(entries) => {
                self.dictionary_entries(6, entries, vhlo, vhlo, to)?;
            }
            Attribute::Float(ty, bits) => self.number_attribute(8, *ty, *bits, vhlo, to)?,
            // The version of the interface of a custom call.
            Attribute::Integer(usize::MAX, version) => {
                to.number(5);
                to.number(version.cast_unsigned());
            }
            Attribute::Integer(ty, number)
                if matches!(self.module.types.get(*ty), Some(Type::Element("i1"))) =>
            {
                to.number(2);
                to.number(u64::from(*number != 0));
            }
            Attribute::Integer(ty, number) => {
                self.number_attribute(9, *ty, number.cast_unsigned(), vhlo, to)?;
            }
            Attribute::OutputOperandAlias(output, operand, indices) => {
                to.number(10);
                to.signed_list(output.iter().copied());
                to.signed(*operand);
                to.signed_list(indices.iter().copied());
            }
            Attribute::String(text) => {
                to.number(14);
                to.index(self.string(text));
            }
            Attribute::Symbol(name) => {
                let Some(Attribute::String(name)) = self.module.attributes.get(*name) else {
                    return self.fail("the name of a symbol is not text");
                };
                to.number(14);
                to.index(self.string(name));
            }
            Attribute::Tensor(ty, data) => {
                let ty = self.ty(*ty, vhlo)?;
                to.number(15);
                to.index(ty);
                to.index(data.len());
                to.bytes.extend_from_slice(data);
            }
            Attribute::Type(ty) => {
                let ty = self.ty(*ty, vhlo)?;
                to.number(17);
                to.index(ty);
            }
            Attribute::TypeExtensions(bounds) => {
                to.number(18);
                to.signed_list(bounds.iter().copied());
            }
            Attribute::ResultAccuracy { atol, rtol, ulps, mode } => {
                let mode = self.attribute(*mode, vhlo)?;
                to.number(20);
                to.bits(atol.to_bits(), 64);
                to.bits(rtol.to_bits(), 64);
                to.signed(*ulps);
                to.index(mode);
            }
            Attribute::SubAxis(before, size) => {
                to.number(21);
                to.signed(*before);
                to.signed(*size);
            }
            Attribute::AxisRef(name, part) => {
                let name = self.attribute(*name, vhlo)?;
                let part = part.map(|part| self.attribute(part, vhlo)).transpose()?;
                to.number(22);
                to.index(name);
                to.number(part.is_some().into());
                part.into_iter().for_each(|part| to.index(part));
            }
            Attribute::MeshGroups(mesh, axes) => {
                let (mesh, axes) = (self.attribute(*mesh, vhlo)?, self.attribute(*axes, vhlo)?);
                to.number(23);
                to.index(mesh);
                to.index(axes);
            }
            Attribute::MeshAxis(name, size) => {
                let name = self.attribute(*name, vhlo)?;
                to.number(24);
                to.index(name);
                to.signed(*size);
            }
            Attribute::Mesh(axes, devices) => {
                let axes = self.attribute(*axes, vhlo)?;
                let devices = devices.map(|devices| self.attribute(devices, vhlo)).transpose()?;
                to.number(25);
                to.index(axes);
                to.optional(devices);
            }
            other => return self.fail(format!("{other:?} is not an attribute of StableHLO")),
        }
        Ok(())
    }

    fn number_attribute(
        &mut self,
        code: u64,
        ty: TypeId,
        bits: u64,
        dialect: Dialect,
        to: &mut Encoder,
    ) -> Result<()> {
        let width = self.module.types.get(ty).and_then(Type::bits);
        let (number, Some(width)) = (self.ty(ty, dialect)?, width) else {
            return self.fail(format!("type {ty} is not that of a number"));
        };
        to.number(code);
        to.index(number);
        to.bits(bits, width);
        Ok(())
    }

    fn builtin_attribute(&mut self, attribute: &Attribute, to: &mut Encoder) -> Result<()> {
        let builtin = Dialect::Builtin;
        match attribute {
            Attribute::Array(list) => {
                to.number(0);
                self.attribute_list(list, builtin, to)?;
            }
            Attribute::Dictionary(entries) => {
                self.dictionary_entries(1, entries, builtin, builtin, to)?;
            }
            Attribute::String(text) => {
                to.number(2);
                to.index(self.string(text));
            }
            Attribute::Symbol(name) => {
                let name = self.attribute(*name, builtin)?;
                to.number(4);
                to.index(name);
            }
            Attribute::Type(ty) => {
                let ty = self.ty(*ty, builtin)?;
                to.number(6);
                to.index(ty);
            }
            Attribute::Boolean(flag) => {
                // A flag is a number of one bit.
                let mut ty = Encoder::default();
                ty.number(0);
                ty.number(1 << 2);
                let ty = self.types.add(builtin, ty);
                to.number(8);
                to.index(ty);
                to.bits(u64::from(*flag), 1);
            }
            Attribute::Integer(ty, number) => {
                self.number_attribute(8, *ty, number.cast_unsigned(), builtin, to)?;
            }
            Attribute::Float(ty, bits) => self.number_attribute(9, *ty, *bits, builtin, to)?,
            other => return self.fail(format!("{other:?} is not a builtin attribute")),
        }
        Ok(())
    }
}
