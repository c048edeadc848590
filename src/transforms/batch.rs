//! Batching: interpreting a program with the `batch` rules.

use super::checks::throw_rule_error;
use crate::core::{Array, Aval, BatchAxis, Program, trace};

/// Interprets a program with the `batch` rules. `axes` has the position of each argument's batch
/// axis, or `None`. Returns the outputs and the positions of their batch axes.
pub(crate) fn batch_program(
    program: &Program,
    arguments: &[Array],
    axes: &[Option<usize>],
    axis: &BatchAxis,
) -> (Vec<Array>, Vec<Option<usize>>) {
    let inputs = arguments.iter().cloned().zip(axes.iter().copied());
    let outputs = program.interpret(inputs, |eqn, operands| {
        let (operands, axes): (Vec<Array>, Vec<Option<usize>>) =
            operands.iter().map(|&operand| operand.clone()).unzip();
        let (outputs, axes) = eqn.loc.scope(|| {
            let uses_axis = || axis.name.is_some() && axis.is_among(&eqn.primitive.axis_names());
            if axes.iter().all(Option::is_none) && !uses_axis() {
                let refs: Vec<&Array> = operands.iter().collect();
                let outputs = trace::bind_at(&eqn.primitive, &refs, eqn.loc);
                let axes = vec![None; outputs.len()];
                return (outputs, axes);
            }
            match eqn.primitive.batch(&operands, &axes, axis) {
                Ok(batched) => (batched.outputs, batched.axes),
                Err(error) => throw_rule_error(eqn.primitive.name(), error, &operands, eqn.loc),
            }
        });
        let results: Vec<(Array, Option<usize>)> = outputs.into_iter().zip(axes).collect();
        for ((output, batch_axis), &var) in results.iter().zip(&eqn.results) {
            debug_assert!(
                without_batch_axis(output, *batch_axis).same_type(program.aval(var))
                    && batch_axis.is_none_or(|position| output.shape()[position] == axis.size),
                "`{}`, rule `batch`: expected {} with a batch axis of {} at {batch_axis:?}, found \
                {}",
                eqn.primitive.name(),
                program.aval(var),
                axis.size,
                output.aval()
            );
        }
        results
    });
    outputs.into_iter().unzip()
}

/// Returns the type of one example of a batched array.
pub(crate) fn without_batch_axis(array: &Array, axis: Option<usize>) -> Aval {
    match axis {
        Some(axis) => array.aval().without_axis(axis),
        None => array.aval().clone(),
    }
}
