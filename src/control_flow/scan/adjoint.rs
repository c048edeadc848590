//! The transpose of a linear scan: a scan that runs the other way and carries cotangents.

use super::{Groups, Scan, grow};
use crate::control_flow::masked::{Derived, marked, transpose_of};
use crate::core::{
    Array, Aval, Half, HigherOrder, Operand, RuleError, RuleResult, SplitOperand, Tangent, bind,
    bind_shared,
};
use crate::passes;
use crate::primitives::rules::{add_tangents, dense};
use crate::primitives::zeros_of;
use crate::transforms::staging::trace_rules;

/// From the cotangents of a scan's results to those of its linear operands.
///
/// Every carry is linear inside the body, also one that starts from known zeros; the cotangents of
/// linear constants are summed up in carries of their own. A carry that known operands alone
/// determine is computed ahead.
pub(super) fn transpose(
    scan: &Scan,
    cts: &[Tangent],
    operands: &[Operand],
) -> RuleResult<Vec<Option<Tangent>>> {
    let mut linear: Vec<bool> = operands.iter().map(Operand::is_linear).collect();
    if linear[scan.carries()].contains(&false)
        && let Some(ahead) = known_ahead(scan, cts, operands)
    {
        return ahead;
    }
    linear[scan.carries()].fill(true);
    let mut there: Vec<bool> = cts.iter().map(|ct| !ct.is_zero()).collect();
    let mask = scan.groups(&linear);
    let n_linear_consts = mask.consts.iter().filter(|linear| **linear).count();
    let carries = n_linear_consts..n_linear_consts + scan.n_carry;
    let n_linear = linear.iter().filter(|linear| **linear).count();
    let Derived { program, marks } = loop {
        let mut force = vec![false; n_linear];
        force[carries.clone()].copy_from_slice(&there[..scan.n_carry]);
        let transposed = transpose_of(&scan.body, &linear, &there, &force);
        if !grow(&mut there[..scan.n_carry], &transposed.marks[carries.clone()]) {
            break transposed;
        }
    };

    let groups = scan.groups(operands);
    let known = |operands: &[Operand], linear: &[bool]| -> Vec<Array> {
        let known = operands.iter().zip(linear).filter(|(_, linear)| !**linear);
        known.map(|(operand, _)| dense_of(operand)).collect()
    };
    let residual_consts = known(&groups.consts, &mask.consts);
    let residual_xs = known(&groups.xs, &mask.xs);
    let summed: Vec<Aval> = groups
        .consts
        .iter()
        .filter(|operand| operand.is_linear())
        .zip(&marks)
        .filter(|(_, mark)| **mark)
        .map(|(operand, _)| operand.aval().clone())
        .collect();
    let (carry_cts, y_cts) = cts.split_at(scan.n_carry);
    let carry_cts: Vec<Array> =
        marked(carry_cts, &there[..scan.n_carry]).iter().map(dense).collect();
    let y_cts: Vec<Array> = y_cts.iter().filter_map(Tangent::array).cloned().collect();

    let (n_consts, n_residual_xs) = (residual_consts.len(), residual_xs.len());
    let (n_summed, n_carry_cts) = (summed.len(), carry_cts.len());
    let element = |array: &Array| array.aval().with_shape(array.shape().remove(0));
    let inputs: Vec<Aval> = residual_consts
        .iter()
        .map(|array| array.aval().clone())
        .chain(summed.iter().cloned())
        .chain(carry_cts.iter().map(|array| array.aval().clone()))
        .chain(residual_xs.iter().chain(&y_cts).map(element))
        .collect();
    let body = trace_rules(inputs, |inputs| {
        let (consts, rest) = inputs.split_at(n_consts);
        let (sums, rest) = rest.split_at(n_summed);
        let (carry_cts, rest) = rest.split_at(n_carry_cts);
        let (xs, y_cts) = rest.split_at(n_residual_xs);
        let arguments: Vec<Array> =
            [consts, xs, carry_cts, y_cts].into_iter().flatten().cloned().collect();
        let found = passes::eval(&program, &arguments);
        let add =
            |sum: &Array, ct: &Array| dense(&add_tangents(&sum.clone().into(), &ct.clone().into()));
        let sums = sums.iter().zip(&found).map(|(sum, ct)| add(sum, ct));
        sums.chain(found[n_summed..].iter().cloned()).collect()
    });
    let backward =
        Scan { reverse: !scan.reverse, ..scan.with_body(body, n_consts, n_summed + n_carry_cts) };
    let sums: Vec<Array> = summed.iter().map(zeros_of).collect();
    let arguments: Vec<&Array> =
        [&residual_consts, &sums, &carry_cts, &residual_xs, &y_cts].into_iter().flatten().collect();
    let mut found = bind(backward, &arguments).into_iter();

    // What was found stands in the order of the linear operands.
    let mut marks = marks.into_iter();
    let each = operands.iter().zip(&linear).map(|(operand, &linear)| {
        if !linear {
            return None;
        }
        let ct = match marks.next().expect("one mark per linear operand") {
            true => Tangent::Dense(found.next().expect("one cotangent per mark")),
            false => Tangent::Zero(operand.aval().clone()),
        };
        operand.is_linear().then_some(ct)
    });
    Ok(each.collect())
}

