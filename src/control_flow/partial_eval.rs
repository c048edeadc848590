//! Partial evaluation: splits a program into the part that its known inputs determine and the rest.

use super::memo::Memo;
use crate::core::trace::{Mode, Tracing, same_variable};
use crate::core::{Array, Eqn, Half, Known, Marks, Program, SplitOperand, Var};
use crate::passes;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A program split into two halves.
pub(super) struct PartialEval {
    /// Maps the known inputs, in order, to the known outputs, then the residuals.
    pub(super) known: Arc<Program>,
    /// Maps the values listed in `sources` to the unknown outputs.
    pub(super) unknown: Arc<Program>,
    /// The origin of each input of the unknown half: first all unknown inputs of the original, then
    /// known inputs that it uses, then outputs of the known half.
    pub(super) sources: Vec<SplitOperand>,
    /// The half that computes each output of the original.
    pub(super) outputs: Vec<Half>,
}

impl PartialEval {
    /// Returns true if the known half computes nothing.
    pub(super) fn is_trivial(&self) -> bool {
        self.known.eqns().is_empty() && !self.known_outputs().any()
    }

    /// Marks the outputs of the original that the known half computes.
    pub(super) fn known_outputs(&self) -> Marks<Known> {
        Marks::of(&self.outputs, Half::is_known)
    }
}

/// Splits a program by its known inputs. Only outputs marked by `allowed` may be computed by the
/// known half; the others belong to the unknown half even if they depend on known inputs only.
///
/// This runs two traces. The lower one records everything and becomes the known half. The upper one
/// is lazy and records equations that use an unknown input. A value that the upper trace captures
/// from the lower one becomes a residual, with two exceptions: an input of the program is passed on
/// as it is, and the result of an equation without operands is computed again, because a constant
/// array is not worth storing.
pub(super) fn partial_eval(
    program: &Arc<Program>,
    known: &Marks<Known>,
    allowed: &Marks<Known>,
) -> Arc<PartialEval> {
    static CACHE: Memo<[Marks<Known>; 2], Arc<PartialEval>> = Memo::new();
    let key = [known.clone(), allowed.clone()];
    CACHE.get_or_derive(program, key, |program, [known, allowed]| {
        Arc::new(split(program, known, allowed))
    })
}

fn split(program: &Program, known: &Marks<Known>, allowed: &Marks<Known>) -> PartialEval {
    let lower = Tracing::begin(Mode::All, None);
    let mut inputs: Vec<Option<Array>> = vec![None; program.inputs().len()];
    let trace_input = |tracing: &Tracing, position: usize| {
        Some(tracing.input(program.aval(program.inputs()[position]).clone()))
    };
    for position in known.positions() {
        inputs[position] = trace_input(&lower, position);
    }
    let upper = Tracing::begin(Mode::Lazy, None);
    for position in known.unmarked_positions() {
        inputs[position] = trace_input(&upper, position);
    }
    let inputs: Vec<Array> = inputs.into_iter().flatten().collect();
    let (mut known_results, mut unknown_results, mut outputs) = (vec![], vec![], vec![]);
    for (result, is_allowed) in passes::eval(program, &inputs).into_iter().zip(allowed.iter()) {
        if is_allowed && !upper.owns(&result) {
            outputs.push(Half::Known(known_results.len()));
            known_results.push(result);
        } else {
            outputs.push(Half::Unknown(unknown_results.len()));
            unknown_results.push(result);
        }
    }
    let (unknown, captures) = upper.finish(&unknown_results);
    let n_known_outputs = known_results.len();
    let captured_inputs: Vec<Option<usize>> = captures
        .iter()
        .map(|capture| {
            let is_capture = |&position: &usize| same_variable(&inputs[position], capture);
            known.positions().into_iter().find(is_capture)
        })
        .collect();
    known_results.extend(captures);
    let (whole, captures) = lower.finish(&known_results);
    assert!(captures.is_empty(), "a program uses its inputs alone");

    let constants: FxHashMap<Var, &Eqn> = whole
        .eqns()
        .iter()
        .filter(|eqn| eqn.operands.is_empty() && eqn.results.len() == 1)
        .map(|eqn| (eqn.results[0], eqn))
        .collect();
    let mut builder = UnknownHalf::new(&whole, n_known_outputs, &unknown, known);
    for (capture, input) in captured_inputs.into_iter().enumerate() {
        let captured = whole.outputs()[n_known_outputs + capture];
        let position = known.count_unmarked() + capture;
        match (input, constants.get(&captured)) {
            (Some(input), _) => builder.pass_on(position, input),
            (None, Some(eqn)) => builder.compute_again(position, eqn),
            (None, None) => builder.store(position, captured),
        }
    }
    builder.finish(outputs)
}

/// The unknown half while the origins of its inputs are decided.
struct UnknownHalf<'a> {
    whole: &'a Program,
    program: &'a Program,
    /// Outputs of the known half.
    known_outputs: Vec<Var>,
    /// Positions of the program's inputs, with their origins, by the order in which they stand.
    unknown_inputs: Vec<(usize, SplitOperand)>,
    known_inputs: Vec<(usize, SplitOperand)>,
    residuals: Vec<(usize, SplitOperand)>,
    constants: Vec<Eqn>,
}

impl<'a> UnknownHalf<'a> {
    fn new(
        whole: &'a Program,
        n_known_outputs: usize,
        program: &'a Program,
        known: &Marks<Known>,
    ) -> UnknownHalf<'a> {
        let operands = known.unmarked_positions().into_iter().map(SplitOperand::Operand);
        UnknownHalf {
            whole,
            program,
            known_outputs: whole.outputs()[..n_known_outputs].to_vec(),
            unknown_inputs: operands.enumerate().collect(),
            known_inputs: Vec::new(),
            residuals: Vec::new(),
            constants: Vec::new(),
        }
    }

    /// Takes the input at `position` from a known input of the original.
    fn pass_on(&mut self, position: usize, input: usize) {
        self.known_inputs.push((position, SplitOperand::Operand(input)));
    }

    /// Defines the input at `position` by an equation without operands.
    fn compute_again(&mut self, position: usize, eqn: &Eqn) {
        let results = std::iter::once(self.program.inputs()[position]).collect();
        self.constants.push(Eqn { results, ..eqn.clone() });
    }

    /// Takes the input at `position` from an output of the known half.
    fn store(&mut self, position: usize, var: Var) {
        let existing = self.known_outputs.iter().position(|&output| output == var);
        let output = existing.unwrap_or_else(|| {
            self.known_outputs.push(var);
            self.known_outputs.len() - 1
        });
        self.residuals.push((position, SplitOperand::Known(output)));
    }

    fn finish(self, outputs: Vec<Half>) -> PartialEval {
        let order: Vec<(usize, SplitOperand)> =
            [self.unknown_inputs, self.known_inputs, self.residuals].concat();
        let inputs: Vec<Var> =
            order.iter().map(|&(position, _)| self.program.inputs()[position]).collect();
        let mut eqns = self.constants;
        eqns.extend(self.program.eqns().iter().cloned());
        let unknown = Program::new(self.program.avals(), &inputs, eqns, self.program.outputs());
        PartialEval {
            known: Arc::new(passes::dce(&self.whole.with_outputs(&self.known_outputs))),
            unknown: Arc::new(unknown),
            sources: order.into_iter().map(|(_, source)| source).collect(),
            outputs,
        }
    }
}
