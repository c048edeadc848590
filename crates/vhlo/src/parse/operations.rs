//! Operations, their operands, results and regions.

use super::scanner::Parsed;
use super::{MAX_DEPTH, Parser};
use crate::entries::TypeId;
use crate::module::{Block, Operation, ValueId, properties_of_other};
use std::ops::Range;

impl<'t> Parser<'t> {
    /// Defines values of these types with a name.
    pub(super) fn define(&mut self, name: &'t str, types: &[TypeId]) -> Parsed<Range<ValueId>> {
        let first = self.values.len();
        self.values.extend_from_slice(types);
        let ids = first..self.values.len();
        self.defined.push(name);
        match self.names.insert(name, ids.clone()) {
            None => Ok(ids),
            Some(_) => self.scanner.fail(format!("`%{name}` is defined twice")),
        }
    }

    /// Parses the use of a value.
    fn operand(&mut self) -> Parsed<ValueId> {
        let at = self.scanner.at();
        let name = self.scanner.value()?;
        let index = match self.scanner.eat_prefix("#") {
            true => match self.scanner.digits().and_then(|digits| digits.parse().ok()) {
                Some(index) => index,
                None => return self.scanner.fail("expected the index of a result after `#`"),
            },
            false => 0_usize,
        };
        let found = self.names.get(name).and_then(|ids| ids.clone().nth(index));
        match found {
            Some(id) => Ok(id),
            None => self.scanner.fail_at(at, format!("there is no value `%{name}`")),
        }
    }

    /// Parses operations up to the end of a region.
    pub(super) fn operations(&mut self, depth: usize) -> Parsed<Vec<Operation>> {
        let mut operations = Vec::new();
        while !self.scanner.eat("}") {
            operations.push(self.operation(depth)?);
        }
        Ok(operations)
    }

    /// Parses an operation.
    pub(super) fn operation(&mut self, depth: usize) -> Parsed<Operation> {
        let Some(depth) = depth.checked_sub(1) else {
            return self.scanner.fail(format!("regions are nested deeper than {MAX_DEPTH}"));
        };
        // The names of results, each with the number of them.
        let mut names: Vec<(&'t str, usize)> = Vec::new();
        if self.scanner.peek() == Some(b'%') {
            loop {
                let name = self.scanner.value()?;
                let count = match self.scanner.eat(":") {
                    true => usize::try_from(self.scanner.integer()?).unwrap_or(usize::MAX),
                    false => 1,
                };
                names.push((name, count));
                if !self.scanner.eat(",") {
                    break;
                }
            }
            self.scanner.expect("=")?;
        }
        self.scanner.skip_space();
        let at = self.scanner.at();
        let name = self.scanner.string()?;
        let mut operands = Vec::new();
        self.scanner.expect("(")?;
        while !self.scanner.is_end(")", operands.is_empty())? {
            operands.push(self.operand()?);
        }
        let mut attributes = match self.scanner.eat("<{") {
            true => {
                let entries = self.entries("}", MAX_DEPTH)?;
                self.scanner.expect(">")?;
                entries
            }
            false => Vec::new(),
        };
        let mut regions = Vec::new();
        if self.scanner.eat("(") {
            while !self.scanner.is_end(")", regions.is_empty())? {
                regions.push(self.region(depth)?);
            }
        }
        if self.scanner.eat("{") {
            attributes.extend(self.entries("}", MAX_DEPTH)?);
        }
        self.scanner.expect(":")?;
        let signature = self.type_list("(", ")", MAX_DEPTH)?;
        self.scanner.expect("->")?;
        let types = match self.scanner.peek() {
            Some(b'(') => self.type_list("(", ")", MAX_DEPTH)?,
            _ => vec![self.ty(MAX_DEPTH)?],
        };
        self.skip_location()?;
        let of_operands = operands.iter().map(|operand| self.values[*operand]);
        if !of_operands.eq(signature.iter().copied()) {
            let message = format!("the types of the operands of `{name}` are others");
            return self.scanner.fail_at(at, message);
        }
        let stated = names.iter().try_fold(0_usize, |sum, (_, count)| sum.checked_add(*count));
        if !names.is_empty() && stated != Some(types.len()) {
            let message = format!("`{name}` has {} results, and other names", types.len());
            return self.scanner.fail_at(at, message);
        }
        let mut results = Vec::with_capacity(types.len());
        let mut rest = &types[..];
        for (name, count) in names {
            let (these, others) = rest.split_at(count);
            let ids = self.define(name, these)?;
            results.extend(ids.zip(these.iter().copied()));
            rest = others;
        }
        // Results without a name cannot be referred to.
        for ty in rest {
            results.push((self.values.len(), *ty));
            self.values.push(*ty);
        }
        let mut operation = Operation { operands, results, regions, ..Operation::default() };
        if name == "sdy.return" || properties_of_other(&name).is_some() {
            self.finish_other(at, name, attributes, &mut operation)?;
        } else {
            self.legalize(at, &name, attributes, &mut operation)?;
        }
        Ok(operation)
    }

    fn region(&mut self, depth: usize) -> Parsed<Block> {
        self.scanner.expect("{")?;
        let outer = self.defined.len();
        let mut block = Block::default();
        if self.scanner.eat("^") {
            self.scanner.word()?;
            if self.scanner.eat("(") {
                while !self.scanner.is_end(")", block.arguments.is_empty())? {
                    let value = self.scanner.value()?;
                    self.scanner.expect(":")?;
                    let ty = self.ty(MAX_DEPTH)?;
                    self.skip_location()?;
                    block.arguments.extend(self.define(value, &[ty])?.map(|id| (id, ty)));
                }
            }
            self.scanner.expect(":")?;
        }
        block.operations = self.operations(depth)?;
        if block.operations.is_empty() {
            return self.scanner.fail("a region has no operations");
        }
        // Values of a region cannot be referred to outside.
        for name in self.defined.drain(outer..) {
            self.names.remove(name);
        }
        Ok(block)
    }
}
