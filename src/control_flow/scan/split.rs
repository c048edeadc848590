//! Splitting a scan into what known operands determine and the rest, and removing unused results.

use super::recompute::{Outside, recompute_residuals};
use super::{Role, Scan};
use crate::control_flow::Call;
use crate::control_flow::groups::{Inputs, Outputs};
use crate::control_flow::partial_eval::{PartialEval, partial_eval};
use crate::control_flow::pruning::{Live, dependent_variables, without_effects};
use crate::core::{
    Array, Aval, Known, Marks, Primitive, Program, Pruned, SplitEqn, SplitOperand, Used, Var, bind,
};
use crate::passes;
use crate::transforms::staging::trace_rules;
use std::sync::Arc;

/// Implements `split`. A carry is known if its initial value is known and every step computes it
/// from known values.
///
/// Values that the unknown half needs of the known one are stacked, one per step. Three kinds are
/// not: constants and scanned arrays are passed on as they are, and values that depend on constants
/// only are computed once, outside the loop. The unknown half computes a value again if that takes
/// a few operations on values that it reads anyway.
pub(super) fn split(scan: &Scan, known: &Marks<Known>) -> Option<SplitEqn> {
    if !known.any() {
        return None;
    }
    let mut known = scan.inputs(known.clone());
    let halves = loop {
        let allowed = Outputs { carry: known.carry.clone(), ys: Marks::all(scan.n_ys()) };
        let halves = partial_eval(&scan.body, &known.clone().join(), &allowed.join());
        if !known.carry.shrink(&scan.outputs(halves.known_outputs()).carry) {
            break halves;
        }
    };
    if halves.is_trivial() {
        return None;
    }
    let varies = variables_that_vary_by_step(&known, &halves);
    let recomputed = recompute_residuals(&halves, &varies, &outside(scan, &known, &halves));
    let halves = recomputed.as_ref().unwrap_or(&halves);
    Some(ScanHalves::new(scan, &known, halves).split())
}

/// Marks the variables of the known body that depend on a carry or a scanned array.
fn variables_that_vary_by_step(known: &Inputs<Marks<Known>>, halves: &PartialEval) -> Marks<Known> {
    let inputs = Marks::none(known.consts.count())
        .concat(&Marks::all(known.carry.count() + known.xs.count()));
    dependent_variables(&halves.known, &inputs)
}

/// Returns the variables of the known half whose values exist outside the loop.
fn outside(scan: &Scan, known: &Inputs<Marks<Known>>, halves: &PartialEval) -> Outside {
    let n_results = halves.known_outputs().count();
    let operands = known.clone().join().positions();
    let operands = halves.known.inputs().iter().copied().zip(operands);
    let (carries, operands) = operands.partition(|&(_, index)| scan.role(index) == Role::Carry);
    let results = halves.known.outputs()[known.carry.count()..n_results].to_vec();
    Outside { results, operands, carries }
}

/// The origin of an input of the unknown half's body.
#[derive(Clone, Copy)]
enum Origin {
    /// An operand of the original scan.
    Operand(usize),
    /// The value at this position of `constants`.
    Constant(usize),
    /// The value at this position of `stacked`.
    Stacked(usize),
}

/// The two halves of a scan, while the origins of the unknown half's inputs are decided.
struct ScanHalves<'a> {
    scan: &'a Scan,
    known: &'a Inputs<Marks<Known>>,
    halves: &'a PartialEval,
    /// Variables of the known body that are stacked. Outputs of the original come first.
    stacked: Vec<Var>,
    /// Variables of the known body that are equal in every step.
    constants: Vec<Var>,
    /// The inputs of the unknown body: position and origin.
    inputs: Inputs<Vec<(usize, Origin)>>,
}