fn dense_of(operand: &Operand) -> Array {
    match operand {
        Operand::Known(array) => array.clone(),
        Operand::Linear(aval) => zeros_of(aval),
    }
}

/// If known operands alone determine a carry, such as a counter: computes all that they determine, and
/// transposes the rest.
fn known_ahead(
    scan: &Scan,
    cts: &[Tangent],
    operands: &[Operand],
) -> Option<RuleResult<Vec<Option<Tangent>>>> {
    let known: Vec<bool> = operands.iter().map(|operand| !operand.is_linear()).collect();
    let split = scan.split(&known)?;
    if split.outputs[..scan.n_carry].iter().all(Half::is_unknown) {
        return None;
    }
    let arguments: Vec<&Array> =
        split.known_operands.iter().filter_map(|&at| operands[at].known()).collect();
    let ahead = bind_shared(&split.known, &arguments);
    let rest: Vec<Operand> = split
        .unknown_operands
        .iter()
        .map(|source| match *source {
            SplitOperand::Operand(at) => operands[at].clone(),
            SplitOperand::Known(at) => Operand::Known(ahead[at].clone()),
        })
        .collect();
    let mut rest_cts =
        vec![None; split.outputs.iter().filter(|output| output.is_unknown()).count()];
    for (ct, output) in cts.iter().zip(&split.outputs) {
        if let Half::Unknown(at) = *output {
            rest_cts[at] = Some(ct.clone());
        }
    }
    let rest_cts: Vec<Tangent> = rest_cts.into_iter().flatten().collect();
    if rest_cts.iter().all(Tangent::is_zero) {
        let zero = |x: &Operand| x.is_linear().then(|| Tangent::Zero(x.aval().clone()));
        return Some(Ok(operands.iter().map(zero).collect()));
    }
    let found = match split.unknown.transpose(&rest_cts, &rest) {
        Ok(found) => found,
        Err(error) => return Some(Err(error)),
    };
    let mut all: Vec<Option<Tangent>> = vec![None; operands.len()];
    for (source, ct) in split.unknown_operands.iter().zip(found) {
        if let SplitOperand::Operand(at) = *source {
            all[at] = ct;
        }
    }
    let missing = operands.iter().zip(&all).any(|(x, ct)| x.is_linear() && ct.is_none());
    Some(match missing {
        true => Err(RuleError::not_linear("scan")),
        false => Ok(all),
    })
}

impl<T> Groups<T> {
    /// The number of constants and of carries.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.consts.len(), self.carry.len())
    }
}
