//! Residuals of a scan that its unknown half computes again instead of reading them.
//!
//! The derivative of `y = tanh(x)` is `1 - y²`. A loop that stacks `y` for another use does not
//! stack `1 - y²` too: the loop that goes backward computes it from `y`.

use crate::control_flow::partial_eval::PartialEval;
use crate::core::{Access, Effects, Eqn, Known, Marks, Program, SplitOperand, Var};
use crate::passes;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// The most equations that compute a residual again.
const MAX_EQNS: usize = 8;

/// The most operations of an equation that is computed again, per element of its result.
const MAX_FLOPS: u64 = 2;

/// Variables of the known half whose values exist outside the loop.
pub(super) struct Outside {
    /// Results of the scan that are stacked.
    pub(super) results: Vec<Var>,
    /// Constants and scanned arrays, with their index among the operands of the scan.
    pub(super) operands: Vec<(Var, usize)>,
    /// Carries, with their index among the operands. Their values are stacked only if the unknown
    /// half needs them.
    pub(super) carries: Vec<(Var, usize)>,
}

/// Returns halves in which the unknown one computes residuals that differ from step to step, as
/// `varies` marks them, from other inputs. This takes a few operations per element and no
/// transcendental functions. Returns `None` if there are no such residuals.
pub(super) fn recompute_residuals(
    halves: &PartialEval,
    varies: &Marks<Known>,
    outside: &Outside,
) -> Option<PartialEval> {
    let known = &*halves.known;
    let mut definitions = FxHashMap::default();
    for (index, eqn) in known.eqns().iter().enumerate() {
        definitions.extend(eqn.results.iter().map(|&var| (var, index)));
    }
    let mut inputs: FxHashMap<Var, Input> = FxHashMap::default();
    for &(var, operand) in &outside.operands {
        inputs.insert(var, Input::New(SplitOperand::Operand(operand)));
    }
    for &var in &outside.results {
        let output = known.outputs().iter().position(|&output| output == var)?;
        inputs.insert(var, Input::New(SplitOperand::Known(output)));
    }
    for (position, source) in halves.sources.iter().enumerate() {
        match *source {
            SplitOperand::Known(output) => {
                inputs.insert(known.outputs()[output], Input::At(position));
            }
            SplitOperand::Operand(operand) => {
                let mut operands = outside.operands.iter().chain(&outside.carries);
                if let Some(&(var, _)) = operands.find(|(_, index)| *index == operand) {
                    inputs.insert(var, Input::At(position));
                }
            }
        }
    }
    let search = Search { known, definitions, inputs };
    let residuals = halves.sources.iter().enumerate().filter_map(|(position, source)| {
        let SplitOperand::Known(output) = *source else { return None };
        let var = known.outputs()[output];
        // A residual that two inputs read, or that is a result too, is stored in any case.
        let is_only_use = matches!(search.inputs[&var], Input::At(last) if last == position)
            && !outside.results.contains(&var);
        (is_only_use && varies[var as usize]).then_some((position, var))
    });
    let mut found = Vec::new();
    for (position, var) in residuals {
        found.extend(search.eqns_of(var).map(|eqns| (position, var, eqns)));
    }
    (!found.is_empty()).then(|| search.without(halves, &found))
}

/// The origin of a value in the unknown half.
#[derive(Clone, Copy)]
enum Input {
    /// The input at this position.
    At(usize),
    /// An input that the unknown half does not have yet.
    New(SplitOperand),
}

/// A search for equations of the known half that compute residuals.
struct Search<'a> {
    known: &'a Program,
    /// The equation that defines a variable of the known half.
    definitions: FxHashMap<Var, usize>,
    /// Variables of the known half that the unknown half can read.
    inputs: FxHashMap<Var, Input>,
}

