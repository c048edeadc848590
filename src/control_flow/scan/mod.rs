//! `scan`: a loop of known length that carries values along and reads and writes arrays step by step.

mod adjoint;
mod exemplars;
mod function;
mod lower;
mod split;

pub(super) use exemplars::exemplars;
pub use function::{ScanOptions, scan, scan_with};
pub(super) use function::{common_length, run};

use super::masked::{Derived, batch_of, jvp_of, marked, tangents_of};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, Effects, Error, HigherOrder, JvpResult, LowerCtx,
    Operand, Primitive, Program, Pruned, RuleError, RuleResult, RunCount, Split, Tangent, bind,
};
use crate::passes;
use crate::primitives::rules::{batch_at, dense, move_axis};
use crate::stablehlo::Value;
use crate::{ensure, ensure_shape};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// Applies a program `length` times, each time to the carry that the last time gave and to the next
/// elements of the scanned arrays; what it gives besides is stacked.
///
/// | | |
/// |-|-|
/// | operands   | `n_consts` values that every step sees, `n_carry` first carries, then arrays `xs: any[length, …]` |
/// | results    | the last carries, then arrays `ys: any[length, …]` |
/// | body       | from constants, carries and one element of each of `xs` to carries and one element of each of `ys` |
/// | lowering   | [`stablehlo.while`](https://openxla.org/stablehlo/spec#while) with a counter, unless all steps are unrolled |
/// | derivative | a scan of the body's derivative; it transposes to a scan that runs the other way, over residuals that the scan forward stacked |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Scan {
    /// The number of steps.
    pub length: usize,
    /// Whether the last element is the first to be read and written.
    pub reverse: bool,
    /// How many steps are written out in one iteration of the loop; 0 for all.
    pub unroll: usize,
    /// How many operands are the same for every step.
    pub n_consts: usize,
    /// How many values are carried.
    pub n_carry: usize,
    /// One step.
    #[serde(skip)]
    pub body: Arc<Program>,
}

/// Reads from text what [`Scan`] prints, but for the body.
#[derive(Deserialize)]
struct Parameters {
    length: usize,
    reverse: bool,
    unroll: usize,
    n_consts: usize,
    n_carry: usize,
}

/// One thing for each of a scan's operands or inputs of its body, by what they are.
struct Groups<T> {
    consts: Vec<T>,
    carry: Vec<T>,
    xs: Vec<T>,
}

impl<T> Groups<T> {
    fn joined(self) -> Vec<T> {
        let Groups { mut consts, carry, xs } = self;
        consts.extend(carry);
        consts.extend(xs);
        consts
    }
}

impl Scan {
    fn carries(&self) -> Range<usize> {
        self.n_consts..self.n_consts + self.n_carry
    }

    fn groups<T: Clone>(&self, items: &[T]) -> Groups<T> {
        let range = self.carries();
        Groups {
            consts: items[..range.start].to_vec(),
            carry: items[range.clone()].to_vec(),
            xs: items[range.end..].to_vec(),
        }
    }

    /// The same loop with another body, for operands in groups of these sizes.
    fn with_body(&self, body: impl Into<Arc<Program>>, n_consts: usize, n_carry: usize) -> Scan {
        Scan { body: body.into(), n_consts, n_carry, ..self.clone() }
    }

    /// The type of a stacked value, given that of one element.
    fn stacked(&self, aval: &Aval) -> Aval {
        aval.with_shape(aval.shape.insert(0, self.length))
    }
}

impl Primitive for Scan {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let (inputs, outputs) = (self.body.avals_in(), self.body.avals_out());
        ensure_shape!(
            operands.len() == inputs.len(),
            "takes {} operands, got {}",
            inputs.len(),
            operands.len()
        );
        ensure!(
            self.carries().end <= inputs.len() && self.n_carry <= outputs.len(),
            "a body of {} inputs and {} outputs cannot take {} constants and carry {} values",
            inputs.len(),
            outputs.len(),
            self.n_consts,
            self.n_carry
        );
        let carries = self.carries();
        for (position, (operand, input)) in operands.iter().zip(&inputs).enumerate() {
            let expected = match position < carries.end {
                true => input.clone(),
                false => self.stacked(input),
            };
            ensure_shape!(
                operand.same_type(&expected),
                "operand {position} must be {expected}, got {operand}"
            );
        }
        for (position, (output, input)) in outputs.iter().zip(&inputs[carries]).enumerate() {
            ensure_shape!(
                output.same_type(input),
                "the body takes carry {position} as {input} and gives it as {output}"
            );
        }
        let (carry, ys) = outputs.split_at(self.n_carry);
        Ok(carry.iter().cloned().chain(ys.iter().map(|y| self.stacked(y))).collect())
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let n_in = primals.len();
        let mut varies: Vec<bool> = tangents.iter().map(|tangent| !tangent.is_zero()).collect();
        // A carry that is constant at first may come to vary through another: grow until it stays.
        let derivative = loop {
            let mut force = varies[self.carries()].to_vec();
            force.resize(self.body.outputs().len(), false);
            let derivative = jvp_of(&self.body, &varies, &force);
            if !grow(&mut varies[self.carries()], &derivative.marks) {
                break derivative;
            }
        };
        let Derived { program, marks } = derivative;
        // The tangents of each group of inputs and outputs stand behind the group.
        let mut next_tangent = n_in..;
        let tangent_at: Vec<Option<usize>> =
            varies.iter().map(|&varies| if varies { next_tangent.next() } else { None }).collect();
        let order: Vec<usize> = (0..n_in).collect();
        let with_tangents = |group: &[usize], tangents: &[Option<usize>]| -> Vec<usize> {
            group.iter().copied().chain(tangents.iter().flatten().copied()).collect()
        };
        let (primal, tangent) = (self.groups(&order), self.groups(&tangent_at));
        let order = Groups {
            consts: with_tangents(&primal.consts, &tangent.consts),
            carry: with_tangents(&primal.carry, &tangent.carry),
            xs: with_tangents(&primal.xs, &tangent.xs),
        };
        let (n_consts, n_carry) = (order.consts.len(), order.carry.len());
        let order = order.joined();
        let n_out = marks.len();
        let (carry_marks, y_marks) = marks.split_at(self.n_carry);
        let n_carry_tangents = n_carry - self.n_carry;
        let n_tangents = n_carry_tangents + y_marks.iter().filter(|mark| **mark).count();
        let outputs: Vec<usize> = (0..self.n_carry)
            .chain(n_out..n_out + n_carry_tangents)
            .chain(self.n_carry..n_out)
            .chain(n_out + n_carry_tangents..n_out + n_tangents)
            .collect();
        let vars: Vec<u32> = outputs.iter().map(|&at| program.outputs()[at]).collect();
        let body = program.with_outputs(&vars).permute_inputs(&order);

