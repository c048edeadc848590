//! Adds updates to an array in place instead of to zeros.
//!
//! The gradient of an array that is indexed and also used otherwise, such as the embedding table
//! of a language model that is also its head, is a sum: `g + scatter(zeros, indices, updates)`.
//! The zeros are as large as the array, are filled, updated and read again. `scatter(g, indices,
//! updates)` touches the updated elements only.

use crate::core::{CounterOp, Eqn, Program, Var};
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;

/// Returns the program with the sums of an array and updates of zeros as updates of the array.
/// Programs that equations hold are not changed. Sums are rounded in another order.
pub(super) fn accumulate_in_place(program: &Program) -> Cow<'_, Program> {
    let all = program.eqns();
    let zeros: FxHashSet<Var> = all
        .iter()
        .filter(|eqn| eqn.primitive.fills_with_zero())
        .map(|eqn| eqn.results[0])
        .collect();
    if zeros.is_empty() {
        return Cow::Borrowed(program);
    }
    let is_candidate = |eqn: &Eqn| eqn.primitive.accumulates() && zeros.contains(&eqn.operands[0]);
    let updates: FxHashMap<Var, usize> = all
        .iter()
        .enumerate()
        .filter(|(_, eqn)| is_candidate(eqn))
        .map(|(index, eqn)| (eqn.results[0], index))
        .collect();
    if updates.is_empty() {
        return Cow::Borrowed(program);
    }
    let mut uses: FxHashMap<Var, usize> = FxHashMap::default();
    let operands = all.iter().flat_map(|eqn| &eqn.operands);
    for var in operands.chain(program.outputs()).filter(|var| updates.contains_key(var)) {
        *uses.entry(*var).or_default() += 1;
    }
    let mut eqns: Vec<Option<Eqn>> = all.iter().cloned().map(Some).collect();
    let mut is_changed = false;
    for (index, eqn) in all.iter().enumerate() {
        let [x, y] = eqn.operands[..] else { continue };
        if eqn.primitive.counter_op() != Some(CounterOp::Add) {
            continue;
        }
        for (sum, array) in [(x, y), (y, x)] {
            let Some(&at) = updates.get(&sum) else { continue };
            if uses[&sum] != 1 || program.aval(array) != program.aval(sum) {
                continue;
            }
            let Some(mut update) = eqns[at].take() else { continue };
            update.operands[0] = array;
            update.results.clone_from(&eqn.results);
            eqns[index] = Some(update);
            is_changed = true;
            break;
        }
    }
    if !is_changed {
        return Cow::Borrowed(program);
    }
    let mut eqns: Vec<Eqn> = eqns.into_iter().flatten().collect();
    let operands = eqns.iter().flat_map(|eqn| &eqn.operands);
    let used: FxHashSet<Var> = operands.chain(program.outputs()).copied().collect();
    eqns.retain(|eqn| eqn.results.iter().all(|var| !zeros.contains(var) || used.contains(var)));
    Cow::Owned(Program::new(program.avals(), program.inputs(), eqns, program.outputs()))
}
