//! Partial evaluation of a program: what its known inputs alone determine, and the rest.

use super::memo::Memo;
use crate::core::trace::{Mode, Tracing, same_variable};
use crate::core::{Array, Eqn, Half, Program, SplitOperand, Var};
use crate::passes;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A program in two halves.
pub(super) struct PartialEval {
    /// From the known inputs, in order, to the known outputs, then the residuals.
    pub(super) known: Arc<Program>,
    /// From what `sources` says to the unknown outputs.
    pub(super) unknown: Arc<Program>,
    /// Where each input of the unknown half comes from: all unknown inputs of the whole in order,
    /// then known ones that it uses as they are, then outputs of the known half.
    pub(super) sources: Vec<SplitOperand>,
    /// For each output of the whole, which one it is: the half that computes it.
    pub(super) outputs: Vec<Half>,
}

impl PartialEval {
    /// Whether the known half computes nothing.
    pub(super) fn is_idle(&self) -> bool {
        self.known.eqns().is_empty() && self.outputs.iter().all(Half::is_unknown)
    }
}

/// Splits a program by which of its inputs are known. Outputs that `unknown` marks belong to the
/// unknown half whatever they depend on.
///
/// Two traces do it: one that records everything for the known half, and above it a lazy one that
/// records what touches an unknown input. What the second captures of the first is a residual, unless
/// it is an input, which is handed on as it is, or the result of an equation without operands, which
/// is made again: an array of one number is not worth keeping.
pub(super) fn partial_eval(
    program: &Arc<Program>,
    known: &[bool],
    unknown: &[bool],
) -> Arc<PartialEval> {
    static ANSWERS: Memo<[Vec<bool>; 2], Arc<PartialEval>> = Memo::new();
    let question = [known.to_vec(), unknown.to_vec()];
    ANSWERS.get_or_derive(program, question, |program, [known, unknown]| {
        Arc::new(evaluate(program, known, unknown))
    })
}

fn evaluate(program: &Program, known: &[bool], unknown: &[bool]) -> PartialEval {
    let below = Tracing::begin(Mode::All, None);
    let known_inputs: Vec<Option<Array>> = program
        .inputs()
        .iter()
        .zip(known)
        .map(|(&var, &known)| known.then(|| below.input(program.aval(var).clone())))
        .collect();
    let above = Tracing::begin(Mode::Lazy, None);
    let inputs: Vec<Array> = known_inputs
        .iter()
        .zip(program.inputs())
        .map(|(input, &var)| match input {
            Some(input) => input.clone(),
            None => above.input(program.aval(var).clone()),
        })
        .collect();
    let results = passes::eval(program, &inputs);
    let (mut known_results, mut unknown_results, mut outputs) = (vec![], vec![], vec![]);
    for (result, &forced) in results.into_iter().zip(unknown) {
        if forced || above.owns(&result) {
            outputs.push(Half::Unknown(unknown_results.len()));
            unknown_results.push(result);
        } else {
            outputs.push(Half::Known(known_results.len()));
            known_results.push(result);
        }
    }
    let (unknown, captures) = above.finish(&unknown_results);
    let n_known_outputs = known_results.len();
    let input_of = |capture: &Array| {
        known_inputs
            .iter()
            .position(|input| input.as_ref().is_some_and(|input| same_variable(input, capture)))
    };
    let handed_on: Vec<Option<usize>> = captures.iter().map(input_of).collect();
    known_results.extend(captures);
    let (whole, captures) = below.finish(&known_results);
    assert!(captures.is_empty(), "a program uses its inputs alone");

    let nullary: FxHashMap<Var, &Eqn> = whole
        .eqns()
        .iter()
        .filter(|eqn| eqn.operands.is_empty() && eqn.results.len() == 1)
        .map(|eqn| (eqn.results[0], eqn))
        .collect();
    let n_unknown = known.iter().filter(|known| !**known).count();
    let mut halves = Halves::new(&whole, n_known_outputs, &unknown, n_unknown, known);
    for (at, input) in handed_on.into_iter().enumerate() {
        let captured = whole.outputs()[n_known_outputs + at];
        match (input, nullary.get(&captured)) {
            (Some(input), _) => {
                halves.handed_on.push((n_unknown + at, SplitOperand::Operand(input)))
            }
            (None, Some(eqn)) => halves.make_again(n_unknown + at, eqn),
            (None, None) => halves.keep(n_unknown + at, captured),
        }
    }
    halves.finish(outputs)
}

/// Where the inputs of the unknown half come from, as far as it is decided.
struct Halves<'a> {
    whole: &'a Program,
    unknown: &'a Program,
    known_outputs: Vec<Var>,
    declared: Vec<(usize, SplitOperand)>,
    handed_on: Vec<(usize, SplitOperand)>,
    residuals: Vec<(usize, SplitOperand)>,
    made_again: Vec<Eqn>,
}

impl<'a> Halves<'a> {
    fn new(
        whole: &'a Program,
        n_known_outputs: usize,
        unknown: &'a Program,
        n_unknown: usize,
        known: &[bool],
    ) -> Halves<'a> {
        let operands = (0..known.len()).filter(|&at| !known[at]).map(SplitOperand::Operand);
        Halves {
            whole,
            unknown,
            known_outputs: whole.outputs()[..n_known_outputs].to_vec(),
            declared: (0..n_unknown).zip(operands).collect(),
            handed_on: Vec::new(),
            residuals: Vec::new(),
            made_again: Vec::new(),
        }
    }

    /// The unknown half's input at `position` is defined in it, by an equation without operands.
    fn make_again(&mut self, position: usize, eqn: &Eqn) {
        let results = std::iter::once(self.unknown.inputs()[position]).collect();
        self.made_again.push(Eqn { results, ..eqn.clone() });
    }

    /// The unknown half's input at `position` is an output of the known half; one that is there
    /// already serves.
    fn keep(&mut self, position: usize, var: Var) {
        let at = self.known_outputs.iter().position(|&output| output == var).unwrap_or_else(|| {
            self.known_outputs.push(var);
            self.known_outputs.len() - 1
        });
        self.residuals.push((position, SplitOperand::Known(at)));
    }

    fn finish(self, outputs: Vec<Half>) -> PartialEval {
        let order: Vec<(usize, SplitOperand)> =
            self.declared.into_iter().chain(self.handed_on).chain(self.residuals).collect();
        let inputs: Vec<Var> = order.iter().map(|&(at, _)| self.unknown.inputs()[at]).collect();
        let mut eqns = self.made_again;
        eqns.extend(self.unknown.eqns().iter().cloned());
        let unknown = Program::new(self.unknown.avals(), &inputs, eqns, self.unknown.outputs());
        PartialEval {
            known: Arc::new(passes::dce(&self.whole.with_outputs(&self.known_outputs))),
            unknown: Arc::new(unknown),
            sources: order.into_iter().map(|(_, source)| source).collect(),
            outputs,
        }
    }
}
