//! The operations of a module, for programs that translate them.

use crate::entries::{Attribute, AttributeId, Type, TypeId};
use crate::error::{Error, Result};
use crate::module::{Block, Operation, PortableArtifact};
use crate::text::{flags, without_version};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueType {
    /// An array: the name of its element type, such as `f32`, `ui8` or `complex<f64>`, and the size
    /// of each axis; `None` if it is known only when the module runs.
    Tensor(String, Vec<Option<u64>>),
    /// A token, which orders side effects.
    Token,
    /// A tuple.
    Tuple(Vec<ValueType>),
    /// Another type, by its name.
    Other(String),
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AttributeValue<'m> {
    /// A number or a flag.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
    /// Text, the case of an enumeration or the name of a function.
    Text(&'m str),
    /// A list.
    List(Vec<AttributeValue<'m>>),
    /// Names and values.
    Dictionary(BTreeMap<&'m str, AttributeValue<'m>>),
    /// An array: its type, and its elements or the one that all are equal to, little-endian.
    Tensor(ValueType, &'m [u8]),
    /// Another value.
    Other,
}

/// A function of a module.
#[derive(Clone, Copy, Debug)]
pub struct VhloFunction<'m> {
    module: &'m PortableArtifact,
    operation: &'m Operation,
}

/// The operations of a region.
#[derive(Clone, Copy, Debug)]
pub struct VhloBlock<'m> {
    module: &'m PortableArtifact,
    block: &'m Block,
}

/// An operation.
#[derive(Clone, Copy, Debug)]
pub struct VhloOperation<'m> {
    module: &'m PortableArtifact,
    operation: &'m Operation,
}

/// Nesting of types and attributes at which a module is refused.
const MAX_DEPTH: usize = 32;

/// The most elements of lists in lists.
const MAX_ELEMENTS: usize = 1 << 20;

impl PortableArtifact {
    /// Returns the functions in order.
    ///
    /// ```
    /// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/dots.bc");
    /// let artifact = oxidax_vhlo::PortableArtifact::read(&std::fs::read(file)?)?;
    /// let main = artifact.functions().find(|function| function.name() == Some("main"));
    /// let body = main.unwrap().body().unwrap();
    /// let names: Vec<&str> = body.operations().map(|operation| operation.name()).collect();
    /// assert!(names.contains(&"dot_general"), "{names:?}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn functions(&self) -> impl Iterator<Item = VhloFunction<'_>> {
        let operations = self.top_level().filter(|operation| operation.name == "vhlo.func_v1");
        operations.map(|operation| VhloFunction { module: self, operation })
    }

    /// Returns the meshes of Shardy by their names, each with the names and sizes of its axes.
    ///
    /// # Errors
    /// A mesh does not list axes.
    pub fn meshes(&self) -> Result<BTreeMap<&str, Vec<(&str, u64)>>> {
        let meshes = self.top_level().filter(|operation| operation.name == "sdy.mesh");
        let mut found = BTreeMap::new();
        for operation in meshes {
            let mesh = VhloOperation { module: self, operation };
            let id = mesh.attribute_id("mesh").ok_or_else(|| mesh.error("it has no axes"))?;
            // A mesh that is the name of another one could be its own.
            let axes = self.axes_of_mesh(id)?;
            if let Some(name) = mesh.text("sym_name") {
                found.insert(name, axes);
            }
        }
        Ok(found)
    }

    fn top_level(&self) -> impl Iterator<Item = &Operation> {
        self.root.regions.iter().flat_map(|body| &body.operations)
    }

    pub(crate) fn attribute(&self, id: AttributeId) -> Result<&Attribute> {
        let missing = || self.error(format!("there is no attribute {id}"));
        self.attributes.get(id).ok_or_else(missing)
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        Error::at(self.bytes, message)
    }

    fn string(&self, id: AttributeId) -> Option<&str> {
        match self.attributes.get(id)? {
            Attribute::String(text) => Some(text),
            Attribute::Symbol(name) => match self.attributes.get(*name)? {
                Attribute::String(text) => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    fn value_type(&self, id: TypeId, depth: usize) -> Result<ValueType> {
        let missing = || self.error(format!("there is no type {id}"));
        let deeper = || depth.checked_sub(1).ok_or_else(|| self.error("a type is nested too deep"));
        Ok(match self.types.get(id).ok_or_else(missing)? {
            Type::Tensor(shape, element, _) => {
                ValueType::Tensor(self.element_name(*element)?, shape.clone())
            }
            Type::Token => ValueType::Token,
            Type::Tuple(elements) => {
                let depth = deeper()?;
                let elements = elements.iter().map(|element| self.value_type(*element, depth));
                ValueType::Tuple(elements.collect::<Result<_>>()?)
            }
            Type::Element(name) => ValueType::Other((*name).to_owned()),
            Type::Complex(_) => ValueType::Other(self.element_name(id)?),
            Type::Buffer(..) => ValueType::Other("memref".to_owned()),
            Type::Future(_) => ValueType::Other("future".to_owned()),
            Type::Quantized(_) => ValueType::Other("quant".to_owned()),
            Type::Function(..) => ValueType::Other("function".to_owned()),
            Type::None => ValueType::Other("none".to_owned()),
        })
    }

    fn element_name(&self, id: TypeId) -> Result<String> {
        match self.types.get(id) {
            Some(Type::Element(name)) => Ok((*name).to_owned()),
            Some(Type::Complex(part)) => match self.types.get(*part) {
                Some(Type::Element(name)) => Ok(format!("complex<{name}>")),
                other => Err(self.error(format!("{other:?} is not a part of complex numbers"))),
            },
            Some(Type::Quantized(_)) => Ok("quant".to_owned()),
            other => Err(self.error(format!("{other:?} is not an element type"))),
        }
    }

    fn value(
        &self,
        id: AttributeId,
        depth: usize,
        elements: &mut usize,
    ) -> Result<AttributeValue<'_>> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(self.error("an attribute is nested too deep"));
        };
        let mut take = |count: usize| match elements.checked_sub(count) {
            Some(left) => {
                *elements = left;
                Ok(())
            }
            None => Err(self.error("an attribute has too many elements")),
        };
        Ok(match self.attribute(id)? {
            Attribute::Boolean(flag) => AttributeValue::Integer((*flag).into()),
            Attribute::Integer(_, number) => AttributeValue::Integer(*number),
            Attribute::Float(ty, bits) => {
                let name = self.element_name(*ty)?;
                match name.as_str() {
                    "f64" => AttributeValue::Float(f64::from_bits(*bits)),
                    "f32" => AttributeValue::Float(f32::from_bits(*bits as u32).into()),
                    _ => AttributeValue::Other,
                }
            }
            Attribute::Enum(_, case) => AttributeValue::Text(case),
            Attribute::String(text) => AttributeValue::Text(text),
            Attribute::Symbol(_) => {
                self.string(id).map_or(AttributeValue::Other, AttributeValue::Text)
            }
            Attribute::Array(list) => {
                take(list.len())?;
                let list = list.iter().map(|id| self.value(*id, depth, elements));
                AttributeValue::List(list.collect::<Result<_>>()?)
            }
            Attribute::Dictionary(entries) => {
                take(entries.len())?;
                let mut found = BTreeMap::new();
                for (name, value) in entries {
                    let value = self.value(*value, depth, elements)?;
                    if let Some(name) = self.string(*name) {
                        found.insert(name, value);
                    }
                }
                AttributeValue::Dictionary(found)
            }
            Attribute::Tensor(ty, data) => {
                AttributeValue::Tensor(self.value_type(*ty, MAX_DEPTH)?, data)
            }
            _ => AttributeValue::Other,
        })
    }
}

