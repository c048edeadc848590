//! [`PortableArtifact`]: the operations of a module.

use crate::attribute_names::ATTRIBUTES;
use crate::cursor::{Cursor, Section};
use crate::entries::{Attribute, AttributeId, Type, TypeId};
use crate::error::{Error, Result};
use crate::shardy::Shardy;

/// The number of a value: a result of an operation or an argument of a block. Each value of a
/// module has another one.
pub(crate) type ValueId = usize;

/// A module of StableHLO, as operations of the dialect VHLO.
#[derive(Clone, Debug)]
pub struct PortableArtifact {
    pub(crate) producer: String,
    /// The types, by their numbers.
    pub(crate) types: Vec<Type>,
    /// The attributes, by their numbers.
    pub(crate) attributes: Vec<Attribute>,
    /// The outermost operation, `builtin.module`.
    pub(crate) root: Operation,
    /// The length of the file.
    pub(crate) bytes: usize,
}

/// An operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operation {
    /// The dialect and the name: `vhlo.add_v1`.
    pub(crate) name: String,
    /// The names and values of its properties.
    pub(crate) properties: Vec<(&'static str, AttributeId)>,
    /// A dictionary of its other attributes. Before version 5 of the format, it has all of them.
    pub(crate) dictionary: Option<AttributeId>,
    /// The results, with their types.
    pub(crate) results: Vec<(ValueId, TypeId)>,
    /// The operands.
    pub(crate) operands: Vec<ValueId>,
    /// The regions, each of at most one block.
    pub(crate) regions: Vec<Block>,
}

/// The operations of a region.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    /// The arguments, with their types.
    pub(crate) arguments: Vec<(ValueId, TypeId)>,
    /// The operations in order.
    pub(crate) operations: Vec<Operation>,
}

/// Versions of MLIR's format, named after what each added.
mod version {
    pub(super) const DIALECT_VERSIONS: u64 = 1;
    pub(super) const LAZY_REGIONS: u64 = 2;
    pub(super) const USE_LIST_ORDERS: u64 = 3;
    pub(super) const SHORT_ARGUMENTS: u64 = 4;
    pub(super) const PROPERTIES: u64 = 5;
    pub(super) const LATEST: u64 = 6;
}

/// Nesting of regions at which a module is refused.
const MAX_DEPTH: usize = 64;

/// Length of the name of a dialect or an operation at which a module is refused, in bytes.
const MAX_NAME: usize = 64;

/// The tables to which operations refer.
struct Tables<'a> {
    version: u64,
    operation_names: Vec<String>,
    types: Vec<Type>,
    attributes: Vec<Attribute>,
    /// The properties of operations, each an encoded number of a dictionary.
    properties: Vec<Cursor<'a>>,
}

impl PortableArtifact {
    /// Reads a portable artifact, as `jax.export` and `stablehlo.serialize_portable_artifact` write
    /// it.
    ///
    /// # Errors
    /// The bytes are damaged, or of another format, or of a later version of StableHLO than 1.20.
    ///
    /// ```
    /// let error = oxidax_vhlo::PortableArtifact::read(b"module {}").unwrap_err();
    /// assert!(error.to_string().contains("not MLIR bytecode"), "{error}");
    /// ```
    pub fn read(bytes: &[u8]) -> Result<PortableArtifact> {
        let mut cursor = Cursor::new(bytes);
        if cursor.take(4).is_ok_and(|magic| magic == b"ML\xefR") {
            PortableArtifact::read_after_magic(&mut cursor)
        } else {
            Err(Error::at(0, "this is not MLIR bytecode"))
        }
    }

    /// Returns the program that wrote it, with the version of StableHLO: `StableHLO_v1.15.0`.
    pub fn producer(&self) -> &str {
        &self.producer
    }