impl<'a> ScanHalves<'a> {
    fn new(
        scan: &'a Scan,
        known: &'a Inputs<Marks<Known>>,
        halves: &'a PartialEval,
    ) -> ScanHalves<'a> {
        let n_known_outputs = halves.known_outputs().count();
        let mut split = ScanHalves {
            scan,
            known,
            halves,
            stacked: halves.known.outputs()[known.carry.count()..n_known_outputs].to_vec(),
            constants: Vec::new(),
            inputs: Inputs { consts: Vec::new(), carry: Vec::new(), xs: Vec::new() },
        };
        let varies_by_step = variables_that_vary_by_step(known, halves);
        for (position, source) in halves.sources.iter().enumerate() {
            match *source {
                SplitOperand::Operand(index) => split.add_operand(position, index),
                SplitOperand::Known(index) => {
                    let var = halves.known.outputs()[index];
                    if varies_by_step[var as usize] {
                        split.add_stacked(position, var);
                    } else {
                        split.add_constant(position, var);
                    }
                }
            }
        }
        split
    }

    /// Takes the unknown body's input at `position` from an operand of the original scan.
    fn add_operand(&mut self, position: usize, index: usize) {
        let input = (position, Origin::Operand(index));
        match self.scan.role(index) {
            Role::Const => self.inputs.consts.push(input),
            Role::X => self.inputs.xs.push(input),
            Role::Carry if self.known.carry[index - self.scan.n_consts] => {
                // A known carry differs from step to step, so its values are stacked.
                let mut known_inputs = self.known.clone().join().positions().into_iter();
                let known_input = known_inputs.position(|known_index| known_index == index);
                let known_input = known_input.expect("known carries are inputs of the known half");
                self.add_stacked(position, self.halves.known.inputs()[known_input]);
            }
            Role::Carry => self.inputs.carry.push(input),
        }
    }

    fn add_stacked(&mut self, position: usize, var: Var) {
        let index = index_of(&mut self.stacked, var);
        self.inputs.xs.push((position, Origin::Stacked(index)));
    }

    fn add_constant(&mut self, position: usize, var: Var) {
        let index = index_of(&mut self.constants, var);
        self.inputs.consts.push((position, Origin::Constant(index)));
    }

    fn split(self) -> SplitEqn {
        let ScanHalves { scan, known, halves, stacked, constants, inputs } = self;
        let (n_consts, n_carry) = (known.consts.count(), known.carry.count());
        let body = &halves.known;
        let outputs: Vec<Var> = [&body.outputs()[..n_carry], &stacked].concat();
        let loop_body = passes::dce(&body.with_outputs(&outputs));
        let known_scan = scan.with_body(loop_body, n_consts, n_carry);
        let known_half: Arc<dyn Primitive> = if constants.is_empty() {
            Arc::new(known_scan)
        } else {
            let constants = without_effects(&body.with_outputs(&constants));
            Arc::new(with_constants(scan, known_scan, &constants))
        };
        let n_results = n_carry + stacked.len();
        let source = |origin: Origin| match origin {
            Origin::Operand(index) => SplitOperand::Operand(index),
            Origin::Stacked(index) => SplitOperand::Known(n_carry + index),
            Origin::Constant(index) => SplitOperand::Known(n_results + index),
        };
        let (n_unknown_consts, n_unknown_carry) = (inputs.consts.len(), inputs.carry.len());
        let (order, origins): (Vec<usize>, Vec<Origin>) = inputs.join().into_iter().unzip();
        let unknown_body = halves.unknown.permute_inputs(&order);
        let unknown_scan = scan.with_body(unknown_body, n_unknown_consts, n_unknown_carry);
        SplitEqn {
            known: known_half,
            known_operands: known.clone().join().positions(),
            unknown: Arc::new(unknown_scan),
            unknown_operands: origins.into_iter().map(source).collect(),
            outputs: halves.outputs.clone(),
        }
    }
}

/// Returns the index of `var`, which is appended if it is missing.
fn index_of(vars: &mut Vec<Var>, var: Var) -> usize {
    vars.iter().position(|&other| other == var).unwrap_or_else(|| {
        vars.push(var);
        vars.len() - 1
    })
}

/// Returns the known scan together with values that are computed once, outside the loop.
/// `constants` has the inputs of the scan's body and uses only the constants among them.
fn with_constants(scan: &Scan, known_scan: Scan, constants: &Program) -> Call {
    let n_consts = known_scan.n_consts;
    let mut inputs: Vec<Aval> = known_scan.body.avals_in();
    for x in &mut inputs[n_consts + known_scan.n_carry..] {
        *x = scan.stacked_aval(x);
    }
    let constants = constants.permute_inputs(&(0..n_consts).collect::<Vec<_>>());
    let program = trace_rules(inputs, |inputs| {
        let mut outputs = bind(known_scan, &inputs.iter().collect::<Vec<_>>());
        let once: Vec<Array> = passes::eval(&constants, &inputs[..n_consts]);
        outputs.extend(once);
        outputs
    });
    Call { name: "scan_known".into(), program: Arc::new(program) }
}

/// Implements `prune`: removes unused results, and the carries, operands and equations that only
/// they need.
pub(super) fn prune(scan: &Scan, used: &Marks<Used>) -> Option<Pruned> {
    let mut results = scan.outputs(used.clone());
    // A carry is needed if its last value is used, or if a used output of a step depends on it.
    let live = loop {
        let live = Live::of(&scan.body, &results.clone().join());
        if !results.carry.grow(&scan.inputs(live.inputs.clone()).carry) {
            break live;
        }
    };
    let mut inputs = scan.inputs(live.inputs.clone());
    inputs.carry = results.carry.clone();
    let (n_consts, n_carry) = (inputs.consts.count(), inputs.carry.count());
    let (inputs, results) = (inputs.join(), results.join());
    if results.is_all() && inputs.is_all() && live.has_size_of(&scan.body) {
        return None;
    }
    Some(Pruned {
        primitive: Arc::new(scan.with_body(live.with_inputs(&inputs), n_consts, n_carry)),
        operands: inputs.positions(),
        results: results.positions(),
    })
}
