//! Writes a module as a portable artifact: MLIR's bytecode of the dialect VHLO.
//!
//! Source of the format: <https://mlir.llvm.org/docs/BytecodeFormat/>.

mod casts;
mod encoder;
mod entries;
mod shardy;
mod types;

use crate::entries::AttributeId;
use crate::error::Result;
use crate::module::{Block, Operation, PortableArtifact, ValueId, properties_of};
use casts::{Casts, is_foreign};
use encoder::Encoder;
use entries::{Dialect, Table, Tables};
use std::collections::{HashMap, HashSet};

/// The version of MLIR's format that StableHLO writes from 0.15 on.
const FORMAT: u64 = 6;

/// The numbers of sections.
mod section {
    pub(super) const STRINGS: u8 = 0;
    pub(super) const DIALECTS: u8 = 1;
    pub(super) const ENTRIES: u8 = 2;
    pub(super) const ENTRY_OFFSETS: u8 = 3;
    pub(super) const OPERATIONS: u8 = 4;
    pub(super) const PROPERTIES: u8 = 8;
}

/// Bits of the byte that tells which parts an operation has.
mod part {
    pub(super) const ATTRIBUTES: u8 = 1;
    pub(super) const RESULTS: u8 = 2;
    pub(super) const OPERANDS: u8 = 4;
    pub(super) const REGIONS: u8 = 16;
    pub(super) const PROPERTIES: u8 = 64;
}

impl PortableArtifact {
    /// Writes the artifact, as `stablehlo.deserialize_portable_artifact` and `jax.export` read it.
    ///
    /// Positions in source files, and attributes of dialects other than VHLO and Shardy, are left
    /// out.
    ///
    /// # Errors
    /// The artifact was read from a file of StableHLO before 0.15, whose operations have their
    /// attributes elsewhere: [`parse`](Self::parse) its text. Or it has shardings of types that
    /// MLIR has no encoding for.
    ///
    /// ```
    /// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/dots.bc");
    /// use oxidax_vhlo::PortableArtifact;
    /// let artifact = PortableArtifact::read(&std::fs::read(file)?)?;
    /// let copy = PortableArtifact::read(&artifact.to_bytes()?)?;
    /// assert_eq!(copy.to_text()?, artifact.to_text()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut casts = Casts::default();
        let root = casts.insert(&self.root);
        let mut tables = Tables::of(self);
        let location = tables.unknown_location();
        let mut writer = Writer {
            tables,
            location,
            builtin: casts.builtin,
            operations: Vec::new(),
            operation_indices: HashMap::new(),
            properties: Vec::new(),
            property_indices: HashMap::new(),
            numbers: HashMap::new(),
        };
        let mut operations = Encoder::default();
        // One operation, without arguments around it.
        operations.number_and_flag(1, false);
        writer.operation(&root, 0, &mut operations)?;
        Ok(writer.finish(&self.producer, &operations))
    }
}

struct Writer<'m> {
    tables: Tables<'m>,
    /// The number of the position that all operations have.
    location: usize,
    /// The values of builtin types.
    builtin: HashSet<ValueId>,
    /// The names of operations, each with its dialect, in the order of their numbers.
    operations: Vec<(Dialect, usize)>,
    operation_indices: HashMap<String, usize>,
    properties: Vec<Vec<u8>>,
    property_indices: HashMap<Vec<u8>, usize>,
    /// The numbers of values in the isolated region that is written.
    numbers: HashMap<ValueId, usize>,
}

/// Returns the number of values that a region defines itself.
fn count(block: &Block) -> usize {
    let results = block.operations.iter().map(|operation| operation.results.len());
    block.arguments.len() + results.sum::<usize>()
}

