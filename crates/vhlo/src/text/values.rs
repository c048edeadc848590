//! Types, and the values of attributes.

use super::{Writer, key_text, quoted, write_to};
use crate::entries::{Attribute, AttributeId, Quantized, Type, TypeId};
use crate::error::Result;

impl Writer<'_> {
    pub(super) fn symbol(&self, id: AttributeId) -> Result<String> {
        let name = self.string(id)?;
        self.spend(name.len())?;
        Ok(format!("@{}", quoted(&format!("{}{name}", self.prefix))))
    }

    /// Returns the numbers of a list, a number or a flag.
    pub(super) fn numbers(&self, id: AttributeId) -> Result<Vec<i64>> {
        match self.attribute(id)? {
            Attribute::Integer(_, number) => Ok(vec![*number]),
            Attribute::Tensor(ty, data) => {
                let Type::Tensor(shape, element, _) = self.ty(*ty)? else {
                    return self.fail("a list of numbers is not an array");
                };
                let count = self.count(shape)?;
                self.spend(data.len().max(count.min(self.module.bytes)))?;
                let numbers: Vec<i64> = match self.ty(*element)? {
                    Type::Element("i1") => flags(data, count).into_iter().map(i64::from).collect(),
                    Type::Element("i64") => {
                        data.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
                    }
                    other => return self.fail(format!("a list of numbers is of {other:?}")),
                };
                match (numbers.len(), count) {
                    (found, count) if found == count => Ok(numbers),
                    (1, count) if count <= self.module.bytes => Ok(vec![numbers[0]; count]),
                    (found, count) => {
                        self.fail(format!("a list of {count} numbers has {found} of them"))
                    }
                }
            }
            other => self.fail(format!("{other:?} is not a list of numbers")),
        }
    }

    fn count(&self, shape: &[Option<u64>]) -> Result<usize> {
        let count = shape.iter().try_fold(1_u64, |count, size| count.checked_mul((*size)?));
        match count.and_then(|count| usize::try_from(count).ok()) {
            Some(count) => Ok(count),
            None => self.fail("an array of constants has no known size"),
        }
    }

    pub(super) fn type_text(&self, id: TypeId, depth: usize) -> Result<String> {
        let text = self.unchecked_type_text(id, depth)?;
        self.spend(text.len())?;
        Ok(text)
    }

    fn unchecked_type_text(&self, id: TypeId, depth: usize) -> Result<String> {
        let Some(depth) = depth.checked_sub(1) else {
            return self.fail("a type is nested too deep");
        };
        let all = |types: &[TypeId]| -> Result<String> {
            let types = types.iter().map(|ty| self.type_text(*ty, depth));
            Ok(types.collect::<Result<Vec<String>>>()?.join(", "))
        };
        Ok(match self.ty(id)? {
            Type::Element(name) => (*name).to_owned(),
            Type::Complex(element) => format!("complex<{}>", self.type_text(*element, depth)?),
            Type::Token => "!stablehlo.token".to_owned(),
            Type::None => "none".to_owned(),
            Type::Tuple(elements) => format!("tuple<{}>", all(elements)?),
            Type::Function(inputs, results) => {
                format!("({}) -> ({})", all(inputs)?, all(results)?)
            }
            Type::Future(results) => format!("!stablehlo.future<{}>", all(results)?),
            Type::Quantized(ty) => self.quantized_text(ty, depth)?,
            Type::Buffer(shape, element) => {
                format!("memref<{}{}>", sizes_text(shape), self.type_text(*element, depth)?)
            }
            Type::Tensor(shape, element, encoding) => {
                let mut text = format!("tensor<{}", sizes_text(shape));
                text += &self.type_text(*element, depth)?;
                if let Some(encoding) = encoding {
                    text += &format!(", {}", self.value_text(*encoding, depth)?);
                }
                text + ">"
            }
        })
    }

    fn quantized_text(&self, ty: &Quantized, depth: usize) -> Result<String> {
        self.spend(ty.scales.len())?;
        let [integer, number] = ty.types;
        let (integer, number) = (self.type_text(integer, depth)?, self.type_text(number, depth)?);
        let sign = if ty.is_signed { "i" } else { "u" };
        let bits = integer.trim_start_matches(|c: char| !c.is_ascii_digit());
        let ([first, last], scales) = (ty.range, &ty.scales);
        let scales = scales.iter().map(|&(scale, zero)| {
            let scale = float_text(f64::from_bits(scale));
            format!("{scale}:{zero}")
        });
        let scales = scales.collect::<Vec<_>>().join(", ");
        let integer = format!("{sign}{bits}<{first}:{last}>");
        Ok(match ty.axis {
            Some(axis) => format!("!quant.uniform<{integer}:{number}:{axis}, {{{scales}}}>"),
            None => format!("!quant.uniform<{integer}:{number}, {scales}>"),
        })
    }

    pub(super) fn value_text(&self, id: AttributeId, depth: usize) -> Result<String> {
        let text = self.unchecked_value_text(id, depth)?;
        self.spend(text.len())?;
        Ok(text)
    }

    fn unchecked_value_text(&self, id: AttributeId, depth: usize) -> Result<String> {
        let Some(depth) = depth.checked_sub(1) else {
            return self.fail("an attribute is nested too deep");
        };
        Ok(match self.attribute(id)? {
            Attribute::Array(elements) => {
                let elements = elements.iter().map(|id| self.value_text(*id, depth));
                format!("[{}]", elements.collect::<Result<Vec<String>>>()?.join(", "))
            }
            Attribute::Boolean(flag) => flag.to_string(),
            Attribute::Enum("result_accuracy_mode", case) => {
                format!("#stablehlo.result_accuracy_mode<{case}>")
            }
            Attribute::Enum(name, case) => format!("#stablehlo<{name} {case}>"),
            Attribute::Dictionary(entries) => {
                let entries = entries.iter().map(|&(name, value)| {
                    let name = self.string(name)?;
                    self.spend(name.len())?;
                    Ok((name, value))
                });
                self.dictionary(&entries.collect::<Result<Vec<_>>>()?, depth)?
            }
            Attribute::Float(ty, bits) => {
                let width = self.ty(*ty)?.bits().unwrap_or(64).div_ceil(4) as usize;
                format!("0x{bits:0width$X} : {}", self.type_text(*ty, depth)?)
            }
            Attribute::Integer(ty, number) => {
                format!("{number} : {}", self.type_text(*ty, depth)?)
            }
            Attribute::OutputOperandAlias(output, operand, indices) => format!(
                "#stablehlo.output_operand_alias<output_tuple_indices = {output:?}, operand_index \
                 = {operand}, operand_tuple_indices = {indices:?}>"
            ),
            Attribute::String(text) => quoted(text),
            Attribute::Symbol(name) => self.symbol(*name)?,
            Attribute::Tensor(ty, data) => self.dense(*ty, data, depth)?,
            Attribute::Type(ty) => self.type_text(*ty, depth)?,
            Attribute::TypeExtensions(bounds) => {
                let bounds = bounds.iter().map(|bound| match u64::try_from(*bound) {
                    Ok(bound) => bound.to_string(),
                    Err(_) => "?".to_owned(),
                });
                format!("#stablehlo.bounds<{}>", bounds.collect::<Vec<_>>().join(", "))
            }
            Attribute::ResultAccuracy { atol, rtol, ulps, mode } => format!(
                "#stablehlo.result_accuracy<atol = {}, rtol = {}, ulps = {ulps}, mode = {}>",
                float_text(*atol),
                float_text(*rtol),
                self.value_text(*mode, depth)?
            ),
            Attribute::MeshGroups(mesh, axes) => {
                let mesh = match self.attribute(*mesh)? {
                    Attribute::String(_) => self.symbol(*mesh)?,
                    _ => self.value_text(*mesh, depth)?,
                };
                let axes = self.value_text(*axes, depth)?;
                format!("#stablehlo.replica_group_mesh_axes<mesh = {mesh}, axes = {axes}>")
            }
            Attribute::Mesh(axes, devices) => {
                let axes = self.array(*axes)?.iter().map(|axis| match self.attribute(*axis)? {
                    Attribute::MeshAxis(name, size) => {
                        Ok(format!("<name = {}, size = {size}>", self.value_text(*name, depth)?))
                    }
                    other => self.fail(format!("{other:?} is not an axis of a mesh")),
                });
                let axes = axes.collect::<Result<Vec<String>>>()?.join(", ");
                let devices = match devices {
                    Some(devices) => {
                        format!(", device_ids={}", self.value_text(*devices, depth)?)
                    }
                    None => String::new(),
                };
                format!("#stablehlo.mesh<axes=[{axes}]{devices}>")
            }
            Attribute::AxisRef(name, part) => {
                let name = self.value_text(*name, depth)?;
                let part = match part.map(|part| self.attribute(part)).transpose()? {
                    None => String::new(),
                    Some(Attribute::SubAxis(before, size)) => {
                        format!(", sub_axis_info = ({before}){size}")
                    }
                    Some(other) => return self.fail(format!("{other:?} is not a part of an axis")),
                };
                format!("#stablehlo.axis_ref<name = {name}{part}>")
            }
            Attribute::Shardy(attribute) => self.shardy_text(attribute)?,
            Attribute::Unit => "unit".to_owned(),
            other => return self.fail(format!("{other:?} has no text")),
        })
    }

    /// Returns a dictionary, without attributes of other dialects.
    pub(super) fn dictionary(
        &self,
        entries: &[(&str, AttributeId)],
        depth: usize,
    ) -> Result<String> {
        let mut each = Vec::new();
        for (name, value) in entries {
            if !matches!(self.attribute(*value)?, Attribute::Foreign) {
                each.push(format!("{} = {}", key_text(name), self.value_text(*value, depth)?));
            }
        }
        Ok(format!("{{{}}}", each.join(", ")))
    }

    /// Returns an array of constants. Numbers are written as their bytes.
    fn dense(&self, ty: TypeId, data: &[u8], depth: usize) -> Result<String> {
        let text = self.type_text(ty, depth)?;
        let Type::Tensor(shape, element, _) = self.ty(ty)? else {
            return self.fail("a constant is not an array");
        };
        let count = self.count(shape)?;
        if count == 0 {
            return Ok(format!("dense<> : {text}"));
        }
        if matches!(self.ty(*element)?, Type::Element("i1")) {
            let flags = flags(data, count);
            let values = match flags.first() {
                Some(first) if flags.iter().all(|flag| flag == first) => first.to_string(),
                Some(_) if flags.len() == count => nested(shape, &flags),
                _ => return self.fail(format!("{} flags for {text}", flags.len())),
            };
            return Ok(format!("dense<{values}> : {text}"));
        }
        let mut bytes = String::with_capacity(2 * data.len() + 2);
        for byte in data {
            write_to(&mut bytes, format_args!("{byte:02X}"));
        }
        Ok(format!("dense<\"0x{bytes}\"> : {text}"))
    }
}

