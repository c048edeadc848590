//! `scan`: a loop of known length that carries values and reads and writes arrays step by step.

mod exemplars;
mod function;
mod hoist;
mod jvp;
mod lower;
mod recompute;
mod scan_input;
mod split;
mod transpose;

pub(super) use exemplars::exemplars;
pub use function::{ScanOptions, Unroll, scan, scan_with};
pub(super) use function::{common_length, run};
pub use scan_input::ScanInput;

use super::derive::{batch_front, mapped_of};
use super::groups::{Inputs, List, Outputs};
use super::parse;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, Effects, Error, HigherOrder, JvpResult, Known, LowerCtx,
    Marks, Operand, Primitive, Program, Pruned, RuleResult, RunCount, SplitEqn, Tangent, Used,
    bind,
};
use crate::passes;
use crate::primitives::rules::{batch_at, move_axis};
use crate::stablehlo::Value;
use crate::{ensure, ensure_shape};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Applies a program `length` times. Each step takes the carry of the previous step and one element
/// of each scanned array. Its other outputs are stacked.
///
/// | | |
/// |-|-|
/// | operands   | `n_consts` values that every step takes, `n_carry` initial carries, then arrays `xs: any[length, …]` |
/// | results    | the final carries, then arrays `ys: any[length, …]` |
/// | body       | from constants, carries and one element of each of `xs` to carries and one element of each of `ys` |
/// | lowering   | [`stablehlo.while`](https://openxla.org/stablehlo/spec#while) with a counter, unless all steps are unrolled |
/// | derivative | a scan of the body's derivative; its transpose is a scan in the opposite direction over stacked residuals |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Scan {
    /// The number of steps.
    pub length: usize,
    /// True if the last element is read and written first.
    pub reverse: bool,
    /// The number of steps per iteration of the compiled loop.
    pub unroll: usize,
    /// The number of operands that every step takes unchanged.
    pub n_consts: usize,
    /// The number of carried values.
    pub n_carry: usize,
    /// One step.
    #[serde(skip)]
    pub body: Arc<Program>,
}

/// The printed parameters of a [`Scan`].
#[derive(Deserialize)]
struct Parameters {
    length: usize,
    reverse: bool,
    unroll: usize,
    n_consts: usize,
    n_carry: usize,
}

/// The role of an operand of a scan.
#[derive(PartialEq, Eq)]
enum Role {
    Const,
    Carry,
    X,
}

impl Scan {
    fn role(&self, operand: usize) -> Role {
        if operand < self.n_consts {
            Role::Const
        } else if operand < self.n_consts + self.n_carry {
            Role::Carry
        } else {
            Role::X
        }
    }

    /// Returns the number of stacked results.
    fn n_ys(&self) -> usize {
        self.body.outputs().len() - self.n_carry
    }

    /// Groups a list with one item per operand.
    fn inputs<L: List>(&self, list: L) -> Inputs<L> {
        Inputs::cut(list, self.n_consts, self.n_carry)
    }

    /// Groups a list with one item per result.
    fn outputs<L: List>(&self, list: L) -> Outputs<L> {
        Outputs::cut(list, self.n_carry)
    }

    /// Returns this loop with another body and the sizes of its groups of operands.
    fn with_body(&self, body: impl Into<Arc<Program>>, n_consts: usize, n_carry: usize) -> Scan {
        Scan { body: body.into(), n_consts, n_carry, ..self.clone() }
    }

