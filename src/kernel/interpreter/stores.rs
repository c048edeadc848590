//! The stores in the text of a kernel.

use crate::control_flow::{Cond, Scan, WhileLoop};
use crate::core::{Eqn, Loc, Program};
use crate::kernel::{KernelCall, RefSet};
use crate::passes;

/// The number of the memory whose state a variable is.
type State = Option<usize>;

/// Returns the memory and the line of each store, in order.
pub(super) fn stores(kernel: &KernelCall) -> Vec<(usize, Loc)> {
    let n_memories = kernel.body.inputs().len() - kernel.rank();
    let ids = vec![None; kernel.rank()];
    let mut found = Vec::new();
    find(&kernel.body, ids.into_iter().chain((0..n_memories).map(Some)).collect(), &mut found);
    found
}

fn find(program: &Program, inputs: Vec<State>, found: &mut Vec<(usize, Loc)>) -> Vec<State> {
    program.interpret(inputs, |eqn, operands| {
        let operands: Vec<State> = operands.iter().map(|&&state| state).collect();
        let mut results = find_in(eqn, &operands, found);
        results.resize(eqn.results.len(), None);
        results
    })
}

fn find_in(eqn: &Eqn, operands: &[State], found: &mut Vec<(usize, Loc)>) -> Vec<State> {
    let primitive = (*eqn.primitive).as_any();
    if primitive.is::<RefSet>() {
        found.extend(operands[0].map(|memory| (memory, eqn.loc)));
        vec![operands[0]]
    } else if let Some(cond) = primitive.downcast_ref::<Cond>() {
        let mut results = Vec::new();
        for branch in &cond.branches {
            results = find(branch, operands[1..].to_vec(), found);
        }
        results
    } else if let Some(scan) = primitive.downcast_ref::<Scan>() {
        find(&scan.body, operands.to_vec(), found)
    } else if let Some(looped) = primitive.downcast_ref::<WhileLoop>() {
        find(&looped.body, operands[looped.n_cond_consts..].to_vec(), found)
    } else if let Some(program) = passes::inlined(eqn) {
        find(program, operands.to_vec(), found)
    } else {
        Vec::new()
    }
}
