//! Removing unused outputs, inputs and equations from the programs that primitives hold.

use crate::core::{Eqn, Marks, Primitive, Program, Pruned, Used};
use crate::passes;
use std::sync::Arc;

/// A program without the code that only unused outputs need.
pub(super) struct Live {
    /// The program with the used outputs and all inputs of the original.
    pub(super) program: Program,
    /// The inputs that the program uses.
    pub(super) inputs: Marks<Used>,
}

impl Live {
    /// Keeps the used outputs of a program and removes dead code.
    pub(super) fn of(program: &Program, used: &Marks<Used>) -> Live {
        let program = passes::dce(&program.with_outputs(&used.select(program.outputs())));
        let inputs = program.used_inputs();
        Live { program, inputs }
    }

    /// Returns true if nothing was removed from `original` except outputs.
    pub(super) fn has_size_of(&self, original: &Program) -> bool {
        size(&self.program) == size(original)
    }

    /// Returns the program with the inputs that `used` marks. The others must be unused.
    pub(super) fn with_inputs(&self, used: &Marks<Used>) -> Program {
        self.program.permute_inputs(&used.positions())
    }
}

/// Returns the number of equations, including those of inner programs.
fn size(program: &Program) -> usize {
    let mut size = program.eqns().len();
    for holder in program.eqns().iter().filter_map(|eqn| eqn.primitive.as_higher_order()) {
        for (_, inner) in holder.programs() {
            size += self::size(inner) + inner.outputs().len();
        }
    }
    size
}

/// Implements `prune` for a primitive that applies a program. `wrap` creates the primitive that
/// applies the program without the code that only unused results need. It gets the marks of the
/// operands that remain.
pub(super) fn prune_call<P: Primitive>(
    program: &Program,
    used: &Marks<Used>,
    wrap: impl FnOnce(Arc<Program>, &Marks<Used>) -> P,
) -> Option<Pruned> {
    let live = Live::of(program, used);
    if used.is_all() && live.inputs.is_all() && live.has_size_of(program) {
        return None;
    }
    let pruned = Arc::new(live.with_inputs(&live.inputs));
    Some(Pruned {
        primitive: Arc::new(wrap(pruned, &live.inputs)),
        operands: live.inputs.positions(),
        results: used.positions(),
    })
}

/// Marks every variable of a program that depends on an input marked by `roots`.
pub(super) fn dependent_variables<P>(program: &Program, roots: &Marks<P>) -> Marks<P> {
    let mut dependent = Marks::none(program.avals().len());
    for position in roots.positions() {
        dependent.set(program.inputs()[position] as usize);
    }
    for eqn in program.eqns() {
        if eqn.operands.iter().any(|&var| dependent[var as usize]) {
            eqn.results.iter().for_each(|&var| dependent.set(var as usize));
        }
    }
    dependent
}

/// Keeps the equations that the outputs need, and removes all others even if they have side
/// effects.
pub(super) fn without_effects(program: &Program) -> Program {
    let mut used: Marks<Used> = Marks::none(program.avals().len());
    for &var in program.outputs() {
        used.set(var as usize);
    }
    let mut eqns: Vec<Eqn> = Vec::new();
    for eqn in program.eqns().iter().rev() {
        if eqn.results.iter().any(|&var| used[var as usize]) {
            eqn.operands.iter().for_each(|&var| used.set(var as usize));
            eqns.push(eqn.clone());
        }
    }
    eqns.reverse();
    Program::new(program.avals(), program.inputs(), eqns, program.outputs())
}