    /// Returns the type of an array of one element per step.
    fn stacked_aval(&self, element: &Aval) -> Aval {
        element.stacked(self.length)
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
            self.n_consts + self.n_carry <= inputs.len() && self.n_carry <= outputs.len(),
            "a body of {} inputs and {} outputs cannot take {} constants and carry {} values",
            inputs.len(),
            outputs.len(),
            self.n_consts,
            self.n_carry
        );
        for (position, (operand, input)) in operands.iter().zip(&inputs).enumerate() {
            let expected = match self.role(position) {
                Role::Const | Role::Carry => input.clone(),
                Role::X => self.stacked_aval(input),
            };
            ensure_shape!(
                operand.same_type(&expected),
                "operand {position} must be {expected}, got {operand}"
            );
        }
        for (position, (output, input)) in
            outputs.iter().zip(&inputs[self.n_consts..][..self.n_carry]).enumerate()
        {
            ensure_shape!(
                output.same_type(input),
                "the body takes carry {position} as {input} and gives it as {output}"
            );
        }
        let (carry, ys) = outputs.split_at(self.n_carry);
        Ok(carry.iter().cloned().chain(ys.iter().map(|y| self.stacked_aval(y))).collect())
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        jvp::jvp(self, primals, tangents)
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let mut mapped = self.inputs(mapped_of(axes));
        let (batched, results) = loop {
            let required = Outputs { carry: mapped.carry.clone(), ys: Marks::none(self.n_ys()) };
            let inputs = mapped.clone().join();
            let batched = batch_front(&self.body, &inputs, &required.join(), axis);
            let results = self.outputs(batched.results);
            if !mapped.carry.grow(&results.carry) {
                break (batched.program, results);
            }
        };
        let mapped = mapped.join();
        let mut moved = Vec::with_capacity(operands.len());
        for (index, (x, &position)) in operands.iter().zip(axes).enumerate() {
            moved.push(match (mapped[index], self.role(index)) {
                (false, _) => x.clone(),
                (true, Role::Const | Role::Carry) => batch_at(x, position, 0, axis),
                // Axis 0 is the scanned one.
                (true, Role::X) => match position {
                    Some(position) => move_axis(x, position, 1),
                    None => batch_at(x, None, 1, axis),
                },
            });
        }
        let scan = self.with_body(batched, self.n_consts, self.n_carry);
        let outputs = bind(scan, &moved.iter().collect::<Vec<_>>());
        let carry_axes = results.carry.iter().map(|is_mapped| is_mapped.then_some(0));
        let y_axes = results.ys.iter().map(|is_mapped| is_mapped.then_some(1));
        Ok(Batched { axes: carry_axes.chain(y_axes).collect(), outputs })
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
        transpose::transpose(self, cts, operands)
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

    fn forwarded(&self) -> Vec<Option<usize>> {
        let carry = |index: usize| {
            let operand = self.n_consts + index;
            let is_carry = index < self.n_carry;
            (is_carry && self.body.forwarded_input(index) == Some(operand)).then_some(operand)
        };
        (0..self.body.outputs().len()).map(carry).collect()
    }

    fn kernel_form(&self, operands: &[Aval]) -> Option<Program> {
        hoist::hoist(self, operands)
    }

    fn split(&self, known: &Marks<Known>) -> Option<SplitEqn> {
        split::split(self, known)
    }

    fn prune(&self, used: &Marks<Used>) -> Option<Pruned> {
        split::prune(self, used)
    }

    fn with_programs(&self, programs: Vec<Arc<Program>>) -> Option<Arc<dyn Primitive>> {
        let [body] = <[_; 1]>::try_from(programs).ok()?;
        Some(Arc::new(Scan { body, ..self.clone() }))
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        let Inputs { consts, mut carry, xs } = self.inputs(operands.to_vec());
        let mut steps = Vec::with_capacity(self.length);
        for step in 0..self.length {
            let index = if self.reverse { self.length - 1 - step } else { step };
            let elements = function::elements(&xs, index)?;
            let outputs = passes::eval(&self.body, &[consts.clone(), carry, elements].concat());
            let outputs = self.outputs(outputs);
            carry = outputs.carry;
            steps.push(outputs.ys);
        }
        if self.reverse {
            steps.reverse();
        }
        let avals = self.outputs(self.body.avals_out());
        carry.extend(function::stack_steps(&steps, &avals.ys));
        Ok(carry)
    }
}

pub(super) fn make(
    params: serde_json::Value,
    programs: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    let Parameters { length, reverse, unroll, n_consts, n_carry } = parse::parameters(params)?;
    let [body] = parse::exact("scan", programs)?;
    let body = Arc::new(body);
    Ok(Arc::new(Scan { length, reverse, unroll, n_consts, n_carry, body }))
}