/// Returns a number as MLIR writes it, with a point.
fn float_text(number: f64) -> String {
    let text = format!("{number:e}");
    if text.contains('.') { text } else { text.replacen('e', ".0e", 1) }
}

/// Returns the sizes of axes, each with an `x` after it.
fn sizes_text(shape: &[Option<u64>]) -> String {
    let each = shape.iter().map(|size| match size {
        Some(size) => format!("{size}x"),
        None => "?x".to_owned(),
    });
    each.collect()
}

/// Returns flags that are packed into bits, or one in each byte. One byte can stand for all.
pub(crate) fn flags(data: &[u8], count: usize) -> Vec<bool> {
    if data.len() == count.div_ceil(8) && data.len() != count {
        let bit = |index: usize| data[index / 8] >> (index % 8) & 1 != 0;
        return (0..count).map(bit).collect();
    }
    data.iter().map(|byte| *byte != 0).collect()
}

/// Writes flags as nested lists.
fn nested(shape: &[Option<u64>], flags: &[bool]) -> String {
    let [size, inner @ ..] = shape else { return flags[0].to_string() };
    let size = size.and_then(|size| usize::try_from(size).ok()).unwrap_or(1).max(1);
    let parts = flags.chunks(flags.len() / size).map(|part| nested(inner, part));
    format!("[{}]", parts.collect::<Vec<_>>().join(", "))
}
