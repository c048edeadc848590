//! The writes at the end of a program: new states of outputs and scratch memory.
//!
//! A new state is computed while it is written. It may depend on elements of memory that other
//! threads overwrite, so that the order of writes and the barriers between them matter.

use super::emitter::Emitter;
use super::text::{Element, Predicate};
use super::value::{Memory, Rule, Value};
use crate::core::RuleResult;
use std::collections::HashMap;

/// A write to memory: the state before, and the state after.
type Write = (Memory, Value, Value);

/// The parts of memory that a value reads: true if each element only depends on that at its own
/// index.
type Reads = HashMap<Memory, bool>;

impl Emitter<'_> {
    /// Writes new states. A state that depends on memory that is written before is copied first.
    pub(super) fn write(&mut self, writes: Vec<Write>) -> RuleResult<()> {
        let mut rest: Vec<(Write, Reads)> = Vec::new();
        for write in writes {
            let reads = self.reads(&write.2);
            rest.push((write, reads));
        }
        let mut is_first = true;
        while !rest.is_empty() {
            let place = (0..rest.len()).find(|&place| self.is_ready(place, &rest));
            let (memory, before, after) = match place {
                Some(place) => rest.remove(place).0,
                None => {
                    let staged = self.staged(&rest[0].0.2)?;
                    rest[0].0.2 = staged;
                    rest[0].1.clear();
                    continue;
                }
            };
            if !is_first {
                self.barrier();
            }
            is_first = false;
            self.write_state(memory, &before, &after)?;
        }
        Ok(())
    }

    /// Returns true if a state can be written now: others do not read the memory, and it reads the
    /// memory itself at the same index at most.
    fn is_ready(&self, place: usize, writes: &[(Write, Reads)]) -> bool {
        let memory = self.owner(writes[place].0.0);
        writes.iter().enumerate().all(|(other, (_, reads))| match reads.get(&memory) {
            None => true,
            Some(&is_pointwise) => other == place && is_pointwise,
        })
    }

    /// Returns the memory itself, or the output with which an input shares it.
    fn owner(&self, memory: Memory) -> Memory {
        let kernel = self.kernel;
        let Memory::Window(number) = memory else { return memory };
        let input = number.checked_sub(kernel.n_prefetch);
        let alias = kernel.aliases.iter().find(|(of, _)| Some(*of) == input);
        match alias {
            Some(&(_, output)) => Memory::Window(kernel.n_prefetch + kernel.inputs.len() + output),
            None => memory,
        }
    }

    /// Returns true if an index of the memory's block is the same one in its owner's block.
    fn is_same_block(&self, memory: Memory) -> bool {
        let kernel = self.kernel;
        let Memory::Window(number) = memory else { return true };
        let input = number.checked_sub(kernel.n_prefetch);
        let alias = kernel.aliases.iter().find(|(of, _)| Some(*of) == input);
        alias.is_none_or(|&(input, output)| {
            kernel.inputs[input].index_map == kernel.outputs[output].index_map
        })
    }

    fn reads(&self, value: &Value) -> Reads {
        let (mut reads, mut seen) = (Reads::new(), HashMap::new());
        self.collect(value, true, &mut reads, &mut seen);
        reads
    }

    /// Adds the memory that a value reads. `seen` has the values that were visited: false if a
    /// visit was of elements at other indices.
    fn collect(
        &self,
        value: &Value,
        is_pointwise: bool,
        reads: &mut Reads,
        seen: &mut HashMap<usize, bool>,
    ) {
        match seen.get(&value.id) {
            Some(&before) if !before || is_pointwise => return,
            _ => seen.insert(value.id, is_pointwise),
        };
        let same = |operand: &Value| is_pointwise && operand.shape == value.shape;
        match &*value.rule {
            Rule::Fill(_) | Rule::Scalar(_) | Rule::Iota(_) => {}
            Rule::Memory(memory) => {
                let is_pointwise = is_pointwise && self.is_same_block(*memory);
                let entry = reads.entry(self.owner(*memory)).or_insert(true);
                *entry &= is_pointwise;
            }
            Rule::Function { operands, .. } => {
                for operand in operands {
                    self.collect(operand, same(operand), reads, seen);
                }
            }
            Rule::Branch { number, branches } => {
                self.collect(number, same(number), reads, seen);
                for branch in branches {
                    self.collect(branch, is_pointwise, reads, seen);
                }
            }
            Rule::Broadcast { x, .. }
            | Rule::Reshape(x)
            | Rule::Transpose { x, .. }
            | Rule::Reverse { x, .. } => self.collect(x, false, reads, seen),
            Rule::Part { x, part } => {
                self.collect(x, false, reads, seen);
                self.collect_starts(part, reads, seen);
            }
            Rule::Update { x, part, value, mask } => {
                self.collect(x, is_pointwise, reads, seen);
                self.collect(value, false, reads, seen);
                self.collect_starts(part, reads, seen);
                if let Some(mask) = mask {
                    self.collect(mask, false, reads, seen);
                }
            }
            Rule::Pad { x, value, .. } => {
                self.collect(x, false, reads, seen);
                self.collect(value, false, reads, seen);
            }
            Rule::Join { parts, .. } => {
                for part in parts {
                    self.collect(part, false, reads, seen);
                }
            }
        }
    }

    fn collect_starts(
        &self,
        part: &super::value::Part,
        reads: &mut Reads,
        seen: &mut HashMap<usize, bool>,
    ) {
        for start in &part.starts {
            if let super::value::Start::Value(start) = start {
                self.collect(start, false, reads, seen);
            }
        }
    }

    /// Writes a state, unless it is the state before. A condition of the whole program is tested
    /// once.
    fn write_state(&mut self, memory: Memory, before: &Value, after: &Value) -> RuleResult<()> {
        if after.id == before.id {
            return Ok(());
        }
        if let Rule::Branch { number, branches } = &*after.rule
            && number.rank() == 0
            && branches.iter().any(|branch| branch.id == before.id)
        {
            let number = self.element(number, &[])?;
            return self.write_branch(memory, before, (&number, branches));
        }
        let shape = after.shape.clone();
        self.for_elements(after.n_elements(), |of, position| {
            let index = of.text.unravel(&position, &shape);
            let element = of.element(after, &index)?;
            let outer = of.text.set_loc(after.loc);
            of.store(&element, memory, &index, &shape)?;
            of.text.restore_loc(outer);
            Ok(())
        })
    }

    /// Writes the state that the branch of this number has.
    fn write_branch(
        &mut self,
        memory: Memory,
        before: &Value,
        (number, branches): (&Element, &[Value]),
    ) -> RuleResult<()> {
        for (place, branch) in branches.iter().enumerate() {
            if branch.id == before.id {
                continue;
            }
            let predicate = match place + 1 == branches.len() {
                // A number out of range is that of the last branch.
                true => Predicate::GreaterEqual,
                false => Predicate::Equal,
            };
            let this = self.text.int(place as i128, number.dtype);
            let is_this = self.text.compare(predicate, number, &this);
            self.where_true(&is_this, |of| of.write_state(memory, before, branch))?;
        }
        Ok(())
    }
}