    fn read_after_magic(cursor: &mut Cursor<'_>) -> Result<PortableArtifact> {
        let version = cursor.number()?;
        if version > version::LATEST {
            return cursor.fail(format!("version {version} of MLIR's format is not known"));
        }
        let producer = cursor.text()?.to_owned();
        let mut sections = Vec::new();
        while !cursor.is_empty() {
            sections.push(cursor.section()?);
        }
        let end = cursor.at();
        let find = |wanted: Section| sections.iter().find(|(section, _)| *section == wanted);
        let need = |wanted: Section| match find(wanted) {
            Some((_, cursor)) => Ok(cursor.clone()),
            None => {
                Err(Error::at(end, format!("there is no section of {wanted:?}").to_lowercase()))
            }
        };
        let strings = read_strings(&mut need(Section::Strings)?)?;
        let (dialects, operation_names) =
            read_dialects(&mut need(Section::Dialects)?, version, &strings)?;
        let (types, attributes) = read_entries(
            &mut need(Section::EntryOffsets)?,
            &mut need(Section::Entries)?,
            &dialects,
            &strings,
        )?;
        let properties = match find(Section::Properties) {
            Some((_, cursor)) => cursor.clone().list(|cursor| {
                let length = cursor.index()?;
                cursor.part(length)
            })?,
            None => Vec::new(),
        };
        let tables = Tables { version, operation_names, types, attributes, properties };
        let mut values = Values::default();
        let mut cursor = need(Section::Operations)?;
        let (operations, has_arguments) = cursor.number_and_flag()?;
        if operations != 1 || has_arguments {
            return cursor.fail("it does not have one outermost operation");
        }
        let root = tables.operation(&mut cursor, &mut values, MAX_DEPTH)?;
        let Tables { types, attributes, .. } = tables;
        Ok(PortableArtifact { producer, types, attributes, root, bytes: end })
    }
}

fn read_strings<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<&'a str>> {
    // The lengths, with the zero at the end, of the last string first.
    let mut lengths = cursor.list(Cursor::index)?;
    lengths.reverse();
    lengths.into_iter().map(|length| cursor.part(length)?.text()).collect()
}

/// Returns the names of dialects, and those of operations with their dialects.
fn read_dialects<'a>(
    cursor: &mut Cursor<'a>,
    version: u64,
    strings: &[&'a str],
) -> Result<(Vec<&'a str>, Vec<String>)> {
    let name = |cursor: &Cursor<'_>, index: usize| match strings.get(index) {
        Some(name) if name.len() > MAX_NAME => {
            cursor.fail(format!("a name is longer than {MAX_NAME} bytes"))
        }
        Some(name) => Ok(*name),
        None => cursor.fail(format!("there is no string {index}")),
    };
    let dialects = cursor.list(|cursor| {
        if version < version::DIALECT_VERSIONS {
            let index = cursor.index()?;
            return name(cursor, index);
        }
        let (index, is_versioned) = cursor.number_and_flag()?;
        if is_versioned {
            cursor.section()?;
        }
        name(cursor, index)
    })?;
    if version >= version::SHORT_ARGUMENTS {
        // The number of all operations, which is not needed.
        cursor.number()?;
    }
    let mut operations = Vec::new();
    while !cursor.is_empty() {
        let index = cursor.index()?;
        let Some(dialect) = dialects.get(index) else {
            return cursor.fail(format!("there is no dialect {index}"));
        };
        operations.extend(cursor.list(|cursor| {
            let index = match version >= version::PROPERTIES {
                true => cursor.number_and_flag()?.0,
                false => cursor.index()?,
            };
            Ok(format!("{dialect}.{}", name(cursor, index)?))
        })?);
    }
    Ok((dialects, operations))
}

