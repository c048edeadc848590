//! Folds permutations of axes into the operations that use their results.
//!
//! `a.t().matmul(&v)` is a transposition and a product. XLA's CPU compiler removes the
//! transposition of a matrix that is multiplied by a matrix, but not by a vector: each iteration of
//! a loop then copies the matrix, which takes ten times as long as the product. The product can
//! sum over the other axis instead.

use crate::core::{Aval, Eqn, Program, Var};
use std::collections::HashMap;

/// Returns the program in which operations take over the permutations of their operands' axes,
/// where they can. `None` if nothing changes. Programs that equations hold are not changed.
pub(super) fn fold_permutations(program: &Program) -> Option<Program> {
    let permutations: HashMap<Var, &Eqn> = program
        .eqns()
        .iter()
        .filter(|eqn| eqn.primitive.permutation().is_some())
        .map(|eqn| (eqn.results[0], eqn))
        .collect();
    if permutations.is_empty() {
        return None;
    }
    let mut eqns = program.eqns().to_vec();
    let mut is_folded = false;
    for eqn in &mut eqns {
        for index in 0..eqn.operands.len() {
            while let Some(producer) = permutations.get(&eqn.operands[index]) {
                let avals: Vec<Aval> = program.avals_of(&eqn.operands);
                let order = producer.primitive.permutation().unwrap_or_default();
                let Some(folded) = eqn.primitive.with_permuted_operand(&avals, index, order) else {
                    break;
                };
                eqn.primitive = folded;
                eqn.operands[index] = producer.operands[0];
                is_folded = true;
            }
        }
    }
    is_folded.then(|| Program::new(program.avals(), program.inputs(), eqns, program.outputs()))
}