impl<'m> VhloFunction<'m> {
    fn as_operation(self) -> VhloOperation<'m> {
        VhloOperation { module: self.module, operation: self.operation }
    }

    /// Returns the name.
    pub fn name(self) -> Option<&'m str> {
        self.as_operation().text("sym_name")
    }

    /// Returns the body; `None` for a function that is only declared.
    pub fn body(self) -> Option<VhloBlock<'m>> {
        let block = self.operation.regions.first()?;
        let is_declaration = block.operations.is_empty() && block.arguments.is_empty();
        (!is_declaration).then_some(VhloBlock { module: self.module, block })
    }

    /// Returns the attributes of each argument, such as `jax.global_constant` and `mhlo.sharding`.
    pub fn argument_attributes(self) -> Result<Vec<AttributeValue<'m>>> {
        match self.as_operation().attribute("arg_attrs")? {
            Some(AttributeValue::List(list)) => Ok(list),
            _ => Ok(Vec::new()),
        }
    }
}

impl<'m> VhloBlock<'m> {
    /// Returns the arguments: the number of each value, and its type.
    pub fn arguments(self) -> Result<Vec<(usize, ValueType)>> {
        let arguments = self.block.arguments.iter();
        arguments.map(|(id, ty)| Ok((*id, self.module.value_type(*ty, MAX_DEPTH)?))).collect()
    }

    /// Returns the operations in order. The last one is the block's `return`.
    pub fn operations(self) -> impl DoubleEndedIterator<Item = VhloOperation<'m>> {
        let module = self.module;
        self.block.operations.iter().map(move |operation| VhloOperation { module, operation })
    }
}

