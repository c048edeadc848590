//! Dead code elimination.

use crate::core::{Effects, Eqn, Marks, Program, Used};
use std::borrow::Cow;

/// Removes equations without side effects whose results are unused, also in programs that equations
/// hold. Keeps all inputs.
pub fn dce(program: &Program) -> Program {
    let mut live = vec![false; program.avals().len()];
    for &var in program.outputs() {
        live[var as usize] = true;
    }
    let mut eqns = Vec::with_capacity(program.eqns().len());
    for eqn in program.eqns().iter().rev() {
        let used: Marks<Used> = Marks::of(&eqn.results, |&var| live[var as usize]);
        if used.any() || eqn.primitive.effects() != Effects::None {
            let eqn = pruned(eqn, &used);
            for &var in &eqn.operands {
                live[var as usize] = true;
            }
            eqns.push(eqn.into_owned());
        }
    }
    eqns.reverse();
    Program::new(program.avals(), program.inputs(), eqns, program.outputs())
}

/// Removes the parts of an equation that only unused results need.
fn pruned<'a>(eqn: &'a Eqn, used: &Marks<Used>) -> Cow<'a, Eqn> {
    match eqn.primitive.as_higher_order().and_then(|holder| holder.prune(used)) {
        None => Cow::Borrowed(eqn),
        Some(pruned) => Cow::Owned(Eqn {
            primitive: pruned.primitive,
            operands: pruned.operands.iter().map(|&index| eqn.operands[index]).collect(),
            results: pruned.results.iter().map(|&index| eqn.results[index]).collect(),
            loc: eqn.loc,
        }),
    }
}