/// Reads types and attributes. Attributes come first in the file, and need the types.
fn read_entries(
    offsets: &mut Cursor<'_>,
    entries: &mut Cursor<'_>,
    dialects: &[&str],
    strings: &[&str],
) -> Result<(Vec<Type>, Vec<Attribute>)> {
    let counts = [offsets.index()?, offsets.index()?];
    let mut kinds: [Vec<(&str, Cursor<'_>)>; 2] = [Vec::new(), Vec::new()];
    for (count, found) in counts.into_iter().zip(&mut kinds) {
        while found.len() < count {
            let index = offsets.index()?;
            let Some(dialect) = dialects.get(index) else {
                return offsets.fail(format!("there is no dialect {index}"));
            };
            for _ in 0..offsets.count()? {
                let (length, is_encoded) = offsets.number_and_flag()?;
                let entry = entries.part(length)?;
                if !is_encoded {
                    return entry.fail(format!("an entry of `{dialect}` is text"));
                }
                found.push((dialect, entry));
            }
        }
    }
    let [attributes, types] = kinds;
    let unknown = |dialect: &str, cursor: &Cursor<'_>| {
        Error::at(cursor.at(), format!("the dialect `{dialect}` is not VHLO"))
    };
    let types = types.into_iter().map(|(dialect, mut cursor)| match dialect {
        "vhlo" => Type::read_vhlo(&mut cursor),
        "builtin" => Type::read_builtin(&mut cursor),
        _ => Err(unknown(dialect, &cursor)),
    });
    let types: Vec<Type> = types.collect::<Result<_>>()?;
    let attributes = attributes.into_iter().map(|(dialect, mut cursor)| match dialect {
        "vhlo" => Attribute::read_vhlo(&mut cursor, &types, strings),
        "builtin" => Attribute::read_builtin(&mut cursor, &types, strings),
        "sdy" => Shardy::read(&mut cursor, strings)
            .map(|read| read.map_or(Attribute::Foreign, Attribute::Shardy)),
        // Other dialects annotate operations, and are not part of StableHLO.
        _ => Ok(Attribute::Foreign),
    });
    let attributes = attributes.collect::<Result<_>>()?;
    Ok((types, attributes))
}

/// The values that can be referred to, by their numbers in the region and those around it.
#[derive(Default)]
struct Values {
    /// The values of each isolated region, outermost first.
    scopes: Vec<Vec<ValueId>>,
    /// The next value that is defined, in each region.
    next: Vec<usize>,
    /// The number of values so far.
    count: usize,
}

impl Values {
    /// Adds values of a region, all of which can be referred to before they are defined.
    fn enter(&mut self, count: usize) {
        let scope = self.scopes.last_mut();
        let first = scope.as_ref().map_or(0, |scope| scope.len());
        if let Some(scope) = scope {
            scope.extend(self.count..self.count + count);
        }
        self.count += count;
        self.next.push(first);
    }

    fn leave(&mut self, count: usize) {
        self.next.pop();
        if let Some(scope) = self.scopes.last_mut() {
            scope.truncate(scope.len() - count);
        }
    }

    fn define(&mut self, cursor: &Cursor<'_>) -> Result<ValueId> {
        let next = self.next.last_mut();
        let found = next.as_ref().and_then(|next| self.scopes.last()?.get(**next).copied());
        if let Some(next) = next {
            *next += 1;
        }
        match found {
            Some(value) => Ok(value),
            None => cursor.fail("a region defines more values than it states"),
        }
    }

    fn get(&self, cursor: &Cursor<'_>, index: usize) -> Result<ValueId> {
        match self.scopes.last().and_then(|scope| scope.get(index)) {
            Some(value) => Ok(*value),
            None => cursor.fail(format!("there is no value {index}")),
        }
    }
}

/// The attributes of operations of Shardy, in the order of their properties.
const SHARDY: [(&str, &[&str]); 5] = [
    ("manual_computation", &["in_shardings", "manual_axes", "out_shardings"]),
    ("mesh", &["mesh", "sym_name"]),
    ("reshard", &["sharding"]),
    ("sharding_constraint", &["sharding"]),
    ("sharding_group", &["group_id"]),
];

/// The operations of CHLO that oxidax writes, with their attributes. Compilers expand them.
pub(crate) const CHLO: [(&str, &[&str]); 19] = [
    ("acos", &[]),
    ("acosh", &[]),
    ("asin", &[]),
    ("asinh", &[]),
    ("atan", &[]),
    ("atanh", &[]),
    ("bessel_i1e", &[]),
    ("cosh", &[]),
    ("digamma", &[]),
    ("erf", &[]),
    ("erf_inv", &[]),
    ("erfc", &[]),
    ("lgamma", &[]),
    ("next_after", &[]),
    ("polygamma", &[]),
    ("sinh", &[]),
    ("tan", &[]),
    ("top_k", &["k"]),
    ("zeta", &[]),
];

/// Returns the names of the properties of an operation of Shardy or CHLO; `None` if it has none.
pub(crate) fn properties_of_other(name: &str) -> Option<&'static [&'static str]> {
    let (dialect, name) = name.split_once('.')?;
    let known = match dialect {
        "sdy" => &SHARDY[..],
        "chlo" => &CHLO,
        _ => return None,
    };
    known.iter().find(|(operation, _)| *operation == name).map(|found| found.1)
}

