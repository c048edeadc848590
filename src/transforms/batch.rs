//! Batching: interpreting a program with the `batch` rules.

use super::checks::throw_rule_error;
use crate::core::{Array, Aval, BatchAxis, Program, trace};

/// Interprets a program with the `batch` rules. `axes` has the position of each argument's batch axis,
/// or `None`. Returns the outputs and the positions of their batch axes.
pub(crate) fn batch_program(
    program: &Program,
    arguments: &[Array],
    axes: &[Option<usize>],
    axis: &BatchAxis,
) -> (Vec<Array>, Vec<Option<usize>>) {
    let mut env: Vec<Option<(Array, Option<usize>)>> = vec![None; program.avals().len()];
    for (&var, (argument, &axis)) in program.inputs().iter().zip(arguments.iter().zip(axes)) {
        env[var as usize] = Some((argument.clone(), axis));
    }
    for eqn in program.eqns() {
        let (operands, axes): (Vec<Array>, Vec<Option<usize>>) = eqn
            .operands
            .iter()
            .map(|&var| env[var as usize].clone().expect("operands are defined before their uses"))
            .unzip();
        let (outputs, axes) = trace::at_location(eqn.location, || {
            let uses_axis = || axis.name.is_some() && axis.is_among(&eqn.primitive.axis_names());
            if axes.iter().all(Option::is_none) && !uses_axis() {
                let refs: Vec<&Array> = operands.iter().collect();
                let outputs = trace::bind_at(&eqn.primitive, &refs, eqn.location);
                let axes = vec![None; outputs.len()];
                return (outputs, axes);
            }
            match eqn.primitive.batch(&operands, &axes, axis) {
                Ok(batched) => (batched.outputs, batched.axes),
                Err(error) => {
                    throw_rule_error(eqn.primitive.name(), error, &operands, eqn.location)
                }
            }
        });
        for (&var, (output, batch_axis)) in eqn.results.iter().zip(outputs.into_iter().zip(axes)) {
            debug_assert!(
                without_batch_axis(&output, batch_axis).same_type(program.aval(var))
                    && batch_axis.is_none_or(|position| output.shape()[position] == axis.size),
                "`{}`, rule `batch`: expected {} with a batch axis of {} at {batch_axis:?}, found {}",
                eqn.primitive.name(),
                program.aval(var),
                axis.size,
                output.aval()
            );
            env[var as usize] = Some((output, batch_axis));
        }
    }
    let read = |&var: &u32| env[var as usize].clone().expect("outputs are defined");
    program.outputs().iter().map(read).unzip()
}

/// Returns the type of one example of a batched array.
pub(crate) fn without_batch_axis(array: &Array, axis: Option<usize>) -> Aval {
    match axis {
        Some(axis) => array.aval().with_shape(array.shape().remove(axis)),
        None => array.aval().clone(),
    }
}
