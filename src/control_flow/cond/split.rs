//! Splitting a conditional into what known operands determine and the rest.

use super::Cond;
use crate::control_flow::partial_eval::{PartialEval, partial_eval};
use crate::core::{Aval, Known, Marks, Program, ProgramInput, SplitEqn, SplitOperand, Used};
use crate::passes;
use crate::primitives::zeros_of;
use crate::transforms::staging::trace_rules;
use std::sync::Arc;

/// Implements `split`. A result is known if it is known in every branch. Residuals of different
/// branches with equal types share a result of the known half; a branch without one returns zeros.
pub(super) fn split(cond: &Cond, known: &Marks<Known>) -> Option<SplitEqn> {
    if !known[0] {
        return None;
    }
    let known = known.slice(1..known.len());
    let mut allowed = Marks::all(cond.n_outputs());
    let halves: Vec<Arc<PartialEval>> = loop {
        let halves: Vec<Arc<PartialEval>> =
            cond.branches.iter().map(|branch| partial_eval(branch, &known, &allowed)).collect();
        for half in &halves {
            allowed.shrink(&half.known_outputs());
        }
        if halves.iter().all(|half| half.known_outputs() == allowed) {
            break halves;
        }
    };
    if halves.iter().all(|half| half.is_trivial()) {
        return None;
    }
    Some(CondHalves::new(cond, &halves, &known).split())
}

/// A residual of one branch.
#[derive(Clone, Copy)]
struct Residual {
    /// The output of the branch's known half.
    output: usize,
    /// The position among the residuals of the conditional.
    slot: usize,
}

/// The two halves of a conditional.
struct CondHalves<'a> {
    cond: &'a Cond,
    halves: &'a [Arc<PartialEval>],
    known: &'a Marks<Known>,
    n_known_outputs: usize,
    /// Known operands that the unknown half of some branch takes.
    passed_on: Vec<usize>,
    /// The types of the residuals of the conditional.
    slots: Vec<Aval>,
    /// The residuals of each branch.
    residuals: Vec<Vec<Residual>>,
}

