//! Parses StableHLO text in MLIR's generic form.
//!
//! It reads what oxidax writes, and what [`PortableArtifact::to_text`] returns: functions, and
//! operations as `"stablehlo.add"(%0, %1) : (…) -> …`. Positions in source files are skipped.

mod dense;
mod error;
mod floats;
mod legalize;
mod literal;
mod operations;
mod records;
mod scanner;
mod shardy;
mod types;

pub use error::TextError;

use crate::entries::{Attribute, AttributeId, Type, TypeId};
use crate::module::{Block, Operation, PortableArtifact, ValueId};
use crate::version::VhloVersion;
use literal::Literal;
use scanner::{Parsed, Scanner};
use std::collections::HashMap;
use std::ops::Range;

/// Nesting of regions, types and attributes at which a text is refused.
const MAX_DEPTH: usize = 64;

/// The state of a parser.
struct Parser<'t> {
    scanner: Scanner<'t>,
    /// The version that is written.
    target: VhloVersion,
    /// The oldest version that has all parts so far, and the part that needs it.
    needed: (VhloVersion, String),
    types: Vec<Type>,
    type_ids: HashMap<Type, TypeId>,
    attributes: Vec<Attribute>,
    /// The types of all values.
    values: Vec<TypeId>,
    /// The values that can be referred to, by their names.
    names: HashMap<&'t str, Range<ValueId>>,
    /// The names in the order of their definitions.
    defined: Vec<&'t str>,
}

