//! Folds permutations of axes into the operations that use their results.
//!
//! `a.t().matmul(&v)` is a transposition and a product. XLA's CPU compiler removes the
//! transposition of a matrix that is multiplied by a matrix, but not by a vector: each iteration of
//! a loop then copies the matrix, which takes ten times as long as the product. The product can
//! sum over the other axis instead.

use crate::core::{Aval, Eqn, Program, Var};
use std::borrow::Cow;
use std::collections::HashMap;

/// Returns the program without those permutations of axes that the operations on their results can
/// take over. Programs that equations hold are not changed.
pub(in crate::passes) fn fold_permutations(program: &Program) -> Cow<'_, Program> {
    let permutations: HashMap<Var, &Eqn> = program
        .eqns()
        .iter()
        .filter(|eqn| eqn.primitive.permutation().is_some())
        .map(|eqn| (eqn.results[0], eqn))
        .collect();
    if permutations.is_empty() {
        return Cow::Borrowed(program);
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
    if !is_folded {
        return Cow::Borrowed(program);
    }
    let mut used = vec![false; program.avals().len()];
    for &output in program.outputs() {
        used[output as usize] = true;
    }
    let mut kept = Vec::with_capacity(eqns.len());
    for eqn in eqns.into_iter().rev() {
        if eqn.primitive.permutation().is_some() && !used[eqn.results[0] as usize] {
            continue;
        }
        for &operand in &eqn.operands {
            used[operand as usize] = true;
        }
        kept.push(eqn);
    }
    kept.reverse();
    Cow::Owned(Program::new(program.avals(), program.inputs(), kept, program.outputs()))
}
