//! The forward derivative of a scan: a scan that also carries tangents.

use super::Scan;
use crate::control_flow::derive::{avals_of, jvp_of};
use crate::control_flow::groups::{Inputs, List, Outputs};
use crate::core::{Array, JvpResult, Marks, Tangent, Var, bind};

/// Implements `jvp`. The derivative's body takes each group of primal inputs followed by its
/// tangents, and returns each group of outputs followed by its tangents.
pub(super) fn jvp(scan: &Scan, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
    let mut varying = scan.inputs(Marks::of_tangents(tangents));
    // A carry that starts constant varies if a step computes it from a varying one.
    let (derivative, results) = loop {
        let required = Outputs { carry: varying.carry.clone(), ys: Marks::none(scan.n_ys()) };
        let derivative = jvp_of(&scan.body, &varying.clone().join(), &required.join());
        let results = scan.outputs(derivative.results);
        if !varying.carry.grow(&results.carry) {
            break (derivative.program, results);
        }
    };
    let (n_inputs, n_outputs) = (primals.len(), scan.body.outputs().len());
    let (n_varying_consts, n_varying_carry) = (varying.consts.count(), varying.carry.count());
    let dense: Vec<Array> = varying.join().select(tangents).iter().map(Tangent::to_dense).collect();

    // Positions in the derivative, which has all primals first and then all tangents.
    let primal_inputs = scan.inputs((0..n_inputs).collect::<Vec<usize>>());
    let tangent_inputs = (n_inputs..n_inputs + dense.len()).collect::<Vec<usize>>();
    let tangent_inputs = Inputs::cut(tangent_inputs, n_varying_consts, n_varying_carry);
    let inputs = primal_inputs.append_groups(tangent_inputs);
    let primal_outputs = scan.outputs((0..n_outputs).collect::<Vec<usize>>());
    let tangent_outputs = (n_outputs..derivative.outputs().len()).collect::<Vec<usize>>();
    let tangent_outputs = Outputs::cut(tangent_outputs, results.carry.count());
    let outputs = primal_outputs.append_groups(tangent_outputs);

    let (n_consts, n_carry) = (inputs.consts.len(), inputs.carry.len());
    let inputs = inputs.join();
    let vars: Vec<Var> =
        outputs.join().iter().map(|&position| derivative.outputs()[position]).collect();
    let body = derivative.with_outputs(&vars).permute_inputs(&inputs);
    let values = [primals, &dense].concat();
    let operands: Vec<&Array> = inputs.iter().map(|&position| &values[position]).collect();
    let outputs = Outputs::cut(bind(scan.with_body(body, n_consts, n_carry), &operands), n_carry);
    let (carry, carry_tangents) = outputs.carry.cut(scan.n_carry);
    let (ys, y_tangents) = outputs.ys.cut(scan.n_ys());
    let outputs = carry.join(ys);
    let tangents = results.join().tangents(avals_of(&outputs), carry_tangents.join(y_tangents));
    Ok((outputs, tangents))
}