impl PortableArtifact {
    /// Parses StableHLO text in MLIR's generic form, as oxidax and [`to_text`](Self::to_text) write
    /// it. The artifact has the oldest version from [`VhloVersion::OLDEST`] that has all of the
    /// module's operations, so that most readers accept it.
    ///
    /// # Errors
    /// The text is not a module, or has operations that versions up to [`VhloVersion::LATEST`] do
    /// not have.
    ///
    /// ```
    /// use oxidax_vhlo::PortableArtifact;
    /// let text = r#"module @"double" {
    ///   func.func public @main(%0: tensor<4xf32>) -> (tensor<4xf32>) {
    ///     %1 = "stablehlo.add"(%0, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ///     "func.return"(%1) : (tensor<4xf32>) -> ()
    ///   }
    /// }"#;
    /// let artifact = PortableArtifact::parse(text)?;
    /// assert_eq!(artifact.producer(), "StableHLO_v1.4.0");
    /// let bytes = artifact.to_bytes()?;
    /// assert!(PortableArtifact::read(&bytes)?.to_text()?.contains("stablehlo.add"));
    /// let error = PortableArtifact::parse("module { func.call }").unwrap_err();
    /// assert!(error.to_string().starts_with("StableHLO text, line 1, column 10: "), "{error}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse(text: &str) -> Result<PortableArtifact, TextError> {
        let mut target = VhloVersion::OLDEST;
        loop {
            let mut parser = Parser::new(text, target);
            let root = parser.module()?;
            // Operations of a later version can need a later one still.
            if parser.needed.0 <= target {
                return Ok(parser.finish(root));
            }
            target = parser.needed.0;
            if target > VhloVersion::LATEST {
                return parser.check_version(VhloVersion::LATEST).map(|()| parser.finish(root));
            }
        }
    }

    /// As [`parse`](Self::parse), for a version of StableHLO. Readers of older versions refuse the
    /// artifact.
    ///
    /// # Errors
    /// As [`parse`](Self::parse); or the module has a part that the version does not have; or the
    /// version is not one that this crate writes.
    pub fn parse_for(text: &str, version: VhloVersion) -> Result<PortableArtifact, TextError> {
        let (first, last) = (VhloVersion::OLDEST, VhloVersion::LATEST);
        let mut parser = Parser::new(text, version);
        if !(first..=last).contains(&version) {
            let message =
                format!("StableHLO {version} cannot be written: versions {first} to {last} can be");
            return parser.scanner.fail(message);
        }
        let root = parser.module()?;
        parser.check_version(version)?;
        Ok(parser.finish(root))
    }
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, target: VhloVersion) -> Parser<'t> {
        Parser {
            scanner: Scanner::new(text),
            target,
            needed: (VhloVersion::OLDEST, String::new()),
            types: Vec::new(),
            type_ids: HashMap::new(),
            attributes: Vec::new(),
            values: Vec::new(),
            names: HashMap::new(),
            defined: Vec::new(),
        }
    }

    fn finish(self, root: Operation) -> PortableArtifact {
        PortableArtifact {
            producer: format!("StableHLO_v{}", self.target),
            types: self.types,
            attributes: self.attributes,
            root,
            bytes: self.scanner.at(),
        }
    }

    /// Notes that a part needs a version.
    fn need(&mut self, version: VhloVersion, part: impl FnOnce() -> String) {
        if version > self.needed.0 {
            self.needed = (version, part());
        }
    }

    /// Checks that a version has all parts.
    fn check_version(&self, version: VhloVersion) -> Parsed<()> {
        match &self.needed {
            (needed, part) if *needed > version => {
                let message = format!("{part} needs StableHLO {needed}, and {version} is written");
                self.scanner.fail(message)
            }
            _ => Ok(()),
        }
    }

    /// Adds an attribute to the module.
    fn attribute(&mut self, attribute: Attribute) -> AttributeId {
        self.attributes.push(attribute);
        self.attributes.len() - 1
    }

    fn string_attribute(&mut self, text: &str) -> AttributeId {
        self.attribute(Attribute::String(text.to_owned()))
    }

    fn module(&mut self) -> Parsed<Operation> {
        self.skip_aliases();
        self.scanner.expect("module")?;
        let mut root = Operation { name: "builtin.module".to_owned(), ..Operation::default() };
        if self.scanner.peek() == Some(b'@') {
            let name = self.scanner.symbol()?;
            root.properties.push(("sym_name", self.string_attribute(&name)));
        }
        if self.scanner.eat("attributes") {
            self.scanner.expect("{")?;
            let entries = self.entries("}", MAX_DEPTH)?;
            root.dictionary = self.dictionary(entries)?;
        }
        self.scanner.expect("{")?;
        let mut block = Block::default();
        while !self.scanner.eat("}") {
            let operation = match self.scanner.peek() {
                Some(b'"') => self.operation(MAX_DEPTH)?,
                _ if self.scanner.eat("sdy.mesh") => self.mesh_declaration()?,
                _ => {
                    self.scanner.expect("func.func")?;
                    self.function()?
                }
            };
            self.skip_location()?;
            block.operations.push(operation);
        }
        self.skip_location()?;
        self.skip_aliases();
        if self.scanner.peek().is_some() {
            let found = self.scanner.found();
            return self.scanner.fail(format!("expected the end of the text, found {found}"));
        }
        root.regions.push(block);
        Ok(root)
    }

    /// Skips `#loc0 = …`.
    fn skip_aliases(&mut self) {
        while self.scanner.peek() == Some(b'#') {
            self.scanner.skip_line();
        }
    }

    /// Skips `loc(…)`.
    fn skip_location(&mut self) -> Parsed<()> {
        match self.scanner.eat("loc") {
            true => self.scanner.skip_parentheses(),
            false => Ok(()),
        }
    }

    /// Parses `@mesh = <["data"=8]>`.
    fn mesh_declaration(&mut self) -> Parsed<Operation> {
        let name = self.scanner.symbol()?;
        self.scanner.expect("=")?;
        let mesh = self.mesh()?;
        let name = self.string_attribute(&name);
        Ok(Operation {
            name: "sdy.mesh".to_owned(),
            properties: vec![("mesh", mesh), ("sym_name", name)],
            ..Operation::default()
        })
    }

    /// Parses a function after `func.func`.
    fn function(&mut self) -> Parsed<Operation> {
        self.names.clear();
        self.defined.clear();
        let visibility = ["public", "private"].into_iter().find(|word| self.scanner.eat(word));
        let name = self.scanner.symbol()?;
        let mut block = Block::default();
        let (mut inputs, mut of_inputs) = (Vec::new(), Vec::new());
        self.scanner.expect("(")?;
        let mut named = None;
        while !self.scanner.is_end(")", inputs.is_empty())? {
            let value = match self.scanner.peek() {
                Some(b'%') => {
                    let value = self.scanner.value()?;
                    self.scanner.expect(":")?;
                    Some(value)
                }
                _ => None,
            };
            if *named.get_or_insert(value.is_some()) != value.is_some() {
                return self.scanner.fail("arguments have names in part");
            }
            let ty = self.ty(MAX_DEPTH)?;
            inputs.push(ty);
            of_inputs.push(self.value_attributes()?);
            if let Some(value) = value {
                let ids = self.define(value, &[ty])?;
                block.arguments.extend(ids.map(|id| (id, ty)));
            }
        }
        let (mut results, mut of_results) = (Vec::new(), Vec::new());
        if self.scanner.eat("->") {
            match self.scanner.eat("(") {
                true => {
                    while !self.scanner.is_end(")", results.is_empty())? {
                        results.push(self.ty(MAX_DEPTH)?);
                        of_results.push(self.value_attributes()?);
                    }
                }
                false => {
                    results.push(self.ty(MAX_DEPTH)?);
                    of_results.push(Vec::new());
                }
            }
        }
        let others = match self.scanner.eat("attributes") {
            true => {
                self.scanner.expect("{")?;
                self.entries("}", MAX_DEPTH)?
            }
            false => Vec::new(),
        };
        if self.scanner.eat("{") {
            block.operations = self.operations(MAX_DEPTH)?;
        }
        let ty = self.type_id(Type::Function(inputs, results));
        let dictionary = self.dictionary(others)?;
        let [of_inputs, of_results] = [self.per_value(of_inputs)?, self.per_value(of_results)?];
        let properties = vec![
            ("arg_attrs", of_inputs),
            ("function_type", self.attribute(Attribute::Type(ty))),
            ("res_attrs", of_results),
            ("sym_name", self.string_attribute(&name)),
            ("sym_visibility", self.string_attribute(visibility.unwrap_or_default())),
        ];
        let name = "vhlo.func_v1".to_owned();
        Ok(Operation { name, properties, dictionary, regions: vec![block], ..Operation::default() })
    }

    fn value_attributes(&mut self) -> Parsed<Vec<(String, Literal)>> {
        let entries = match self.scanner.eat("{") {
            true => self.entries("}", MAX_DEPTH),
            false => Ok(Vec::new()),
        };
        self.skip_location()?;
        entries
    }

    /// Adds a list with a dictionary for each value; without any if all are empty.
    fn per_value(&mut self, each: Vec<Vec<(String, Literal)>>) -> Parsed<AttributeId> {
        let mut list = Vec::new();
        if each.iter().any(|entries| !entries.is_empty()) {
            for entries in each {
                let dictionary = self.lower(Literal::Dictionary(entries))?;
                list.push(dictionary);
            }
        }
        Ok(self.attribute(Attribute::Array(list)))
    }
}
