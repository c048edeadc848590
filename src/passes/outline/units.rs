//! [`Units`]: what the search for repeated parts compares of each equation.

use crate::core::{Cost, Effects, Eqn, Program, SaveHint, Var};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::ops::Range;

/// Results with at most this many elements are cheap enough to compute outside of a part.
const SMALL: usize = 64;

/// Hashes and sizes of a program's equations.
pub(super) struct Units {
    /// Equal for equations that may be copies of each other.
    pub(super) hashes: Vec<u64>,
    /// The number of equations before each index, those of inner programs included.
    sums: Vec<usize>,
}

impl Units {
    pub(super) fn of(program: &Program) -> Units {
        let n = program.eqns().len();
        let (mut hashes, mut sums) = (Vec::with_capacity(n), Vec::with_capacity(n + 1));
        sums.push(0);
        for (index, eqn) in program.eqns().iter().enumerate() {
            hashes.push(hash(program, eqn, index));
            sums.push(sums[index] + weight(eqn));
        }
        Units { hashes, sums }
    }

    /// Returns the number of equations in a range, those of inner programs included.
    pub(super) fn weight(&self, range: Range<usize>) -> usize {
        self.sums[range.end] - self.sums[range.start]
    }
}

fn weight(eqn: &Eqn) -> usize {
    let Some(holder) = eqn.primitive.as_higher_order() else { return 1 };
    let inner = |program: &Program| program.eqns().iter().map(weight).sum::<usize>();
    1 + holder.programs().iter().map(|(_, program)| inner(program)).sum::<usize>()
}

fn hash(program: &Program, eqn: &Eqn, index: usize) -> u64 {
    let mut state = FxHasher::default();
    if is_unique(eqn) {
        index.hash(&mut state);
        return state.finish();
    }
    eqn.primitive.name().hash(&mut state);
    if !may_differ(program, eqn) {
        match called(eqn) {
            Some(inner) => inner.hash(&mut state),
            None => (*eqn.primitive).dyn_hash(&mut state),
        }
    }
    for &var in eqn.operands.iter().chain(&eqn.results) {
        program.aval(var).hash(&mut state);
    }
    eqn.loc.without_scope().hash(&mut state);
    state.finish()
}

/// Returns true unless an equation has effects, calls the host, or exchanges data between devices.
pub(super) fn is_movable(eqn: &Eqn) -> bool {
    !is_unique(eqn)
}

/// Returns true for a value that is cheap to compute and to pass.
fn is_small(program: &Program, var: Var) -> bool {
    program.aval(var).size() <= SMALL
}

fn is_unique(eqn: &Eqn) -> bool {
    eqn.primitive.effects() != Effects::None
        || eqn.primitive.communication().is_some()
        || match called(eqn) {
            Some(inner) => inner.is_opaque() || inner.eqns().iter().any(is_unique),
            None => {
                let holder = eqn.primitive.as_higher_order();
                eqn.primitive.is_opaque()
                    || holder.is_some_and(|holder| {
                        let mut held = holder.programs().into_iter();
                        held.any(|(_, inner)| inner.eqns().iter().any(is_unique))
                    })
            }
        }
}

/// Returns the program that an equation calls, if its primitive does nothing else.
pub(super) fn called(eqn: &Eqn) -> Option<&Program> {
    eqn.primitive.as_higher_order().and_then(|holder| holder.inlined())
}

/// Returns true if an equation may have other parameters in another copy, because it can be
/// computed outside of the function: constants, and small values such as keys.
pub(super) fn may_differ(program: &Program, eqn: &Eqn) -> bool {
    eqn.primitive.as_higher_order().is_none()
        && (eqn.operands.is_empty() || eqn.results.iter().all(|&var| is_small(program, var)))
}

/// Returns true if two equations lower to the same operations, given equal operands.
pub(super) fn is_same_operation(a: &Eqn, b: &Eqn) -> bool {
    match (called(a), called(b)) {
        (Some(a), Some(b)) => a == b,
        _ => *a.primitive == *b.primitive,
    }
}

/// Returns true if an equation multiplies matrices or convolves, also in an inner program.
pub(super) fn is_contraction(eqn: &Eqn) -> bool {
    let holder = eqn.primitive.as_higher_order();
    matches!(eqn.primitive.save_hint(), SaveHint::Contraction { .. })
        || holder.is_some_and(|holder| {
            let mut held = holder.programs().into_iter();
            held.any(|(_, inner)| inner.eqns().iter().any(is_contraction))
        })
}

/// Returns the cost of an equation.
pub(super) fn cost(program: &Program, eqn: &Eqn) -> Cost {
    let (operands, results) = (program.avals_of(&eqn.operands), program.avals_of(&eqn.results));
    eqn.primitive.cost(&operands, &results)
}
