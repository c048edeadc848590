//! Splitting a scan into what is known ahead and the rest, and dropping what nobody needs.

use super::{Groups, Scan, grow};
use crate::control_flow::Call;
use crate::control_flow::masked::{
    depends_on, same_size, with_kept_inputs, with_used_outputs, without_effects,
};
use crate::control_flow::partial::{PartialEval, partial_eval};
use crate::core::{Array, Aval, Primitive, Program, Pruned, Split, SplitOperand, Var, bind};
use crate::passes;
use crate::transforms::staging::trace_rules;
use std::sync::Arc;

/// Splits a scan: a carry is known if it starts known and known values alone determine it ever after.
///
/// What the unknown half needs of the known one is stacked, step by step, but for what is the same in
/// every step: constants are handed on as they are, arrays that are scanned too, and what only
/// depends on constants is computed once, outside the loop.
pub(super) fn split(scan: &Scan, known: &[bool]) -> Option<Split> {
    if !known.contains(&true) {
        return None;
    }
    let mut known = known.to_vec();
    let halves = loop {
        let mut unknown: Vec<bool> = known[scan.carries()].iter().map(|known| !known).collect();
        unknown.resize(scan.body.outputs().len(), false);
        let halves = partial_eval(&scan.body, &known, &unknown);
        let carries = known[scan.carries()].iter_mut().zip(&halves.outputs);
        let lost = carries.filter(|(known, output)| **known && output.is_unknown());
        if lost.map(|(known, _)| *known = false).count() == 0 {
            break halves;
        }
    };
    if halves.is_idle() {
        return None;
    }
    Some(Parting::of(scan, &known, &halves).split(scan, &known, &halves))
}

/// Where the inputs of the unknown half's body come from.
struct Parting {
    /// Outputs of the known body that are stacked; those of the whole come first.
    stacked: Vec<Var>,
    /// Variables of the known body that are the same in every step.
    constant: Vec<Var>,
    /// For each input of the unknown body, by group: its position, and where it comes from.
    inputs: Groups<(usize, Origin)>,
}

#[derive(Clone, Copy)]
enum Origin {
    Operand(usize),
    Constant(usize),
    Stacked(usize),
}

impl Parting {
    fn of(scan: &Scan, known: &[bool], halves: &PartialEval) -> Parting {
        let carries = scan.carries();
        let body = &halves.known;
        let n_known_carries = known[carries.clone()].iter().filter(|known| **known).count();
        let n_known_outputs = halves.outputs.iter().filter(|output| output.is_known()).count();
        let mut parting = Parting {
            stacked: body.outputs()[n_known_carries..n_known_outputs].to_vec(),
            constant: Vec::new(),
            inputs: Groups { consts: Vec::new(), carry: Vec::new(), xs: Vec::new() },
        };
        let inputs_known: Vec<usize> = (0..known.len()).filter(|&at| known[at]).collect();
        let in_loop: Vec<bool> = inputs_known.iter().map(|&at| at >= carries.start).collect();
        let varies = depends_on(body, &in_loop);
        for (position, source) in halves.sources.iter().enumerate() {
            match *source {
                SplitOperand::Operand(at) if at < carries.start => {
                    parting.inputs.consts.push((position, Origin::Operand(at)));
                }
                SplitOperand::Operand(at) if at >= carries.end => {
                    parting.inputs.xs.push((position, Origin::Operand(at)));
                }
                SplitOperand::Operand(at) if !known[at] => {
                    parting.inputs.carry.push((position, Origin::Operand(at)));
                }
                // A known carry is another in every step.
                SplitOperand::Operand(at) => {
                    let input = inputs_known.iter().position(|&known| known == at);
                    let input = input.expect("known carries are inputs of the known half");
                    parting.stack(position, body.inputs()[input]);
                }
                SplitOperand::Known(at) => match body.outputs()[at] {
                    var if varies[var as usize] => parting.stack(position, var),
                    var => parting.keep_constant(position, var),
                },
            }
        }
        parting
    }

    fn stack(&mut self, position: usize, var: Var) {
        let at = index_of(&mut self.stacked, var);
        self.inputs.xs.push((position, Origin::Stacked(at)));
    }

    fn keep_constant(&mut self, position: usize, var: Var) {
        let at = index_of(&mut self.constant, var);
        self.inputs.consts.push((position, Origin::Constant(at)));
    }

