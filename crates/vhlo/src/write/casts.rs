//! Casts between VHLO's types and the builtin ones, which operations of other dialects have.

use crate::entries::TypeId;
use crate::module::{Block, Operation, ValueId};
use std::collections::{HashMap, HashSet};

const CAST: &str = "builtin.unrealized_conversion_cast";

/// Inserts casts.
#[derive(Default)]
pub(super) struct Casts {
    /// The number of values so far.
    count: usize,
    types: HashMap<ValueId, TypeId>,
    /// The values of builtin types.
    pub(super) builtin: HashSet<ValueId>,
    /// The casts of values of builtin types to VHLO's.
    of_vhlo: HashMap<ValueId, ValueId>,
    /// The operands of casts that the module had already, by their results.
    sources: HashMap<ValueId, ValueId>,
}

/// Returns true for the operations whose operands, results and arguments have builtin types.
pub(super) fn is_foreign(operation: &Operation) -> bool {
    operation.name.starts_with("sdy.") || operation.name.starts_with("chlo.")
}

impl Casts {
    /// Returns the operation with casts in its regions. Those that it has are replaced.
    pub(super) fn insert(&mut self, root: &Operation) -> Operation {
        self.count = 1 + largest_value(root);
        self.operation(root, root.operands.clone())
    }

    fn cast(&mut self, value: ValueId, to_builtin: bool) -> (Operation, ValueId) {
        let ty = self.types.get(&value).copied().unwrap_or(usize::MAX);
        let result = self.count;
        self.count += 1;
        self.types.insert(result, ty);
        match to_builtin {
            true => {
                self.builtin.insert(result);
            }
            false => {
                self.of_vhlo.insert(value, result);
            }
        }
        let cast = Operation {
            name: CAST.to_owned(),
            results: vec![(result, ty)],
            operands: vec![value],
            ..Operation::default()
        };
        (cast, result)
    }

    fn operation(&mut self, operation: &Operation, operands: Vec<ValueId>) -> Operation {
        self.types.extend(operation.results.iter().copied());
        let regions = operation.regions.iter();
        Operation {
            name: operation.name.clone(),
            properties: operation.properties.clone(),
            dictionary: operation.dictionary,
            results: operation.results.clone(),
            operands,
            regions: regions.map(|block| self.block(block, is_foreign(operation))).collect(),
        }
    }

    fn block(&mut self, block: &Block, has_builtin_types: bool) -> Block {
        let mut operations = Vec::with_capacity(block.operations.len());
        self.types.extend(block.arguments.iter().copied());
        if has_builtin_types {
            for (argument, _) in &block.arguments {
                self.builtin.insert(*argument);
                operations.push(self.cast(*argument, false).0);
            }
        }
        for operation in &block.operations {
            let source = |value: &ValueId| self.sources.get(value).copied().unwrap_or(*value);
            let mut operands: Vec<ValueId> = operation.operands.iter().map(source).collect();
            if operation.name == CAST {
                let results = operation.results.iter().map(|(result, _)| *result);
                self.sources.extend(results.zip(operands));
                continue;
            }
            let is_foreign = is_foreign(operation);
            for operand in &mut operands {
                if is_foreign && !self.builtin.contains(operand) {
                    let (cast, result) = self.cast(*operand, true);
                    operations.push(cast);
                    *operand = result;
                } else if !is_foreign && let Some(cast) = self.of_vhlo.get(operand) {
                    *operand = *cast;
                }
            }
            let written = self.operation(operation, operands);
            operations.push(written);
            if is_foreign {
                for (result, _) in &operation.results {
                    self.builtin.insert(*result);
                    operations.push(self.cast(*result, false).0);
                }
            }
        }
        Block { arguments: block.arguments.clone(), operations }
    }
}

fn largest_value(operation: &Operation) -> ValueId {
    let regions = operation.regions.iter();
    let arguments = regions.clone().flat_map(|block| &block.arguments);
    let own = operation.results.iter().chain(arguments).map(|(value, _)| *value);
    let inner = regions.flat_map(|block| &block.operations).map(largest_value);
    own.chain(inner).max().unwrap_or(0)
}
