//! Writes a module as StableHLO text, in MLIR's generic form.
//!
//! VHLO has one attribute for each number, and no defaults; StableHLO joins some attributes and
//! leaves out defaults. Source of the differences: `VhloLegalizeToStablehlo.cpp` of
//! <https://github.com/openxla/stablehlo>.

mod attributes;
mod shardy;
mod values;

pub(crate) use values::flags;

use crate::entries::{Attribute, AttributeId, Type, TypeId};
use crate::error::{Error, Result};
use crate::module::{Block, Operation, PortableArtifact, ValueId};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Nesting of types and attributes at which a module is refused.
const MAX_DEPTH: usize = 32;

/// The largest length of a text, in bytes for each byte of the file, and in addition.
const MAX_GROWTH: (usize, usize) = (256, 1 << 20);

impl PortableArtifact {
    /// Returns the module as text that PJRT plugins compile.
    ///
    /// Attributes of other dialects, and positions in source files, are left out.
    ///
    /// # Errors
    /// An operation or attribute is not that of StableHLO, or is nested too deep; or parts are
    /// shared so often that the text would be far larger than the file.
    pub fn to_text(&self) -> Result<String> {
        let mut writer = Writer::of(self, "");
        writer.out.push_str("module");
        let (symbols, attributes): (Vec<_>, Vec<_>) = writer
            .all_attributes(&self.root)?
            .into_iter()
            .partition(|(name, _)| name.starts_with("sym_"));
        if let Some((_, name)) = symbols.iter().find(|(name, _)| *name == "sym_name") {
            let name = quoted(writer.string(*name)?);
            write_to(&mut writer.out, format_args!(" @{name}"));
        }
        let attributes = writer.dictionary(&attributes, MAX_DEPTH)?;
        if attributes != "{}" {
            write_to(&mut writer.out, format_args!(" attributes {attributes}"));
        }
        writer.out.push_str(" {\n");
        writer.functions()?;
        writer.out.push_str("}\n");
        Ok(writer.out)
    }

    /// Returns the functions alone, all of them private, with `prefix` in front of their names, to
    /// be put beside other functions. `main` has the name `PREFIXmain`.
    ///
    /// # Errors
    /// Those of [`to_text`](Self::to_text).
    pub fn functions_text(&self, prefix: &str) -> Result<String> {
        let mut writer = Writer::of(self, prefix);
        writer.functions()?;
        Ok(writer.out)
    }
}

fn write_to(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a `String` does not fail.
    let _infallible = out.write_fmt(text);
}

struct Writer<'m> {
    module: &'m PortableArtifact,
    prefix: &'m str,
    out: String,
    /// The types of values, by their numbers.
    types: Vec<TypeId>,
    /// The operands of casts, by their results.
    sources: BTreeMap<ValueId, ValueId>,
    /// The bytes of text that can still be made, of parts and of parts of those.
    left: Cell<usize>,
}

/// An operation's attributes for the text: names and values.
type Attributes = Vec<(String, String)>;

