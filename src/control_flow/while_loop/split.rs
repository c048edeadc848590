//! Splitting a loop into what known operands determine and the rest, and removing unused results.

use super::{LoopInputs, WhileLoop};
use crate::control_flow::groups::List;
use crate::control_flow::partial_eval::partial_eval;
use crate::control_flow::pruning::{Live, dependent_variables, without_effects};
use crate::core::{Half, Known, Marks, Pruned, SplitEqn, SplitOperand, Used};
use std::sync::Arc;

/// Implements `split`. The known half is a loop over the carries that known operands determine. The
/// unknown half is the whole loop, because values of every step cannot be stored.
pub(super) fn split(whole: &WhileLoop, known: &Marks<Known>) -> Option<SplitEqn> {
    let mut known = whole.inputs(known.clone());
    loop {
        let halves = partial_eval(&whole.body, &known.body(), &known.carry);
        if !known.carry.shrink(&halves.known_outputs()) {
            break;
        }
    }
    if !known.carry.any() || condition_is_unknown(whole, &known) {
        return None;
    }
    let used: Marks<Used> = known.carry.iter().collect();
    let pruned = prune(whole, &used)?;
    let mut outputs = Vec::with_capacity(whole.n_carry());
    for (index, is_known) in known.carry.iter().enumerate() {
        outputs.push(if is_known {
            let result = pruned.results.iter().position(|&result| result == index);
            Half::Known(result.expect("known carries are results of the known half"))
        } else {
            Half::Unknown(index)
        });
    }
    Some(SplitEqn {
        known: pruned.primitive,
        known_operands: pruned.operands,
        outputs,
        // Side effects happen in the known half only.
        unknown: Arc::new(WhileLoop {
            cond: Arc::new(without_effects(&whole.cond)),
            body: Arc::new(without_effects(&whole.body)),
            ..whole.clone()
        }),
        unknown_operands: (0..known.join().len()).map(SplitOperand::Operand).collect(),
    })
}

/// Returns true if the condition depends on an unknown value.
fn condition_is_unknown(whole: &WhileLoop, known: &LoopInputs<Marks<Known>>) -> bool {
    let unknown: Marks<Used> = known.cond().iter().map(|is_known| !is_known).collect();
    dependent_variables(&whole.cond, &unknown)[whole.cond.outputs()[0] as usize]
}

/// Implements `prune`: removes unused results, and the carries, operands and equations that only
/// they need.
pub(super) fn prune(whole: &WhileLoop, used: &Marks<Used>) -> Option<Pruned> {
    let mut carry = used.clone();
    let cond = Live::of(&whole.cond, &Marks::all(1));
    let (cond_consts, read_by_cond) = cond.inputs.clone().cut(whole.n_cond_consts);
    carry.grow(&read_by_cond);
    let (body, body_consts) = loop {
        let body = Live::of(&whole.body, &carry);
        let (body_consts, read_by_body) = body.inputs.clone().cut(whole.n_body_consts);
        if !carry.grow(&read_by_body) {
            break (body, body_consts);
        }
    };
    let inputs = LoopInputs { cond_consts, body_consts, carry };
    let keeps_inputs = inputs.clone().join().is_all();
    if keeps_inputs && cond.has_size_of(&whole.cond) && body.has_size_of(&whole.body) {
        return None;
    }
    Some(Pruned {
        primitive: Arc::new(WhileLoop {
            n_cond_consts: inputs.cond_consts.count(),
            n_body_consts: inputs.body_consts.count(),
            cond: Arc::new(cond.with_inputs(&inputs.cond())),
            body: Arc::new(body.with_inputs(&inputs.body())),
        }),
        results: inputs.carry.positions(),
        operands: inputs.join().positions(),
    })
}
