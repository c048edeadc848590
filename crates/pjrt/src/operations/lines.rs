//! Source lines of operations, with shares of their work.

use super::work;
use crate::hlo_text::SourceLocation;
use crate::hlo_text::proto::{Computation, Instruction, Module};
use crate::hlo_text::sources::Sources;
use std::collections::HashMap;

/// The lines of an instruction.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundLines {
    pub(super) sources: Vec<(SourceLocation, f64)>,
    pub(super) is_inferred: bool,
}

/// Looks up lines and work in a module.
pub(super) struct Lines<'a> {
    sources: Sources<'a>,
}

/// Number of values between an instruction without a line and the one whose line it gets.
const MAX_STEPS: usize = 8;

impl<'a> Lines<'a> {
    pub(super) fn of(module: &'a Module) -> Lines<'a> {
        Lines { sources: Sources::new(module) }
    }

    /// Returns the computation with this id.
    pub(super) fn computation(&self, id: i64) -> Option<&'a Computation> {
        self.sources.computation(id)
    }

    fn called(&self, instruction: &Instruction) -> impl Iterator<Item = &'a Computation> {
        instruction.called_computation_ids.iter().filter_map(|&id| self.computation(id))
    }

    /// Returns the floating-point operations of an instruction and of what it calls.
    pub(super) fn flops(&self, computation: &Computation, instruction: &Instruction) -> f64 {
        self.weigh(computation, instruction, 1.0, &mut |_, _| {})
    }

    /// Returns the sizes of a product, also of one that is the root of a fusion.
    pub(super) fn product(
        &self,
        computation: &Computation,
        instruction: &Instruction,
    ) -> Option<[u64; 4]> {
        let inner = self.called(instruction).flat_map(|inner| {
            inner.instructions.iter().filter_map(|instruction| work::product(inner, instruction))
        });
        work::product(computation, instruction).or_else(|| inner.into_iter().next())
    }

    /// Calls `add` with the line and the weight of each instruction that `instruction` consists of.
    /// Returns the floating-point operations.
    fn weigh(
        &self,
        computation: &Computation,
        instruction: &Instruction,
        runs: f64,
        add: &mut impl FnMut(Option<SourceLocation>, f64),
    ) -> f64 {
        let called: Vec<&Computation> = self.called(instruction).collect();
        // The computation of a reduction, scatter or sort is part of its own work.
        let is_composed =
            matches!(instruction.opcode.as_str(), "fusion" | "call" | "while" | "conditional");
        if called.is_empty() || !is_composed {
            let (flops, weight) = work::flops_and_weight(computation, instruction);
            add(self.sources.of(instruction), runs * weight);
            return runs * flops;
        }
        let runs = match instruction.opcode.as_str() {
            "while" => runs * work::known_trips(instruction).unwrap_or(1.0),
            "conditional" => runs / called.len() as f64,
            _ => runs,
        };
        let mut flops = 0.0;
        for computation in called {
            for instruction in &computation.instructions {
                flops += self.weigh(computation, instruction, runs, add);
            }
        }
        flops
    }

    /// Returns the lines of an instruction, with their shares. Empty if none is recorded.
    fn recorded(
        &self,
        computation: &Computation,
        instruction: &Instruction,
    ) -> Vec<(SourceLocation, f64)> {
        let mut weights: HashMap<SourceLocation, f64> = HashMap::new();
        let mut order = Vec::new();
        self.weigh(computation, instruction, 1.0, &mut |line, weight| {
            let Some(line) = line else { return };
            let sum = weights.entry(line.clone()).or_insert_with(|| {
                order.push(line);
                0.0
            });
            *sum += weight;
        });
        let total: f64 = weights.values().sum();
        if order.is_empty() {
            return self.sources.of(instruction).map(|line| (line, 1.0)).into_iter().collect();
        }
        let equal = 1.0 / order.len() as f64;
        let share = |weight: f64| if total > 0.0 { weight / total } else { equal };
        order.into_iter().map(|line| (line.clone(), share(weights[&line]))).collect()
    }

    /// Returns the lines of the instructions of a computation. One without a line has that of a
    /// value that it reads, or else of a use of its result.
    pub(super) fn of_computation(&self, computation: &Computation) -> Vec<FoundLines> {
        let instructions = &computation.instructions;
        let index_of: HashMap<i64, usize> =
            instructions.iter().enumerate().map(|(index, other)| (other.id, index)).collect();
        let operands = |index: usize| -> Vec<usize> {
            let ids = instructions[index].operand_ids.iter();
            ids.filter_map(|id| index_of.get(id).copied()).collect()
        };
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); instructions.len()];
        for index in 0..instructions.len() {
            operands(index).into_iter().for_each(|operand| users[operand].push(index));
        }
        let recorded: Vec<Vec<(SourceLocation, f64)>> = instructions
            .iter()
            .map(|instruction| self.recorded(computation, instruction))
            .collect();
        let near = |start: usize, next: &dyn Fn(usize) -> Vec<usize>| {
            let mut frontier = next(start);
            for _ in 0..MAX_STEPS {
                // Values such as a loop's counter belong to no line of their own.
                if let Some(found) = frontier.iter().find(|&&index| !recorded[index].is_empty()) {
                    return Some(recorded[*found].clone());
                }
                frontier = frontier.into_iter().flat_map(next).take(64).collect();
            }
            None
        };
        let each = (0..instructions.len()).map(|index| {
            if !recorded[index].is_empty() || work::is_free(&instructions[index].opcode) {
                return FoundLines { sources: recorded[index].clone(), is_inferred: false };
            }
            let inferred = near(index, &operands).or_else(|| near(index, &|at| users[at].clone()));
            FoundLines { sources: inferred.unwrap_or_default(), is_inferred: true }
        });
        each.collect()
    }
}
