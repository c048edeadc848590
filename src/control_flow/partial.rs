//! Partial evaluation of a program: what its known inputs alone determine, and the rest.

use crate::core::trace::{Mode, Tracing};
use crate::core::{Array, Program};
use crate::passes;
use std::sync::Arc;

/// A program in two halves.
pub(crate) struct PartialEval {
    /// From the known inputs to the known outputs, then the residuals.
    pub(crate) known: Arc<Program>,
    /// From `unknown_inputs`, then the residuals, to the unknown outputs.
    pub(crate) unknown: Arc<Program>,
    /// Which inputs of the whole the unknown half takes: the unknown ones, and known ones that it
    /// uses as they are.
    pub(crate) unknown_inputs: Vec<usize>,
    /// How many residuals there are.
    pub(crate) n_residuals: usize,
    /// For each output of the whole, where it comes from: `Ok` the known half, `Err` the unknown.
    pub(crate) outputs: Vec<Result<usize, usize>>,
}

/// Splits a program by which of its inputs are known.
///
/// Two traces do it: one that records everything for the known half, and above it a lazy one that
/// records what touches an unknown input. What the second captures of the first is a residual,
/// unless it is an input, which is handed on as it is.
pub(crate) fn partial_eval(program: &Program, known: &[bool]) -> PartialEval {
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
    for result in results {
        if above.owns(&result) {
            outputs.push(Err(unknown_results.len()));
            unknown_results.push(result);
        } else {
            outputs.push(Ok(known_results.len()));
            known_results.push(result);
        }
    }
    let (unknown, captures) = above.finish(&unknown_results);

    // Reorder the captures: inputs of the whole first, then true residuals.
    let n_unknown = known.iter().filter(|known| !**known).count();
    let mut unknown_inputs: Vec<usize> = (0..known.len()).filter(|&at| !known[at]).collect();
    let mut order: Vec<usize> = (0..n_unknown).collect();
    let input_of = |capture: &Array| {
        known_inputs.iter().position(|input| {
            input.as_ref().is_some_and(|input| crate::core::trace::same_variable(input, capture))
        })
    };
    let mut residuals = Vec::new();
    let mut residual_order = Vec::new();
    for (position, capture) in captures.into_iter().enumerate() {
        match input_of(&capture) {
            Some(input) => {
                unknown_inputs.push(input);
                order.push(n_unknown + position);
            }
            None => {
                residuals.push(capture);
                residual_order.push(n_unknown + position);
            }
        }
    }
    order.extend(residual_order);
    let n_residuals = residuals.len();
    known_results.extend(residuals);
    let (known, captures) = below.finish(&known_results);
    assert!(captures.is_empty(), "a program uses its inputs alone");
    let unknown = Arc::new(unknown.permute_inputs(&order));
    PartialEval { known: Arc::new(known), unknown, unknown_inputs, n_residuals, outputs }
}
