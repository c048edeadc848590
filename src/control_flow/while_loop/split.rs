//! Splitting a loop into what is known ahead and the rest, and dropping what nobody needs.

use super::WhileLoop;
use crate::control_flow::masked::{
    depends_on, same_size, with_kept_inputs, with_used_outputs, without_effects,
};
use crate::control_flow::partial::partial_eval;
use crate::control_flow::scan::grow;
use crate::core::{Half, Primitive, Pruned, Split, SplitOperand};
use std::sync::Arc;

/// The known half is a loop over the carries that known operands alone determine. The unknown half
/// is the whole loop again: values of every step cannot be kept.
pub(super) fn split(whole: &WhileLoop, known: &[bool]) -> Option<Split> {
    let mut known = known.to_vec();
    loop {
        let unknown: Vec<bool> = known[whole.carries()].iter().map(|known| !known).collect();
        let halves = partial_eval(&whole.body, &whole.of_body(&known), &unknown);
        let carries = known[whole.carries()].iter_mut().zip(&halves.outputs);
        let lost = carries.filter(|(known, output)| **known && output.is_unknown());
        if lost.map(|(known, _)| *known = false).count() == 0 {
            break;
        }
    }
    let unknown: Vec<bool> = whole.of_cond(&known).iter().map(|known| !known).collect();
    let stops_unknown = depends_on(&whole.cond, &unknown)[whole.cond.outputs()[0] as usize];
    let kept = known[whole.carries()].to_vec();
    if stops_unknown || !kept.contains(&true) {
        return None;
    }
    let ahead = prune(whole, &kept);
    let (ahead, known_operands, results): (Arc<dyn Primitive>, Vec<usize>, Vec<usize>) = match ahead
    {
        Some(pruned) => (pruned.primitive, pruned.operands, pruned.results),
        None => return None,
    };
    let outputs = (0..whole.n_carry()).map(|at| {
        if kept[at] {
            Half::Known(results.iter().position(|&result| result == at).unwrap_or(at))
        } else {
            Half::Unknown(at)
        }
    });
    Some(Split {
        known: ahead,
        known_operands,
        outputs: outputs.collect(),
        // What has a side effect happens in the known half alone.
        unknown: Arc::new(WhileLoop {
            cond: Arc::new(without_effects(&whole.cond)),
            body: Arc::new(without_effects(&whole.body)),
            ..whole.clone()
        }),
        unknown_operands: (0..known.len()).map(SplitOperand::Operand).collect(),
    })
}

/// Drops results that nobody uses, with the carries, operands and equations that only they need.
pub(super) fn prune(whole: &WhileLoop, used: &[bool]) -> Option<Pruned> {
    let (cond, cond_kept) = with_used_outputs(&whole.cond, &[true]);
    let mut needed = used.to_vec();
    grow(&mut needed, &cond_kept[whole.n_cond_consts..]);
    let (body, body_kept) = loop {
        let (body, kept) = with_used_outputs(&whole.body, &needed);
        if !grow(&mut needed, &kept[whole.n_body_consts..]) {
            break (body, kept);
        }
    };
    let with_carries = |kept: &[bool], n_consts: usize| -> Vec<bool> {
        kept[..n_consts].iter().chain(&needed).copied().collect()
    };
    let of_cond = with_carries(&cond_kept, whole.n_cond_consts);
    let of_body = with_carries(&body_kept, whole.n_body_consts);
    let all = !of_cond.contains(&false) && !of_body.contains(&false);
    if all && same_size(&cond, &whole.cond) && same_size(&body, &whole.body) {
        return None;
    }
    let count = |marks: &[bool]| marks.iter().filter(|mark| **mark).count();
    let operands: Vec<bool> =
        of_cond[..whole.n_cond_consts].iter().chain(&of_body).copied().collect();
    let positions = |marks: &[bool]| (0..marks.len()).filter(|&at| marks[at]).collect();
    Some(Pruned {
        primitive: Arc::new(WhileLoop {
            n_cond_consts: count(&of_cond[..whole.n_cond_consts]),
            n_body_consts: count(&of_body[..whole.n_body_consts]),
            cond: Arc::new(with_kept_inputs(&cond, &of_cond)),
            body: Arc::new(with_kept_inputs(&body, &of_body)),
        }),
        operands: positions(&operands),
        results: positions(&needed),
    })
}