impl<'a> CondHalves<'a> {
    fn new(
        cond: &'a Cond,
        halves: &'a [Arc<PartialEval>],
        known: &'a Marks<Known>,
    ) -> CondHalves<'a> {
        let mut split = CondHalves {
            cond,
            halves,
            known,
            n_known_outputs: halves[0].known_outputs().count(),
            passed_on: Vec::new(),
            slots: Vec::new(),
            residuals: Vec::new(),
        };
        for half in halves {
            split.add_branch(half);
        }
        split
    }

    fn add_branch(&mut self, half: &PartialEval) {
        let mut residuals: Vec<Residual> = Vec::new();
        for source in &half.sources {
            match *source {
                SplitOperand::Operand(index) => {
                    if self.known[index] && !self.passed_on.contains(&index) {
                        self.passed_on.push(index);
                    }
                }
                SplitOperand::Known(output) if output >= self.n_known_outputs => {
                    let aval = half.known.aval(half.known.outputs()[output]);
                    let is_free = |slot: &usize| {
                        self.slots[*slot] == *aval
                            && residuals.iter().all(|residual| residual.slot != *slot)
                    };
                    let slot = (0..self.slots.len()).find(is_free).unwrap_or_else(|| {
                        self.slots.push(aval.clone());
                        self.slots.len() - 1
                    });
                    residuals.push(Residual { output, slot });
                }
                // Known results serve as residuals too.
                SplitOperand::Known(_) => {}
            }
        }
        self.residuals.push(residuals);
    }

    /// Returns the known half of a branch with a value for every residual of the conditional.
    fn known_branch(&self, half: &PartialEval, residuals: &[Residual]) -> Program {
        trace_rules(half.known.avals_in(), |inputs| {
            let mut outputs = passes::eval(&half.known, inputs);
            let mut slots = Vec::with_capacity(self.slots.len());
            for (slot, aval) in self.slots.iter().enumerate() {
                let residual = residuals.iter().find(|residual| residual.slot == slot);
                slots.push(match residual {
                    Some(residual) => outputs[residual.output].clone(),
                    None => zeros_of(aval),
                });
            }
            outputs.truncate(self.n_known_outputs);
            outputs.extend(slots);
            outputs
        })
    }

    /// Returns every value that the unknown half of some branch may take: unknown operands, known
    /// operands, known results, residuals.
    fn all_sources(&self) -> Vec<SplitOperand> {
        let operands = self.known.unmarked_positions().into_iter().chain(self.passed_on.clone());
        let mut sources: Vec<SplitOperand> = operands.map(SplitOperand::Operand).collect();
        let n_known_results = self.n_known_outputs + self.slots.len();
        sources.extend((0..n_known_results).map(SplitOperand::Known));
        sources
    }

    /// Returns the position in `sources` of each input of a branch's unknown half.
    fn source_positions(
        &self,
        half: &PartialEval,
        residuals: &[Residual],
        sources: &[SplitOperand],
    ) -> Vec<usize> {
        let mut positions = Vec::with_capacity(half.sources.len());
        for source in &half.sources {
            let source = match *source {
                SplitOperand::Known(output) if output >= self.n_known_outputs => {
                    let residual = residuals.iter().find(|residual| residual.output == output);
                    let residual = residual.expect("every residual has a slot");
                    SplitOperand::Known(self.n_known_outputs + residual.slot)
                }
                source => source,
            };
            let position = sources.iter().position(|&other| other == source);
            positions.push(position.expect("every source is among those of all branches"));
        }
        positions
    }

    fn split(&self) -> SplitEqn {
        let sources = self.all_sources();
        let branches = || self.halves.iter().zip(&self.residuals);
        let positions: Vec<Vec<usize>> = branches()
            .map(|(half, residuals)| self.source_positions(half, residuals, &sources))
            .collect();
        let mut used: Marks<Used> = Marks::none(sources.len());
        for &position in positions.iter().flatten() {
            used.set(position);
        }
        let avals: Vec<Aval> = used
            .positions()
            .into_iter()
            .map(|source| self.source_aval(source, &positions))
            .collect();
        let unknown = self.halves.iter().zip(&positions).map(|(half, positions)| {
            let mut inputs = Vec::with_capacity(avals.len());
            for (source, aval) in used.positions().into_iter().zip(&avals) {
                inputs.push(match positions.iter().position(|&position| position == source) {
                    Some(input) => ProgramInput::Existing(input),
                    None => ProgramInput::Unused(aval.clone()),
                });
            }
            half.unknown.with_inputs(&inputs)
        });
        let unknown = self.cond.with_branches(unknown);
        let known = branches().map(|(half, residuals)| self.known_branch(half, residuals));
        // The conditional's first operand is the index.
        let mut unknown_operands = vec![SplitOperand::Operand(0)];
        for source in used.select(&sources) {
            unknown_operands.push(match source {
                SplitOperand::Operand(index) => SplitOperand::Operand(index + 1),
                SplitOperand::Known(index) => SplitOperand::Known(index),
            });
        }
        SplitEqn {
            known: Arc::new(self.cond.with_branches(known)),
            known_operands: Marks::all(1).concat(self.known).positions(),
            unknown: Arc::new(unknown),
            unknown_operands,
            outputs: self.halves[0].outputs.clone(),
        }
    }
    /// Returns the type of a source, as some branch takes it. `positions` has the positions among
    /// the sources of each branch's inputs.
    fn source_aval(&self, source: usize, positions: &[Vec<usize>]) -> Aval {
        let mut branches = self.halves.iter().zip(positions);
        let aval = branches.find_map(|(half, positions)| {
            let input = positions.iter().position(|&position| position == source)?;
            Some(half.unknown.aval(half.unknown.inputs()[input]).clone())
        });
        aval.expect("a used source is taken by some branch")
    }
}
