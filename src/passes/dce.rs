//! Dead code elimination.

use crate::core::{Effects, Eqn, Marks, Program, Used};
use std::borrow::Cow;

/// The program without equations whose results nobody uses and which have no side effect, inside the
/// programs that equations hold as well. Inputs stay, used or not.
pub fn dce(program: &Program) -> Program {
    let mut live = vec![false; program.avals().len()];
    for &var in program.outputs() {
        live[var as usize] = true;
    }
    let mut kept = Vec::with_capacity(program.eqns().len());
    for eqn in program.eqns().iter().rev() {
        let used: Marks<Used> = Marks::of(&eqn.results, |&var| live[var as usize]);
        if used.any() || eqn.primitive.effects() != Effects::None {
            let eqn = pruned(eqn, &used);
            for &var in &eqn.operands {
                live[var as usize] = true;
            }
            kept.push(eqn.into_owned());
        }
    }
    kept.reverse();
    Program::new(program.avals(), program.inputs(), kept, program.outputs())
}

/// The equation without what only unused results need.
fn pruned<'a>(eqn: &'a Eqn, used: &Marks<Used>) -> Cow<'a, Eqn> {
    match eqn.primitive.as_higher_order().and_then(|holder| holder.prune(used)) {
        None => Cow::Borrowed(eqn),
        Some(pruned) => Cow::Owned(Eqn {
            primitive: pruned.primitive,
            operands: pruned.operands.iter().map(|&at| eqn.operands[at]).collect(),
            results: pruned.results.iter().map(|&at| eqn.results[at]).collect(),
            location: eqn.location,
        }),
    }
}
