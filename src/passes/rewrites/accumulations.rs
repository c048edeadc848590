//! Adds updates to an array in place instead of to zeros.
//!
//! The gradient of an array that is indexed and also used otherwise, such as the embedding table
//! of a language model that is also its head, is a sum: `g + scatter(zeros, indices, updates)`.
//! The zeros are as large as the array, are filled, updated and read again. `scatter(g, indices,
//! updates)` touches the updated elements only.

use crate::core::{CounterOp, Eqn, Program, Var};
use rustc_hash::{FxHashMap, FxHashSet};

/// Returns the program with the sums of an array and updates of zeros as updates of the array.
/// `None` if nothing changes. Programs that equations hold are not changed. Sums are rounded in
/// another order.
pub(super) fn accumulate_in_place(program: &Program) -> Option<Program> {
    let all = program.eqns();
    let zeros: FxHashSet<Var> = all
        .iter()
        .filter(|eqn| eqn.primitive.fills_with_zero())
        .map(|eqn| eqn.results[0])
        .collect();
    let updates: FxHashMap<Var, &Eqn> = all
        .iter()
        .filter(|eqn| eqn.primitive.accumulates() && zeros.contains(&eqn.operands[0]))
        .map(|eqn| (eqn.results[0], eqn))
        .collect();
    if updates.is_empty() {
        return None;
    }
    let mut uses: FxHashMap<Var, usize> = FxHashMap::default();
    for &var in all.iter().flat_map(|eqn| &eqn.operands).chain(program.outputs()) {
        *uses.entry(var).or_default() += 1;
    }
    // The equation that adds up an array and updates, as an update of the array.
    let updated = |eqn: &Eqn| {
        let [x, y] = eqn.operands[..] else { return None };
        if eqn.primitive.counter_op() != Some(CounterOp::Add) {
            return None;
        }
        let of_pair = |(sum, array): (Var, Var)| {
            let mut update = Eqn::clone(updates.get(&sum)?);
            let is_same_type = program.aval(array) == program.aval(sum);
            update.operands[0] = array;
            update.results.clone_from(&eqn.results);
            (uses[&sum] == 1 && is_same_type).then_some(update)
        };
        [(x, y), (y, x)].into_iter().find_map(of_pair)
    };
    let updated: Vec<Option<Eqn>> = all.iter().map(updated).collect();
    let is_changed = updated.iter().any(Option::is_some);
    let eqns = || updated.into_iter().zip(all).map(|(new, old)| new.unwrap_or_else(|| old.clone()));
    is_changed.then(|| {
        Program::new(program.avals(), program.inputs(), eqns().collect(), program.outputs())
    })
}
