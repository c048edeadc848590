//! Transposition of linear programs: maps cotangents of the outputs to cotangents of linear inputs.

use super::checks::throw_rule_error;
use crate::core::{Array, Derivation, Eqn, Known, Marks, Operand, Program, Tangent, Var};
use crate::passes;

/// Transposes a program with respect to the inputs that `known` does not mark.
///
/// `values` are the known inputs in order, `cts` the cotangents of the outputs. Returns one
/// cotangent per linear input.
pub(crate) fn transpose_program(
    program: &Program,
    known: &Marks<Known>,
    values: &[Array],
    cts: &[Tangent],
) -> Vec<Tangent> {
    transpose_live_program(&passes::dce(program), known, values, cts)
}

/// Does the work of [`transpose_program`] for a program without dead code.
pub(super) fn transpose_live_program(
    program: &Program,
    known: &Marks<Known>,
    values: &[Array],
    cts: &[Tangent],
) -> Vec<Tangent> {
    let linear_eqns = eval_known(program, known, values);
    let mut sums = Cotangents { program, sums: vec![None; program.avals().len()] };
    for (&var, ct) in program.outputs().iter().zip(cts) {
        sums.add(var, ct.clone());
    }
    for (eqn, operands) in linear_eqns.into_iter().rev() {
        let cts: Vec<Tangent> = eqn.results.iter().map(|&var| sums.take(var)).collect();
        if cts.iter().all(Tangent::is_zero) {
            continue;
        }
        eqn.loc.derived(Derivation::Transpose).scope(|| {
            for (&var, ct) in eqn.operands.iter().zip(transpose_eqn(eqn, &cts, &operands)) {
                let Some(ct) = ct else { continue };
                let ct = ct.vary_like(program.aval(var));
                debug_assert!(
                    ct.aval().same_type(program.aval(var)),
                    "`{}`, rule `transpose`: expected {}, found {}",
                    eqn.primitive.name(),
                    program.aval(var),
                    ct.aval()
                );
                sums.add(var, ct);
            }
        });
    }
    // No variable is an input twice, so each sum is taken once. Cotangents between the equations
    // keep the shardings that operations give them.
    let linear = known.unmarked_positions().into_iter().map(|at| program.inputs()[at]);
    linear.map(|var| sums.take(var).sharded_like(program.aval(var))).collect()
}

/// Evaluates the equations whose operands are all known. Returns the others with their operands.
fn eval_known<'a>(
    program: &'a Program,
    known: &Marks<Known>,
    values: &[Array],
) -> Vec<(&'a Eqn, Vec<Operand>)> {
    let avals = program.avals_in();
    let mut inputs: Vec<Operand> = avals.into_iter().map(Operand::Linear).collect();
    for (position, value) in known.positions().into_iter().zip(values) {
        inputs[position] = Operand::Known(value.clone());
    }
    let mut linear = Vec::new();
    program.interpret(inputs, |eqn, operands| {
        let values: Option<Vec<&Array>> = operands.iter().map(|operand| operand.known()).collect();
        if let Some(values) = values {
            return passes::bind(eqn, &values).into_iter().map(Operand::Known).collect();
        }
        linear.push((eqn, operands.iter().map(|&operand| operand.clone()).collect()));
        program.avals_of(&eqn.results).into_iter().map(Operand::Linear).collect()
    });
    linear
}

fn transpose_eqn(eqn: &Eqn, cts: &[Tangent], operands: &[Operand]) -> Vec<Option<Tangent>> {
    eqn.primitive.transpose(cts, operands).unwrap_or_else(|error| {
        let dense: Vec<Array> = cts.iter().filter_map(Tangent::array).cloned().collect();
        throw_rule_error(eqn.primitive.name(), error, &dense, eqn.loc)
    })
}

/// The sums of the cotangents of a program's variables.
struct Cotangents<'a> {
    program: &'a Program,
    sums: Vec<Option<Tangent>>,
}

impl Cotangents<'_> {
    fn add(&mut self, var: Var, ct: Tangent) {
        if ct.is_zero() {
            return;
        }
        let ct = ct.vary_like(self.program.aval(var));
        let sum = &mut self.sums[var as usize];
        *sum = Some(match sum.take() {
            Some(sum) => sum.add(&ct),
            None => ct,
        });
    }

    fn take(&mut self, var: Var) -> Tangent {
        let zero = || Tangent::Zero(self.program.aval(var).clone());
        self.sums[var as usize].take().unwrap_or_else(zero)
    }
}
