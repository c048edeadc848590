//! Transposition of linear programs: from cotangents of the outputs to those of the linear inputs.

use super::jvp::throw_rule_of;
use crate::core::{Array, Eqn, Operand, Program, Tangent, trace};
use crate::passes;
use crate::primitives::rules::{self, add_tangents};

/// Transposes a program with respect to the inputs that `linear` marks; the others have the values
/// `known`, in order. `cts` are the cotangents of the outputs. Gives one for each linear input.
pub(crate) fn transpose_program(
    program: &Program,
    linear: &[bool],
    known: &[Array],
    cts: &[Tangent],
) -> Vec<Tangent> {
    let program = passes::dce(program);
    let mut known = known.iter();
    let inputs = program.inputs().iter().zip(linear).map(|(&var, &linear)| match linear {
        true => Operand::Linear(program.aval(var).clone()),
        false => Operand::Known(known.next().expect("one value for each known input").clone()),
    });
    let mut backward: Vec<(&Eqn, Vec<Operand>)> = Vec::new();
    program.interpret(inputs.collect::<Vec<_>>(), |eqn, operands| {
        let values: Option<Vec<&Array>> = operands.iter().map(|operand| operand.known()).collect();
        match values {
            Some(values) => {
                let results = trace::at_location(eqn.location, || {
                    trace::bind_at(&eqn.primitive, &values, eqn.location)
                });
                results.into_iter().map(Operand::Known).collect()
            }
            None => {
                backward.push((eqn, operands.iter().map(|&operand| operand.clone()).collect()));
                let avals = program.avals_of(&eqn.results);
                avals.into_iter().map(Operand::Linear).collect()
            }
        }
    });
    let mut gathered: Vec<Option<Tangent>> = vec![None; program.avals().len()];
    let add = |gathered: &mut Vec<Option<Tangent>>, var: u32, ct: Tangent| {
        let slot = &mut gathered[var as usize];
        *slot = Some(match slot.take() {
            Some(sum) => add_tangents(&sum, &ct),
            None => ct,
        });
    };
    for (&var, ct) in program.outputs().iter().zip(cts) {
        if !ct.is_zero() {
            add(&mut gathered, var, rules::level(ct.clone(), program.aval(var)));
        }
    }
    for (eqn, operands) in backward.into_iter().rev() {
        let cts: Vec<Tangent> = eqn
            .results
            .iter()
            .map(|&var| {
                let zero = || Tangent::Zero(program.aval(var).clone());
                gathered[var as usize].take().unwrap_or_else(zero)
            })
            .collect();
        if cts.iter().all(Tangent::is_zero) {
            continue;
        }
        let operand_cts = trace::at_location(eqn.location, || {
            eqn.primitive.transpose(&cts, &operands).unwrap_or_else(|error| {
                let dense: Vec<Array> = cts.iter().filter_map(Tangent::array).cloned().collect();
                throw_rule_of(eqn.primitive.name(), error, &dense, eqn.location)
            })
        });
        for (&var, ct) in eqn.operands.iter().zip(operand_cts) {
            let Some(ct) = ct else { continue };
            debug_assert!(
                ct.aval().same_type(program.aval(var)),
                "`{}`, rule `transpose`: expected {}, found {}",
                eqn.primitive.name(),
                program.aval(var),
                ct.aval()
            );
            if !ct.is_zero() {
                trace::at_location(eqn.location, || {
                    add(&mut gathered, var, rules::level(ct, program.aval(var)));
                });
            }
        }
    }
    let inputs = program.inputs().iter().zip(linear).filter(|(_, linear)| **linear);
    inputs
        .map(|(&var, _)| {
            let zero = || Tangent::Zero(program.aval(var).clone());
            // An input may stand among the inputs once only, so taking it is safe.
            gathered[var as usize].take().unwrap_or_else(zero)
        })
        .collect()
}
