//! [`build`]: the functions of repeated parts.

use super::group::{Group, Groups};
use crate::core::lowering::{PartCall, RepeatedPart};
use crate::core::{Eqn, Program, Var};
use rustc_hash::{FxHashMap, FxHashSet};

/// Builds the functions of all groups and the variables of their calls.
pub(super) fn build(groups: &Groups<'_>) -> Vec<RepeatedPart> {
    let is_needed = needed_outside(groups);
    groups.groups.iter().map(|group| part(groups.program, group, &is_needed)).collect()
}

/// Marks the variables that are used where neither the copy that defines them nor a copy that
/// computes them again is.
pub(super) fn needed_outside(groups: &Groups<'_>) -> Vec<bool> {
    let program = groups.program;
    let mut is_needed = vec![false; program.avals().len()];
    // The last copy in which each variable is defined.
    let mut defined_in = vec![usize::MAX; program.avals().len()];
    let mut number = 0;
    for group in &groups.groups {
        for (recomputed, own) in group.recomputed.iter().zip(&group.copies) {
            for &index in recomputed.iter().chain(own) {
                let eqn = &program.eqns()[index];
                for &var in &eqn.operands {
                    if defined_in[var as usize] != number {
                        is_needed[var as usize] = true;
                    }
                }
                eqn.results.iter().for_each(|&var| defined_in[var as usize] = number);
            }
            number += 1;
        }
    }
    let free = program.eqns().iter().zip(&groups.members).filter(|(_, member)| member.is_none());
    for &var in free.flat_map(|(eqn, _)| &eqn.operands).chain(program.outputs()) {
        is_needed[var as usize] = true;
    }
    is_needed
}

fn part(program: &Program, group: &Group, is_needed: &[bool]) -> RepeatedPart {
    let middle = group.copies.len() / 2;
    let bodies: Vec<Vec<usize>> = (group.recomputed.iter().zip(&group.copies))
        .map(|(recomputed, own)| recomputed.iter().chain(own).copied().collect())
        .collect();
    let eqn_of = |copy: usize, position: usize| &program.eqns()[bodies[copy][position]];
    // Variables of the body have the numbers of the copy in the middle until the end.
    let mut avals = Vec::new();
    let mut numbers: FxHashMap<Var, Var> = FxHashMap::default();
    let mut inputs: Vec<Var> = Vec::new();
    let mut operands: Vec<Vec<Var>> = Vec::new();
    // Operands that are equal in every copy are one input.
    let mut known: FxHashMap<Vec<Var>, Var> = FxHashMap::default();
    let mut eqns: Vec<Eqn> = Vec::with_capacity(bodies[middle].len());
    for position in 0..bodies[middle].len() {
        let mut eqn = eqn_of(middle, position).clone();
        for (at, operand) in eqn.operands.iter_mut().enumerate() {
            *operand = match numbers.get(operand) {
                Some(&number) => number,
                None => {
                    let vars = (0..bodies.len()).map(|copy| eqn_of(copy, position).operands[at]);
                    *known.entry(vars.collect()).or_insert_with_key(|vars| {
                        let input = avals.len() as Var;
                        avals.push(program.aval(*operand).clone());
                        inputs.push(input);
                        operands.push(vars.clone());
                        input
                    })
                }
            };
        }
        for var in &mut eqn.results {
            let number = avals.len() as Var;
            avals.push(program.aval(*var).clone());
            numbers.insert(*var, number);
            *var = number;
        }
        eqns.push(eqn);
    }
    let own = group.recomputed[middle].len()..bodies[middle].len();
    let mut results: Vec<(usize, usize)> = Vec::new();
    for position in own.clone() {
        let of_copy = |copy: usize, at: usize| eqn_of(copy, position).results[at];
        let is_used =
            |&at: &usize| (0..bodies.len()).any(|copy| is_needed[of_copy(copy, at) as usize]);
        let used = (0..eqn_of(middle, position).results.len()).filter(is_used);
        results.extend(used.map(|at| (position, at)));
    }
    let outputs: Vec<Var> = results.iter().map(|&(position, at)| eqns[position].results[at]).collect();
    let copies = (0..bodies.len()).map(|copy| PartCall {
        operands: operands.iter().map(|vars| vars[copy]).collect(),
        results: results.iter().map(|&(position, at)| eqn_of(copy, position).results[at]).collect(),
    });
    let copies = copies.collect();
    let loc = eqns[own.start].loc;
    debug_assert_eq!(inputs.len(), inputs.iter().collect::<FxHashSet<_>>().len());
    RepeatedPart { body: Program::new(&avals, &inputs, eqns, &outputs), copies, loc }
}
