//! The transpose of a linear scan: a scan in the opposite direction that carries cotangents.

use super::Scan;
use crate::control_flow::derive::{avals_of, transpose_of};
use crate::control_flow::groups::{Inputs, List, Outputs};
use crate::core::{
    Array, Aval, Half, HigherOrder, Marks, Operand, RuleError, RuleResult, SplitOperand, Tangent,
    bind, bind_shared, bind1,
};
use crate::passes;
use crate::primitives::{Add, zeros_of};
use crate::transforms::staging::trace_rules;

/// Implements `transpose`.
///
/// Inside the body every carry is linear, including one whose initial value is known. The
/// cotangents of linear constants are summed in additional carries. If known operands determine a
/// carry, it is computed first, by a separate scan.
pub(super) fn transpose(
    scan: &Scan,
    cts: &[Tangent],
    operands: &[Operand],
) -> RuleResult<Vec<Option<Tangent>>> {
    let mut known = scan.inputs(Marks::of_operands(operands));
    if known.carry.any()
        && let Some(cts) = transpose_unknown_half(scan, cts, operands)
    {
        return cts;
    }
    known.carry = Marks::none(scan.n_carry);
    let n_linear_consts = known.consts.count_unmarked();
    let mut dense_cts = scan.outputs(Marks::of_tangents(cts));
    let (transposed, results) = loop {
        let required = Inputs {
            consts: Marks::none(n_linear_consts),
            carry: dense_cts.carry.clone(),
            xs: Marks::none(known.xs.count_unmarked()),
        };
        let (known, dense_cts_list) = (known.clone().join(), dense_cts.clone().join());
        let transposed = transpose_of(&scan.body, &known, &dense_cts_list, &required.join());
        let results = Inputs::cut(transposed.results, n_linear_consts, scan.n_carry);
        if !dense_cts.carry.grow(&results.carry) {
            break (transposed.program, results);
        }
    };

    let groups = scan.inputs(operands.to_vec());
    let residual_consts = known_arrays(&known.consts.select(&groups.consts));
    let residual_xs = known_arrays(&known.xs.select(&groups.xs));
    let linear_consts = known.consts.select_unmarked(&groups.consts);
    let sums: Vec<Array> =
        results.consts.select(&linear_consts).iter().map(|x| zeros_of(x.aval())).collect();
    let cts = scan.outputs(cts.to_vec());
    let carry_cts: Vec<Array> =
        dense_cts.carry.select(&cts.carry).iter().map(Tangent::to_dense).collect();
    let y_cts: Vec<Array> = cts.ys.iter().filter_map(Tangent::array).cloned().collect();

    let (n_sums, n_residual_xs) = (sums.len(), residual_xs.len());
    let arguments = Inputs {
        consts: residual_consts,
        carry: sums.join(carry_cts),
        xs: residual_xs.join(y_cts),
    };
    let (n_consts, n_carry) = (arguments.consts.len(), arguments.carry.len());
    let avals = Inputs {
        consts: avals_of(&arguments.consts),
        carry: avals_of(&arguments.carry),
        xs: arguments.xs.iter().map(element_aval).collect(),
    };
    let body = trace_rules(avals.join(), |inputs| {
        let inputs = Inputs::cut(inputs.to_vec(), n_consts, n_carry);
        let (sums, carry_cts) = inputs.carry.cut(n_sums);
        let (residual_xs, y_cts) = inputs.xs.cut(n_residual_xs);
        let inputs = [inputs.consts, residual_xs, carry_cts, y_cts].concat();
        let mut outputs = passes::eval(&transposed, &inputs);
        for (output, sum) in outputs.iter_mut().zip(&sums) {
            *output = bind1(Add, [sum, &*output]);
        }
        outputs
    });
    let backward = Scan { reverse: !scan.reverse, ..scan.with_body(body, n_consts, n_carry) };
    let dense = bind(backward, &arguments.join().iter().collect::<Vec<_>>());

    let known = known.join();
    let avals = known.select_unmarked(operands).into_iter().map(|operand| operand.aval().clone());
    let mut cts = results.join().tangents(avals, dense).into_iter();
    let mut operand_cts = Vec::with_capacity(operands.len());
    for (operand, is_known) in operands.iter().zip(known.iter()) {
        let ct = if is_known { None } else { cts.next() };
        // The cotangent of a known initial carry is not needed.
        operand_cts.push(ct.filter(|_| operand.is_linear()));
    }
    Ok(operand_cts)
}

fn known_arrays(operands: &[Operand]) -> Vec<Array> {
    operands.iter().filter_map(Operand::known).cloned().collect()
}

fn element_aval(array: &Array) -> Aval {
    array.aval().without_axis(0)
}

/// Computes everything that known operands determine, and transposes the rest. Returns `None` if
/// they determine no carry.
fn transpose_unknown_half(
    scan: &Scan,
    cts: &[Tangent],
    operands: &[Operand],
) -> Option<RuleResult<Vec<Option<Tangent>>>> {
    let split = scan.split(&Marks::of_operands(operands))?;
    let outputs = Outputs::cut(split.outputs.clone(), scan.n_carry);
    if outputs.carry.iter().all(Half::is_unknown) {
        return None;
    }
    let arguments: Vec<&Array> =
        split.known_operands.iter().filter_map(|&index| operands[index].known()).collect();
    let known_results = bind_shared(&split.known, &arguments);
    let mut unknown_operands = Vec::with_capacity(split.unknown_operands.len());
    for source in &split.unknown_operands {
        unknown_operands.push(match *source {
            SplitOperand::Operand(index) => operands[index].clone(),
            SplitOperand::Known(index) => Operand::Known(known_results[index].clone()),
        });
    }
    let mut unknown_cts: Vec<(usize, Tangent)> = Vec::new();
    for (ct, output) in cts.iter().zip(&split.outputs) {
        if let Half::Unknown(index) = *output {
            unknown_cts.push((index, ct.clone()));
        }
    }
    unknown_cts.sort_by_key(|(index, _)| *index);
    let unknown_cts: Vec<Tangent> = unknown_cts.into_iter().map(|(_, ct)| ct).collect();
    if unknown_cts.iter().all(Tangent::is_zero) {
        let zero = |x: &Operand| x.is_linear().then(|| Tangent::Zero(x.aval().clone()));
        return Some(Ok(operands.iter().map(zero).collect()));
    }
    let pulled = match split.unknown.transpose(&unknown_cts, &unknown_operands) {
        Ok(pulled) => pulled,
        Err(error) => return Some(Err(error)),
    };
    let mut operand_cts: Vec<Option<Tangent>> = vec![None; operands.len()];
    for (source, ct) in split.unknown_operands.iter().zip(pulled) {
        if let SplitOperand::Operand(index) = *source {
            operand_cts[index] = ct;
        }
    }
    let is_missing = |(x, ct): (&Operand, &Option<Tangent>)| x.is_linear() && ct.is_none();
    if operands.iter().zip(&operand_cts).any(is_missing) {
        return Some(Err(RuleError::not_linear("scan")));
    }
    Some(Ok(operand_cts))
}
