//! Batching of a loop, whose examples may stop at different steps.

use super::WhileLoop;
use crate::control_flow::derive::{batch_front, front_axes, mapped_of, with_front_axes};
use crate::core::{
    Array, BatchAxis, Batched, Effects, Marks, Primitive, Program, RuleError, RuleResult, bind,
};
use crate::passes;
use crate::primitives::{broadcast_in_dim, reduce_or, select};
use crate::transforms::staging::trace_rules;
use std::sync::Arc;

/// Implements `batch`.
pub(super) fn batch(
    whole: &WhileLoop,
    operands: &[Array],
    axes: &[Option<usize>],
    axis: &BatchAxis,
) -> RuleResult<Batched> {
    let n_carry = whole.n_carry();
    let mut mapped = whole.inputs(mapped_of(axes));
    let (cond, body, stops_differ) = loop {
        let cond = batch_front(&whole.cond, &mapped.cond(), &Marks::none(1), axis);
        let stops_differ = cond.results[0];
        if stops_differ && whole.effects() != Effects::None {
            return Err(RuleError::unsupported(
                "has side effects, and examples of the batch stop at different steps",
            ));
        }
        // If examples stop at different steps, every carry differs between them.
        if stops_differ && mapped.carry.grow(&Marks::all(n_carry)) {
            continue;
        }
        let body = batch_front(&whole.body, &mapped.body(), &mapped.carry, axis);
        if !mapped.carry.grow(&body.results) {
            break (cond.program, body.program, stops_differ);
        }
    };
    let axes_of_results = front_axes(&mapped.carry);
    let moved = whole.inputs(with_front_axes(operands, axes, &mapped.join(), axis));
    let (batched, operands) = if stops_differ {
        // The body evaluates the condition too, so it takes the condition's constants.
        let operands =
            [moved.cond_consts.clone(), moved.cond_consts, moved.body_consts, moved.carry].concat();
        (run_until_all_stop(whole, &cond, &body), operands)
    } else {
        (WhileLoop { cond, body, ..whole.clone() }, moved.join())
    };
    let outputs = bind(batched, &operands.iter().collect::<Vec<_>>());
    Ok(Batched { outputs, axes: axes_of_results })
}

/// Returns the batched loop in which every example stops on its own. It runs while any example
/// continues, and keeps the carries of examples that have stopped. Its body takes the constants of
/// the condition first.
fn run_until_all_stop(whole: &WhileLoop, cond: &Program, body: &Program) -> WhileLoop {
    let any_continues = trace_rules(cond.avals_in(), |inputs| {
        let continues = passes::eval(cond, inputs).swap_remove(0);
        vec![reduce_or(&continues, &[0])]
    });
    let n_cond_consts = whole.n_cond_consts;
    let mut inputs = cond.avals_in();
    inputs.truncate(n_cond_consts);
    inputs.extend(body.avals_in());
    let step = trace_rules(inputs, |inputs| {
        let (cond_consts, body_inputs) = inputs.split_at(n_cond_consts);
        let carry = &body_inputs[whole.n_body_consts..];
        let continues = passes::eval(cond, &[cond_consts, carry].concat()).swap_remove(0);
        let mut next = passes::eval(body, body_inputs);
        for (next, carry) in next.iter_mut().zip(carry) {
            let mask = broadcast_in_dim(&continues, carry.shape(), &[0]);
            *next = select(&mask, next, carry);
        }
        next
    });
    WhileLoop {
        n_cond_consts,
        n_body_consts: n_cond_consts + whole.n_body_consts,
        cond: Arc::new(any_continues),
        body: Arc::new(step),
    }
}