impl<'m> VhloOperation<'m> {
    /// Returns the name, of VHLO's operations without the dialect and version: `add`.
    pub fn name(self) -> &'m str {
        match self.operation.name.strip_prefix("vhlo.") {
            Some(name) => without_version(name),
            None => &self.operation.name,
        }
    }

    /// Returns the numbers of the operands' values.
    pub fn operands(self) -> &'m [usize] {
        &self.operation.operands
    }

    /// Returns the numbers of the results' values.
    pub fn results(self) -> impl ExactSizeIterator<Item = usize> {
        self.operation.results.iter().map(|(id, _)| *id)
    }

    /// Returns the types of the results.
    pub fn result_types(self) -> Result<Vec<ValueType>> {
        let types = self.operation.results.iter();
        types.map(|(_, ty)| self.module.value_type(*ty, MAX_DEPTH)).collect()
    }

    /// Returns the regions.
    pub fn regions(self) -> impl ExactSizeIterator<Item = VhloBlock<'m>> {
        let module = self.module;
        self.operation.regions.iter().map(move |block| VhloBlock { module, block })
    }

    /// Returns an error of the module about this operation.
    pub fn error(self, message: impl std::fmt::Display) -> Error {
        self.module.error(format!("`{}`: {message}", self.name()))
    }

    pub(crate) fn module(self) -> &'m PortableArtifact {
        self.module
    }

    pub(crate) fn attribute_id(self, name: &str) -> Option<AttributeId> {
        let own = self.operation.properties.iter().find(|(key, _)| *key == name);
        own.map(|(_, id)| *id).or_else(|| {
            let dictionary = self.module.attributes.get(self.operation.dictionary?)?;
            let Attribute::Dictionary(entries) = dictionary else { return None };
            let mut entries = entries.iter();
            entries.find(|(key, _)| self.module.string(*key) == Some(name)).map(|(_, id)| *id)
        })
    }

    /// Returns the value of an attribute; `None` if the operation does not have it.
    ///
    /// # Errors
    /// The value is nested too deep, or has more than a million parts.
    pub fn attribute(self, name: &str) -> Result<Option<AttributeValue<'m>>> {
        let id = self.attribute_id(name);
        id.map(|id| self.module.value(id, MAX_DEPTH, &mut MAX_ELEMENTS.clone())).transpose()
    }

    /// Returns an attribute that is text, the name of a function or the case of an enumeration.
    pub fn text(self, name: &str) -> Option<&'m str> {
        match self.attribute(name) {
            Ok(Some(AttributeValue::Text(text))) => Some(text),
            _ => None,
        }
    }

    /// Returns an attribute that is a flag; false if the operation does not have it.
    pub fn flag(self, name: &str) -> bool {
        matches!(self.attribute(name), Ok(Some(AttributeValue::Integer(1))))
    }

    /// Returns an attribute that is a number or an array of numbers or flags; an empty list if the
    /// operation does not have it.
    ///
    /// # Errors
    /// The attribute is of another kind.
    pub fn numbers(self, name: &str) -> Result<Vec<i64>> {
        match self.attribute(name)? {
            None => Ok(Vec::new()),
            Some(AttributeValue::Integer(number)) => Ok(vec![number]),
            Some(AttributeValue::Tensor(ValueType::Tensor(element, shape), data)) => {
                let count = shape.iter().try_fold(1_u64, |n, size| n.checked_mul((*size)?));
                let count = count.and_then(|count| usize::try_from(count).ok());
                let count = count.filter(|count| *count <= MAX_ELEMENTS);
                let count = count.ok_or_else(|| self.error(format!("`{name}` is too long")))?;
                let numbers: Vec<i64> = match element.as_str() {
                    "i1" => flags(data, count).into_iter().map(i64::from).collect(),
                    "i64" => data.as_chunks().0.iter().map(|x| i64::from_le_bytes(*x)).collect(),
                    _ => return Err(self.error(format!("`{name}` is of {element}"))),
                };
                match numbers.len() {
                    found if found == count => Ok(numbers),
                    1 => Ok(vec![numbers[0]; count]),
                    found => Err(self.error(format!("`{name}` has {found} of {count} numbers"))),
                }
            }
            Some(_) => Err(self.error(format!("`{name}` is not a list of numbers"))),
        }
    }

    /// Returns the elements of a constant in row-major order, little-endian: all of them, or one
    /// that they are equal to. Flags are one byte each.
    ///
    /// # Errors
    /// It is not a constant, or its size is not that of its type.
    pub fn constant(self) -> Result<(ValueType, Cow<'m, [u8]>)> {
        let Some(AttributeValue::Tensor(ty, data)) = self.attribute("value")? else {
            return Err(self.error("it has no value"));
        };
        let ValueType::Tensor(element, shape) = &ty else {
            return Err(self.error("its value is not an array"));
        };
        if element != "i1" {
            return Ok((ty, data.into()));
        }
        let count = shape.iter().try_fold(1_u64, |n, size| n.checked_mul((*size)?));
        let limit = data.len().saturating_mul(8).max(1);
        let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
        let data: Vec<u8> = if data.len() == 1 && count > 8 {
            vec![u8::from(data[0] != 0)]
        } else if count <= limit {
            flags(data, count).into_iter().map(u8::from).collect()
        } else {
            return Err(self.error("it has too few flags"));
        };
        Ok((ty, data.into()))
    }
}