impl Writer<'_> {
    /// Writes an operation in a region after which `outer` values are defined.
    fn operation(&mut self, operation: &Operation, outer: usize, to: &mut Encoder) -> Result<()> {
        let name = self.name(&operation.name)?;
        to.index(name);
        // The attributes of operations of VHLO are VHLO's.
        let dialect = match operation.name.starts_with("vhlo.") {
            true => Dialect::Vhlo,
            false => Dialect::Builtin,
        };
        let properties = self.operation_properties(operation, dialect)?;
        let parts = [
            (part::ATTRIBUTES, operation.dictionary.is_some()),
            (part::PROPERTIES, properties.is_some()),
            (part::RESULTS, !operation.results.is_empty()),
            (part::OPERANDS, !operation.operands.is_empty()),
            (part::REGIONS, !operation.regions.is_empty()),
        ];
        to.bytes.push(parts.iter().map(|(bit, has)| if *has { *bit } else { 0 }).sum());
        to.index(self.location);
        if let Some(dictionary) = operation.dictionary {
            to.index(self.tables.dictionary(dictionary, dialect)?);
        }
        if let Some(properties) = properties {
            to.index(properties);
        }
        if !operation.results.is_empty() {
            to.index(operation.results.len());
            for (value, ty) in &operation.results {
                to.index(self.tables.ty(*ty, self.dialect_of(*value))?);
            }
        }
        if !operation.operands.is_empty() {
            to.index(operation.operands.len());
            for operand in &operation.operands {
                match self.numbers.get(operand) {
                    Some(number) => to.index(*number),
                    None => {
                        let name = &operation.name;
                        return self.tables.fail(format!("an operand of `{name}` is not defined"));
                    }
                }
            }
        }
        if operation.regions.is_empty() {
            return Ok(());
        }
        let is_isolated = matches!(&operation.name[..], "builtin.module" | "vhlo.func_v1")
            || is_foreign(operation);
        to.number_and_flag(operation.regions.len(), is_isolated);
        if !is_isolated {
            return operation.regions.iter().try_for_each(|block| self.region(block, outer, to));
        }
        let around = std::mem::take(&mut self.numbers);
        let mut section = Encoder::default();
        for block in &operation.regions {
            self.region(block, 0, &mut section)?;
            self.numbers.clear();
        }
        self.numbers = around;
        to.section(section::OPERATIONS, &section);
        Ok(())
    }

    fn dialect_of(&self, value: ValueId) -> Dialect {
        if self.builtin.contains(&value) { Dialect::Builtin } else { Dialect::Vhlo }
    }

    fn region(&mut self, block: &Block, outer: usize, to: &mut Encoder) -> Result<()> {
        if block.operations.is_empty() && block.arguments.is_empty() {
            to.index(0);
            return Ok(());
        }
        let values = count(block);
        to.index(1);
        to.index(values);
        to.number_and_flag(block.operations.len(), !block.arguments.is_empty());
        let mut next = outer;
        if !block.arguments.is_empty() {
            to.index(block.arguments.len());
            for (value, ty) in &block.arguments {
                // Without a position.
                to.number_and_flag(self.tables.ty(*ty, self.dialect_of(*value))?, false);
                self.numbers.insert(*value, next);
                next += 1;
            }
            // Without an order of uses.
            to.bytes.push(0);
        }
        for operation in &block.operations {
            self.operation(operation, outer + values, to)?;
            for (value, _) in &operation.results {
                self.numbers.insert(*value, next);
                next += 1;
            }
        }
        Ok(())
    }

    /// Returns the number of an operation's name.
    fn name(&mut self, name: &str) -> Result<usize> {
        if let Some(index) = self.operation_indices.get(name) {
            return Ok(*index);
        }
        let (dialect, base) = match name.split_once('.') {
            Some(("builtin", base)) => (Dialect::Builtin, base),
            Some(("vhlo", base)) => (Dialect::Vhlo, base),
            Some(("sdy", base)) => (Dialect::Shardy, base),
            Some(("chlo", base)) => (Dialect::Chlo, base),
            _ => return self.tables.fail(format!("`{name}` is not an operation of StableHLO")),
        };
        let base = self.tables.string(base);
        self.operations.push((dialect, base));
        self.operation_indices.insert(name.to_owned(), self.operations.len() - 1);
        Ok(self.operations.len() - 1)
    }

    /// Returns the number of an operation's properties.
    fn operation_properties(
        &mut self,
        operation: &Operation,
        dialect: Dialect,
    ) -> Result<Option<usize>> {
        let mut encoder = Encoder::default();
        if operation.name == "builtin.module" {
            for name in ["sym_name", "sym_visibility"] {
                let found = operation.properties.iter().find(|(property, _)| *property == name);
                let attribute = found.map(|(_, id)| self.tables.attribute(*id, dialect));
                encoder.optional(attribute.transpose()?);
            }
        } else if operation.properties.is_empty() {
            let name = operation.name.strip_prefix("vhlo.").unwrap_or_default();
            if properties_of(name).is_some_and(|names| !names.is_empty()) {
                let message = "it was read from a file before StableHLO 0.15: parse its text";
                return self.tables.fail(message);
            }
            return Ok(None);
        } else {
            for (_, id) in &operation.properties {
                let attribute: AttributeId = *id;
                encoder.index(self.tables.attribute(attribute, dialect)?);
            }
        }
        let next = self.properties.len();
        let index = *self.property_indices.entry(encoder.bytes.clone()).or_insert(next);
        if index == next {
            self.properties.push(encoder.bytes);
        }
        Ok(Some(index))
    }

    /// Puts the sections together.
    fn finish(mut self, producer: &str, operations: &Encoder) -> Vec<u8> {
        let mut dialects = Encoder::default();
        let names = [
            (Dialect::Builtin, "builtin"),
            (Dialect::Vhlo, "vhlo"),
            (Dialect::Shardy, "sdy"),
            (Dialect::Chlo, "chlo"),
        ];
        let attributes = self.tables.attributes.entries.iter().map(|(dialect, _)| *dialect);
        let of_operations = self.operations.iter().map(|(dialect, _)| *dialect);
        let used: HashSet<Dialect> = attributes.chain(of_operations).collect();
        let names: Vec<_> = names.into_iter().filter(|(name, _)| used.contains(name)).collect();
        let index_of = |dialect: Dialect| names.iter().position(|(name, _)| *name == dialect);
        let index_of = |dialect: Dialect| index_of(dialect).unwrap_or(0);
        dialects.index(names.len());
        for (_, name) in &names {
            // Without a version.
            dialects.number_and_flag(self.tables.string(name), false);
        }
        dialects.index(self.operations.len());
        for group in self.operations.chunk_by(|a, b| a.0 == b.0) {
            dialects.index(index_of(group[0].0));
            dialects.index(group.len());
            // All names are those of known operations.
            group.iter().for_each(|(_, name)| dialects.number_and_flag(*name, true));
        }
        let (mut entries, mut offsets) = (Encoder::default(), Encoder::default());
        let tables = [&self.tables.attributes, &self.tables.types];
        tables.iter().for_each(|table| offsets.index(table.entries.len()));
        for Table { entries: all, .. } in tables {
            for group in all.chunk_by(|a, b| a.0 == b.0) {
                offsets.index(index_of(group[0].0));
                offsets.index(group.len());
                for (_, bytes) in group {
                    // Encoded by the dialect, not as text.
                    offsets.number_and_flag(bytes.len(), true);
                    entries.bytes.extend_from_slice(bytes);
                }
            }
        }
        let mut strings = Encoder::default();
        strings.index(self.tables.strings.len());
        // The lengths, with the zero at the end, of the last string first.
        self.tables.strings.iter().rev().for_each(|string| strings.index(string.len() + 1));
        for string in &self.tables.strings {
            strings.bytes.extend_from_slice(string.as_bytes());
            strings.bytes.push(0);
        }
        let mut properties = Encoder::default();
        properties.index(self.properties.len());
        for each in &self.properties {
            properties.index(each.len());
            properties.bytes.extend_from_slice(each);
        }
        let mut file = Encoder { bytes: b"ML\xefR".to_vec() };
        file.number(FORMAT);
        file.bytes.extend_from_slice(producer.as_bytes());
        file.bytes.push(0);
        file.section(section::DIALECTS, &dialects);
        file.section(section::ENTRIES, &entries);
        file.section(section::ENTRY_OFFSETS, &offsets);
        file.section(section::OPERATIONS, operations);
        file.section(section::STRINGS, &strings);
        file.section(section::PROPERTIES, &properties);
        file.bytes
    }
}