        let dense: Vec<Array> = marked(tangents, &varies).iter().map(dense).collect();
        let operands: Vec<&Array> =
            order.iter().map(|&at| primals.get(at).unwrap_or_else(|| &dense[at - n_in])).collect();
        let mut results = bind(self.with_body(body, n_consts, n_carry), &operands);
        let mut ys = results.split_off(n_carry);
        let y_tangents = ys.split_off(y_marks.len());
        let carry_tangents = results.split_off(self.n_carry);
        results.extend(ys);
        let avals = |results: &[Array]| -> Vec<Aval> {
            results.iter().map(|array| array.aval().clone()).collect()
        };
        let mut tangents =
            tangents_of(carry_marks, avals(&results[..self.n_carry]), carry_tangents);
        tangents.extend(tangents_of(y_marks, avals(&results[self.n_carry..]), y_tangents));
        Ok((results, tangents))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let mut mapped: Vec<bool> = axes.iter().map(Option::is_some).collect();
        let Derived { program, marks } = loop {
            let mut force = mapped[self.carries()].to_vec();
            force.resize(self.body.outputs().len(), false);
            let batched = batch_of(&self.body, &mapped, &force, axis);
            if !grow(&mut mapped[self.carries()], &batched.marks) {
                break batched;
            }
        };
        let carries = self.carries();
        let placed: Vec<Array> = operands
            .iter()
            .zip(axes)
            .enumerate()
            .map(|(position, (x, &at))| match (mapped[position], at) {
                (false, _) => x.clone(),
                (true, at) if position < carries.end => batch_at(x, at, 0, axis),
                // Behind the axis that is scanned.
                (true, Some(at)) => move_axis(x, at, 1),
                (true, None) => batch_at(x, None, 1, axis),
            })
            .collect();
        let scan = self.with_body(program, self.n_consts, self.n_carry);
        let outputs = bind(scan, &placed.iter().collect::<Vec<_>>());
        let axes = marks.iter().enumerate().map(|(position, &mark)| {
            let at = usize::from(position >= self.n_carry);
            mark.then_some(at)
        });
        Ok(Batched { axes: axes.collect(), outputs })
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        lower::lower(self, ctx, operands, results)
    }

    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        passes::cost(&self.body).times(self.length) + Cost::movement(operands, results)
    }

    fn effects(&self) -> Effects {
        self.body.effects()
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        adjoint::transpose(self, cts, operands)
    }

    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        Some(self)
    }
}

impl HigherOrder for Scan {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        vec![("body", &self.body)]
    }

    fn run_counts(&self, _: &[Aval], _: &[Aval]) -> Vec<RunCount> {
        vec![RunCount::Times(self.length)]
    }

    fn split(&self, known: &[bool]) -> Option<Split> {
        split::split(self, known)
    }

    fn prune(&self, used: &[bool]) -> Option<Pruned> {
        split::prune(self, used)
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        let Groups { consts, mut carry, xs } = self.groups(operands);
        let mut steps = Vec::with_capacity(self.length);
        for step in 0..self.length {
            let index = if self.reverse { self.length - 1 - step } else { step };
            let mut inputs = consts.clone();
            inputs.extend(carry);
            inputs.extend(function::elements(&xs, index)?);
            let mut outputs = passes::eval(&self.body, &inputs);
            steps.push(outputs.split_off(self.n_carry));
            carry = outputs;
        }
        if self.reverse {
            steps.reverse();
        }
        let avals = self.body.avals_out();
        carry.extend(function::stacked(&steps, &avals[self.n_carry..]));
        Ok(carry)
    }
}

/// Marks what is newly found among the first of `marks`; whether there was something.
pub(super) fn grow(marks: &mut [bool], found: &[bool]) -> bool {
    let mut grown = false;
    for (mark, &found) in marks.iter_mut().zip(found) {
        grown |= found && !*mark;
        *mark |= found;
    }
    grown
}

pub(super) fn make(
    params: serde_json::Value,
    programs: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    let Parameters { length, reverse, unroll, n_consts, n_carry } =
        serde_json::from_value(params).map_err(|error| RuleError::value(error.to_string()))?;
    let [body] = <[Program; 1]>::try_from(programs).map_err(|programs| {
        RuleError::value(format!("scan holds one program, got {}", programs.len()))
    })?;
    Ok(Arc::new(Scan { length, reverse, unroll, n_consts, n_carry, body: Arc::new(body) }))
}