/// Bits of the byte that tells which parts an operation has.
mod part {
    pub(super) const ATTRIBUTES: u8 = 1;
    pub(super) const RESULTS: u8 = 2;
    pub(super) const OPERANDS: u8 = 4;
    pub(super) const SUCCESSORS: u8 = 8;
    pub(super) const REGIONS: u8 = 16;
    pub(super) const USE_LIST_ORDERS: u8 = 32;
    pub(super) const PROPERTIES: u8 = 64;
}

/// Returns the names of the properties of an operation of VHLO.
pub(crate) fn properties_of(name: &str) -> Option<&'static [&'static str]> {
    let found = ATTRIBUTES.binary_search_by_key(&name, |(operation, _)| operation);
    found.map(|index| ATTRIBUTES[index].1).ok()
}

impl Tables<'_> {
    fn operation(
        &self,
        cursor: &mut Cursor<'_>,
        values: &mut Values,
        depth: usize,
    ) -> Result<Operation> {
        let Some(depth) = depth.checked_sub(1) else {
            return cursor.fail(format!("regions are nested deeper than {MAX_DEPTH}"));
        };
        let name = cursor.index()?;
        let Some(name) = self.operation_names.get(name) else {
            return cursor.fail(format!("there is no operation name {name}"));
        };
        let parts = cursor.byte()?;
        let has = |part: u8| parts & part != 0;
        // The position in a source file.
        cursor.index()?;
        if name.strip_prefix("vhlo.").is_some_and(|name| properties_of(name).is_none()) {
            return cursor.fail(format!("`{name}` is not known: StableHLO up to 1.20 is"));
        }
        let mut operation = Operation { name: name.clone(), ..Operation::default() };
        if has(part::ATTRIBUTES) {
            operation.dictionary = Some(cursor.index()?);
        }
        if has(part::PROPERTIES) {
            let index = cursor.index()?;
            let Some(properties) = self.properties.get(index) else {
                return cursor.fail(format!("there are no properties {index}"));
            };
            self.add_properties(properties.clone(), &mut operation)?;
        }
        if has(part::RESULTS) {
            let types = cursor.list(Cursor::index)?;
            for ty in types {
                self.check_type(cursor, ty)?;
                operation.results.push((values.define(cursor)?, ty));
            }
        }
        if has(part::OPERANDS) {
            let operands = cursor.list(Cursor::index)?;
            let operands = operands.into_iter().map(|index| values.get(cursor, index));
            operation.operands = operands.collect::<Result<_>>()?;
        }
        if has(part::SUCCESSORS) {
            return cursor.fail("jumps between blocks are not supported");
        }
        if has(part::USE_LIST_ORDERS) {
            skip_use_list_orders(cursor, operation.results.len())?;
        }
        if has(part::REGIONS) {
            let (count, is_isolated) = cursor.number_and_flag()?;
            let mut section = None;
            if is_isolated && self.version >= version::LAZY_REGIONS {
                let (Section::Operations, inner) = cursor.section()? else {
                    return cursor.fail("regions are not in a section of operations");
                };
                section = Some(inner);
            }
            let cursor = section.as_mut().unwrap_or(cursor);
            for _ in 0..count {
                operation.regions.push(self.region(cursor, values, is_isolated, depth)?);
            }
        }
        Ok(operation)
    }

    fn region(
        &self,
        cursor: &mut Cursor<'_>,
        values: &mut Values,
        is_isolated: bool,
        depth: usize,
    ) -> Result<Block> {
        let mut block = Block::default();
        let blocks = cursor.index()?;
        if blocks == 0 {
            return Ok(block);
        }
        let count = cursor.count()?;
        // Each value takes a byte at least where it is defined.
        if values.count + count > cursor.file_length() {
            return cursor.fail("regions state more values than fit into the file");
        }
        if blocks != 1 {
            return cursor.fail(format!("a region of {blocks} blocks is not supported"));
        }
        if is_isolated {
            values.scopes.push(Vec::new());
        }
        values.enter(count);
        let (operations, has_arguments) = cursor.number_and_flag()?;
        if has_arguments {
            block.arguments = self.arguments(cursor, values)?;
        }
        for _ in 0..operations {
            block.operations.push(self.operation(cursor, values, depth)?);
        }
        values.leave(count);
        if is_isolated {
            values.scopes.pop();
        }
        Ok(block)
    }

    fn arguments(
        &self,
        cursor: &mut Cursor<'_>,
        values: &mut Values,
    ) -> Result<Vec<(ValueId, TypeId)>> {
        let count = cursor.count()?;
        let mut arguments = Vec::with_capacity(count);
        for _ in 0..count {
            let (ty, has_location) = match self.version >= version::SHORT_ARGUMENTS {
                true => cursor.number_and_flag()?,
                false => (cursor.index()?, true),
            };
            if has_location {
                cursor.index()?;
            }
            self.check_type(cursor, ty)?;
            arguments.push((values.define(cursor)?, ty));
        }
        if self.version >= version::USE_LIST_ORDERS && cursor.byte()? != 0 {
            skip_use_list_orders(cursor, count)?;
        }
        Ok(arguments)
    }

    fn check_type(&self, cursor: &Cursor<'_>, ty: TypeId) -> Result<()> {
        match self.types.get(ty) {
            Some(_) => Ok(()),
            None => cursor.fail(format!("there is no type {ty}")),
        }
    }

    /// Adds the properties of an operation: its attributes in the order of their declaration.
    fn add_properties(&self, mut cursor: Cursor<'_>, operation: &mut Operation) -> Result<()> {
        let Some((dialect, name)) = operation.name.split_once('.') else { return Ok(()) };
        if operation.name == "builtin.module" {
            for name in ["sym_name", "sym_visibility"] {
                let (value, is_present) = cursor.number_and_flag()?;
                if is_present {
                    operation.properties.push((name, value));
                }
            }
            return Ok(());
        }
        let names = match dialect {
            "vhlo" => properties_of(name),
            _ => properties_of_other(&operation.name),
        };
        if let Some(names) = names {
            for name in names {
                operation.properties.push((name, cursor.index()?));
            }
            if !cursor.is_empty() {
                return cursor.fail(format!("`{}` has more properties than known", operation.name));
            }
        }
        Ok(())
    }
}

/// Skips the orders in which the uses of values are listed in memory, which have no meaning.
fn skip_use_list_orders(cursor: &mut Cursor<'_>, values: usize) -> Result<()> {
    let orders = if values > 1 { cursor.count()? } else { 1 };
    for _ in 0..orders {
        if values > 1 {
            cursor.index()?;
        }
        let (count, _) = cursor.number_and_flag()?;
        for _ in 0..count {
            cursor.index()?;
        }
    }
    Ok(())
}
