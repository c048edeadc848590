//! Concatenates parts instead of adding up arrays that hold one part each and are zero elsewhere.
//!
//! The gradient of an array that is used in slices, such as the gates of a recurrent network, is a
//! sum of padded arrays. A kernel computes all terms of the sum for each element, the zeros too.

use crate::core::{CounterOp, Eqn, PartOfArray, Program, Var};
use rustc_hash::{FxHashMap, FxHashSet};

/// Returns the program in which sums of embedded parts that cover an axis without overlap are
/// concatenations. `None` if there are none. A part's negative zeros are not added to zeros.
pub(super) fn join_parts(program: &Program) -> Option<Program> {
    let eqns = program.eqns();
    let zeros: FxHashSet<Var> = eqns
        .iter()
        .filter(|eqn| eqn.primitive.fills_with_zero())
        .map(|eqn| eqn.results[0])
        .collect();
    let parts: FxHashMap<Var, (Var, PartOfArray)> = eqns
        .iter()
        .filter(|eqn| eqn.operands.get(1).is_some_and(|value| zeros.contains(value)))
        .filter_map(|eqn| {
            let embedding = eqn.primitive.embedding(&program.avals_of(&eqn.operands))?;
            Some((eqn.results[0], (eqn.operands[0], embedding)))
        })
        .collect();
    if parts.len() < 2 {
        return None;
    }
    let mut uses: FxHashMap<Var, usize> = FxHashMap::default();
    for &var in eqns.iter().flat_map(|eqn| &eqn.operands).chain(program.outputs()) {
        *uses.entry(var).or_default() += 1;
    }
    let sums: FxHashMap<Var, &Eqn> = eqns
        .iter()
        .filter(|eqn| eqn.primitive.counter_op() == Some(CounterOp::Add))
        .map(|eqn| (eqn.results[0], eqn))
        .collect();
    let mut is_changed = false;
    let joined = eqns.iter().map(|eqn| {
        let joined = sums.get(&eqn.results[0]).and_then(|_| {
            let terms = terms_of(eqn, &sums, &uses, &parts)?;
            join(program, eqn, terms)
        });
        is_changed |= joined.is_some();
        joined.unwrap_or_else(|| eqn.clone())
    });
    let joined = joined.collect();
    is_changed.then(|| Program::new(program.avals(), program.inputs(), joined, program.outputs()))
}

/// Returns the embedded parts that an equation adds up, if it adds up nothing else.
fn terms_of<'a>(
    eqn: &Eqn,
    sums: &FxHashMap<Var, &Eqn>,
    uses: &FxHashMap<Var, usize>,
    parts: &'a FxHashMap<Var, (Var, PartOfArray)>,
) -> Option<Vec<&'a (Var, PartOfArray)>> {
    let mut terms = Vec::new();
    let mut pending = eqn.operands.to_vec();
    while let Some(var) = pending.pop() {
        match (parts.get(&var), sums.get(&var)) {
            (Some(part), _) => terms.push(part),
            (None, Some(sum)) if uses[&var] == 1 => pending.extend(&sum.operands),
            _ => return None,
        }
    }
    Some(terms)
}

/// Returns the equation that concatenates the parts, if they cover the result of `eqn`.
fn join(program: &Program, eqn: &Eqn, mut terms: Vec<&(Var, PartOfArray)>) -> Option<Eqn> {
    terms.sort_by_key(|(_, embedding)| embedding.start);
    let PartOfArray { axis, concatenation, .. } = &terms[0].1;
    let mut end = 0;
    for (part, embedding) in &terms {
        if embedding.axis != *axis || embedding.start != end {
            return None;
        }
        end += program.aval(*part).shape[*axis];
    }
    let is_whole = end == program.aval(eqn.results[0]).shape[*axis];
    is_whole.then(|| Eqn {
        primitive: concatenation.clone(),
        operands: terms.iter().map(|(part, _)| *part).collect(),
        ..eqn.clone()
    })
}