impl<'m> Writer<'m> {
    fn of(module: &'m PortableArtifact, prefix: &'m str) -> Writer<'m> {
        let mut types = Vec::new();
        collect_types(&module.root, &mut types);
        let left = module.bytes.saturating_mul(MAX_GROWTH.0).saturating_add(MAX_GROWTH.1);
        Writer {
            module,
            prefix,
            out: String::new(),
            types,
            sources: BTreeMap::new(),
            left: Cell::new(left),
        }
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(Error::at(self.module.bytes, message))
    }

    fn attribute(&self, id: AttributeId) -> Result<&'m Attribute> {
        match self.module.attributes.get(id) {
            Some(attribute) => Ok(attribute),
            None => self.fail(format!("there is no attribute {id}")),
        }
    }

    fn ty(&self, id: TypeId) -> Result<&'m Type> {
        match self.module.types.get(id) {
            Some(ty) => Ok(ty),
            None => self.fail(format!("there is no type {id}")),
        }
    }

    fn string(&self, id: AttributeId) -> Result<&'m str> {
        match self.attribute(id)? {
            Attribute::String(text) => Ok(text),
            other => self.fail(format!("{other:?} is not text")),
        }
    }

    fn array(&self, id: AttributeId) -> Result<&'m [AttributeId]> {
        match self.attribute(id)? {
            Attribute::Array(elements) => Ok(elements),
            other => self.fail(format!("{other:?} is not a list")),
        }
    }

    /// Returns the names and values of an operation's attributes.
    fn all_attributes(&self, operation: &Operation) -> Result<Vec<(&'m str, AttributeId)>> {
        let mut attributes: Vec<(&str, AttributeId)> = operation.properties.clone();
        if let Some(dictionary) = operation.dictionary {
            let Attribute::Dictionary(entries) = self.attribute(dictionary)? else {
                return self.fail(format!("attribute {dictionary} is not a dictionary"));
            };
            attributes.reserve(entries.len());
            for &(name, value) in entries {
                let name = self.string(name)?;
                self.spend(name.len())?;
                attributes.push((name, value));
            }
        }
        Ok(attributes)
    }

    /// Accounts for a text that is made.
    fn spend(&self, bytes: usize) -> Result<()> {
        match self.left.get().checked_sub(bytes + 1) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => self.fail("its parts are shared so often that the text is too long"),
        }
    }

    /// Returns the type of a value. That of one without a definition is not in the module.
    fn type_of(&self, value: ValueId) -> TypeId {
        self.types.get(value).copied().unwrap_or(usize::MAX)
    }

    fn functions(&mut self) -> Result<()> {
        let body = self.module.root.regions.first();
        for operation in body.map(|body| &body.operations[..]).unwrap_or_default() {
            match operation.name.as_str() {
                "vhlo.func_v1" => self.function(operation)?,
                "sdy.mesh" => self.operation(operation, "", 1)?,
                name => return self.fail(format!("`{name}` is not a function")),
            }
        }
        Ok(())
    }

    fn function(&mut self, function: &Operation) -> Result<()> {
        let attributes = self.all_attributes(function)?;
        let find = |wanted: &str| {
            let found = attributes.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| *value)
        };
        let need = |wanted: &str| match find(wanted) {
            Some(value) => Ok(value),
            None => self.fail(format!("a function has no `{wanted}`")),
        };
        let name = self.string(need("sym_name")?)?;
        let Attribute::Type(ty) = self.attribute(need("function_type")?)? else {
            return self.fail(format!("the type of `{name}` is not a type"));
        };
        let Type::Function(inputs, results) = self.ty(*ty)? else {
            return self.fail(format!("the type of `{name}` is not that of a function"));
        };
        let per_value = |wanted: &str| match find(wanted) {
            Some(value) => self.array(value),
            None => Ok(&[][..]),
        };
        let (of_inputs, of_results) = (per_value("arg_attrs")?, per_value("res_attrs")?);
        let annotated = |ty: TypeId, attributes: Option<&AttributeId>| -> Result<String> {
            let mut text = self.type_text(ty, MAX_DEPTH)?;
            if let Some(attributes) = attributes {
                let attributes = self.value_text(*attributes, MAX_DEPTH)?;
                if attributes != "{}" {
                    text += &format!(" {attributes}");
                }
            }
            Ok(text)
        };
        let [body] = &function.regions[..] else {
            return self.fail(format!("`{name}` has {} bodies", function.regions.len()));
        };
        // A function without operations is declared only.
        let is_declaration = body.operations.is_empty() && body.arguments.is_empty();
        if !is_declaration && body.arguments.len() != inputs.len() {
            let (found, stated) = (body.arguments.len(), inputs.len());
            return self.fail(format!("`{name}` has {found} arguments, and a type with {stated}"));
        }
        let arguments = inputs.iter().enumerate().map(|(index, ty)| {
            let text = annotated(*ty, of_inputs.get(index))?;
            Ok(match body.arguments.get(index) {
                Some((value, _)) => format!("%{value}: {text}"),
                None => text,
            })
        });
        let arguments = arguments.collect::<Result<Vec<String>>>()?.join(", ");
        let results = results.iter().enumerate();
        let results = results.map(|(index, ty)| annotated(*ty, of_results.get(index)));
        let results = results.collect::<Result<Vec<String>>>()?.join(", ");
        let visibility = match (self.prefix, find("sym_visibility")) {
            ("", None) => "",
            ("", Some(id)) => self.string(id)?,
            _ => "private",
        };
        let visibility = match visibility {
            "" => "",
            "public" => "public ",
            "private" => "private ",
            other => return self.fail(format!("`{name}` has the visibility `{other}`")),
        };
        let name = quoted(&format!("{}{name}", self.prefix));
        write_to(
            &mut self.out,
            format_args!("  func.func {visibility}@{name}({arguments}) -> ({results})"),
        );
        let known = ["sym_name", "sym_visibility", "function_type", "arg_attrs", "res_attrs"];
        let others: Vec<_> =
            attributes.iter().filter(|(name, _)| !known.contains(name)).copied().collect();
        let others = self.dictionary(&others, MAX_DEPTH)?;
        if others != "{}" {
            write_to(&mut self.out, format_args!(" attributes {others}"));
        }
        if is_declaration {
            self.out.push('\n');
            return Ok(());
        }
        self.out.push_str(" {\n");
        self.operations(body, "func.return", 2)?;
        self.out.push_str("  }\n");
        Ok(())
    }

    /// Writes the operations of a region, whose last one has the name `end`.
    fn operations(&mut self, block: &Block, end: &str, depth: usize) -> Result<()> {
        for operation in &block.operations {
            self.operation(operation, end, depth)?;
        }
        Ok(())
    }

    /// Notes that the results of a cast are its operands.
    fn cast(&mut self, cast: &Operation) -> Result<()> {
        if cast.operands.len() != cast.results.len() {
            return self.fail("a cast joins or divides values");
        }
        for ((result, _), operand) in cast.results.iter().zip(&cast.operands) {
            self.sources.insert(*result, self.source(*operand));
        }
        Ok(())
    }

    /// Returns the value that a cast has as its operand; others return themselves.
    fn source(&self, value: ValueId) -> ValueId {
        self.sources.get(&value).copied().unwrap_or(value)
    }

    fn operation(&mut self, operation: &Operation, end: &str, depth: usize) -> Result<()> {
        let name = match operation.name.as_str() {
            // It changes the type from VHLO's to the builtin one and back, which are equal here.
            "builtin.unrealized_conversion_cast" => return self.cast(operation),
            name @ ("sdy.manual_computation"
            | "sdy.mesh"
            | "sdy.reshard"
            | "sdy.return"
            | "sdy.sharding_constraint"
            | "sdy.sharding_group") => name,
            name if name.starts_with("chlo.") => name,
            name => match name.strip_prefix("vhlo.") {
                Some(name) => without_version(name),
                None => return self.fail(format!("`{name}` is not an operation of StableHLO")),
            },
        };
        let indent = "  ".repeat(depth);
        let list = |values: &mut dyn Iterator<Item = usize>| {
            values.map(|value| format!("%{value}")).collect::<Vec<_>>().join(", ")
        };
        let types = |values: &mut dyn Iterator<Item = TypeId>| -> Result<String> {
            let types = values.map(|ty| self.type_text(ty, MAX_DEPTH));
            Ok(types.collect::<Result<Vec<String>>>()?.join(", "))
        };
        let mut text = indent.clone();
        if !operation.results.is_empty() {
            text += &list(&mut operation.results.iter().map(|(value, _)| *value));
            text += " = ";
        }
        let full = match name {
            "return" => end.to_owned(),
            "call" => "func.call".to_owned(),
            name if name.contains('.') => name.to_owned(),
            name => format!("stablehlo.{name}"),
        };
        let operands = list(&mut operation.operands.iter().map(|value| self.source(*value)));
        text += &format!("\"{full}\"({operands})");
        let attributes = self.attributes_of(operation, name)?;
        let signature = format!(
            " : ({}) -> ({})\n",
            types(&mut operation.operands.iter().map(|value| self.type_of(*value)))?,
            types(&mut operation.results.iter().map(|(_, ty)| *ty))?
        );
        self.spend(text.len())?;
        self.out += &text;
        if !operation.regions.is_empty() {
            self.out += " (";
            for (index, region) in operation.regions.iter().enumerate() {
                self.out += if index == 0 { "{\n" } else { ", {\n" };
                if !region.arguments.is_empty() {
                    let arguments = region.arguments.iter().map(|(value, ty)| {
                        Ok(format!("%{value}: {}", self.type_text(*ty, MAX_DEPTH)?))
                    });
                    let arguments = arguments.collect::<Result<Vec<String>>>()?.join(", ");
                    write_to(&mut self.out, format_args!("{indent}^bb0({arguments}):\n"));
                }
                self.operations(region, "stablehlo.return", depth + 1)?;
                self.out += &indent;
                self.out += "}";
            }
            self.out += ")";
        }
        if !attributes.is_empty() {
            let each = attributes.iter().map(|(name, value)| match value.as_str() {
                "" => name.clone(),
                value => format!("{name} = {value}"),
            });
            write_to(&mut self.out, format_args!(" {{{}}}", each.collect::<Vec<_>>().join(", ")));
        }
        self.out += &signature;
        Ok(())
    }
}

fn collect_types(operation: &Operation, types: &mut Vec<TypeId>) {
    let mut set = |(value, ty): (usize, TypeId)| {
        if types.len() <= value {
            types.resize(value + 1, usize::MAX);
        }
        types[value] = ty;
    };
    operation.results.iter().copied().for_each(&mut set);
    for region in &operation.regions {
        region.arguments.iter().copied().for_each(&mut set);
    }
    for inner in operation.regions.iter().flat_map(|region| &region.operations) {
        collect_types(inner, types);
    }
}

/// Returns the name of an operation without `_v2`.
pub(crate) fn without_version(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((base, version)) if version.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => name,
    }
}

/// Returns text in quotes.
fn quoted(text: &str) -> String {
    let mut out = "\"".to_owned();
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => write_to(&mut out, format_args!("\\{}", byte as char)),
            0x20..=0x7e => out.push(byte as char),
            _ => write_to(&mut out, format_args!("\\{byte:02X}")),
        }
    }
    out + "\""
}

/// Returns the name of an attribute, in quotes unless it is a word.
fn key_text(name: &str) -> String {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$');
    let is_word = name.bytes().all(is_part)
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if is_word { name.to_owned() } else { quoted(name) }
}