    fn split(self, scan: &Scan, known: &[bool], halves: &PartialEval) -> Split {
        let carries = scan.carries();
        let count = |range: std::ops::Range<usize>| known[range].iter().filter(|k| **k).count();
        let (n_consts, n_carry) = (count(0..carries.start), count(carries));
        let body = &halves.known;
        let outputs: Vec<Var> =
            body.outputs()[..n_carry].iter().chain(&self.stacked).copied().collect();
        let ahead = scan.with_body(passes::dce(&body.with_outputs(&outputs)), n_consts, n_carry);
        let known_operands: Vec<usize> = (0..known.len()).filter(|&at| known[at]).collect();
        let constants = without_effects(&body.with_outputs(&self.constant));
        let ahead: Arc<dyn Primitive> = match self.constant.is_empty() {
            true => Arc::new(ahead),
            false => Arc::new(with_constants(scan, ahead, &constants, n_consts)),
        };
        let n_results = n_carry + self.stacked.len();
        let source = |origin: &Origin| match *origin {
            Origin::Operand(at) => SplitOperand::Operand(at),
            Origin::Stacked(at) => SplitOperand::Known(n_carry + at),
            Origin::Constant(at) => SplitOperand::Known(n_results + at),
        };
        let (unknown_consts, unknown_carry) = self.inputs.sizes();
        let inputs = self.inputs.joined();
        let order: Vec<usize> = inputs.iter().map(|(position, _)| *position).collect();
        let unknown = halves.unknown.permute_inputs(&order);
        Split {
            known: ahead,
            known_operands,
            unknown: Arc::new(scan.with_body(unknown, unknown_consts, unknown_carry)),
            unknown_operands: inputs.iter().map(|(_, origin)| source(origin)).collect(),
            outputs: halves.outputs.clone(),
        }
    }
}

fn index_of(vars: &mut Vec<Var>, var: Var) -> usize {
    vars.iter().position(|&other| other == var).unwrap_or_else(|| {
        vars.push(var);
        vars.len() - 1
    })
}

/// The known half together with what is computed once outside of its loop. `constants` is a program
/// over the inputs of the known body that uses its `n_consts` constants alone.
fn with_constants(scan: &Scan, ahead: Scan, constants: &Program, n_consts: usize) -> Call {
    let avals = ahead.body.avals_in();
    let of_operand = |(at, aval): (usize, &Aval)| match at < ahead.n_consts + ahead.n_carry {
        true => aval.clone(),
        false => scan.stacked(aval),
    };
    let inputs: Vec<Aval> = avals.iter().enumerate().map(of_operand).collect();
    let constants = constants.permute_inputs(&(0..n_consts).collect::<Vec<_>>());
    let program = trace_rules(inputs, |inputs| {
        let mut outputs = bind(ahead, &inputs.iter().collect::<Vec<_>>());
        let once: Vec<Array> = passes::eval(&constants, &inputs[..n_consts]);
        outputs.extend(once);
        outputs
    });
    Call { name: "scan_known".into(), program: Arc::new(program) }
}

/// Drops results that nobody uses, with the carries, operands and equations that only they need.
pub(super) fn prune(scan: &Scan, used: &[bool]) -> Option<Pruned> {
    // A carry is needed if its last value is used, or a needed output of a step depends on it.
    let mut needed = used.to_vec();
    let (body, kept) = loop {
        let (body, kept) = with_used_outputs(&scan.body, &needed);
        if !grow(&mut needed[..scan.n_carry], &kept[scan.carries()]) {
            break (body, kept);
        }
    };
    let mut kept = kept;
    kept[scan.carries()].copy_from_slice(&needed[..scan.n_carry]);
    if !needed.contains(&false) && !kept.contains(&false) && same_size(&body, &scan.body) {
        return None;
    }
    let count = |marks: &[bool]| marks.iter().filter(|mark| **mark).count();
    let (n_consts, n_carry) = (count(&kept[..scan.n_consts]), count(&kept[scan.carries()]));
    let positions = |marks: &[bool]| (0..marks.len()).filter(|&at| marks[at]).collect();
    let body = with_kept_inputs(&body, &kept);
    Some(Pruned {
        primitive: Arc::new(scan.with_body(body, n_consts, n_carry)),
        operands: positions(&kept),
        results: positions(&needed),
    })
}