impl Search<'_> {
    /// Returns the equations that compute a residual from inputs of the unknown half, in order.
    fn eqns_of(&self, residual: Var) -> Option<Vec<usize>> {
        let mut found = FxHashSet::default();
        let mut pending = vec![residual];
        while let Some(var) = pending.pop() {
            if var != residual && self.inputs.contains_key(&var) {
                continue;
            }
            let index = *self.definitions.get(&var)?;
            if found.insert(index) {
                let eqn = &self.known.eqns()[index];
                if found.len() > MAX_EQNS || !self.is_cheap(eqn) {
                    return None;
                }
                pending.extend(&eqn.operands);
            }
        }
        let mut found: Vec<usize> = found.into_iter().collect();
        found.sort_unstable();
        Some(found)
    }

    /// Returns true if an equation computes each element of its result by a few operations.
    fn is_cheap(&self, eqn: &Eqn) -> bool {
        let operands = self.known.avals_of(&eqn.operands);
        let results = self.known.avals_of(&eqn.results);
        let cost = eqn.primitive.cost(&operands, &results);
        let [result] = &results[..] else { return false };
        let is_pointwise = cost.access == Access::Pointwise
            && cost.transcendentals == 0
            && cost.flops <= MAX_FLOPS * result.size() as u64;
        (is_pointwise || cost.is_remade(&operands, &results))
            && eqn.primitive.effects() == Effects::None
    }

    /// Returns halves in which the unknown one computes residuals, given by the position of the
    /// input, the variable of the known half, and the equations.
    fn without(&self, halves: &PartialEval, residuals: &[(usize, Var, Vec<usize>)]) -> PartialEval {
        let PartialEval { known, unknown, sources, outputs } = halves;
        let computed: FxHashMap<Var, usize> =
            residuals.iter().map(|&(position, var, _)| (var, position)).collect();
        let mut avals = unknown.avals().to_vec();
        let mut new_inputs = Vec::new();
        let mut renamed: FxHashMap<Var, Var> = FxHashMap::default();
        let mut rename = |var: Var| {
            *renamed.entry(var).or_insert_with(|| match self.inputs.get(&var) {
                Some(Input::At(position)) => unknown.inputs()[*position],
                input => {
                    avals.push(known.aval(var).clone());
                    let new = (avals.len() - 1) as Var;
                    if let Some(Input::New(source)) = input {
                        new_inputs.push((new, *source));
                    }
                    new
                }
            })
        };
        let mut indices: Vec<usize> =
            residuals.iter().flat_map(|(.., eqns)| eqns.clone()).collect();
        indices.sort_unstable();
        indices.dedup();
        let again: Vec<Eqn> = indices
            .into_iter()
            .map(|index| {
                let eqn = &known.eqns()[index];
                Eqn {
                    operands: eqn.operands.iter().map(|&var| rename(var)).collect(),
                    results: eqn.results.iter().map(|&var| rename(var)).collect(),
                    ..eqn.clone()
                }
            })
            .collect();
        let remaining = sources.iter().enumerate().filter_map(|(position, source)| {
            let is_computed = matches!(source, SplitOperand::Known(output)
                if computed.get(&known.outputs()[*output]) == Some(&position));
            (!is_computed).then_some((unknown.inputs()[position], *source))
        });
        let (inputs, sources): (Vec<Var>, Vec<SplitOperand>) = remaining.chain(new_inputs).unzip();
        let n_results = halves.known_outputs().count();
        let mut known_outputs = known.outputs()[..n_results].to_vec();
        let sources = sources.into_iter().map(|source| match source {
            SplitOperand::Known(output) if output >= n_results => {
                known_outputs.push(known.outputs()[output]);
                SplitOperand::Known(known_outputs.len() - 1)
            }
            other => other,
        });
        let sources = sources.collect();
        let eqns = again.into_iter().chain(unknown.eqns().iter().cloned()).collect();
        PartialEval {
            unknown: Arc::new(Program::new(&avals, &inputs, eqns, unknown.outputs())),
            known: Arc::new(passes::dce(&known.with_outputs(&known_outputs))),
            sources,
            outputs: outputs.clone(),
        }
    }
}
