//! `while_loop`: a loop that runs as long as a condition holds.

mod batch;
mod exemplars;
mod function;
mod lower;
mod split;

pub(super) use exemplars::exemplars;
pub(super) use function::run;
pub use function::while_loop;

use super::derive::{avals_of, jvp_of};
use super::groups::List;
use super::parse;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, HigherOrder, JvpResult, Known,
    LowerCtx, Marks, Operand, Primitive, Program, ProgramInput, Pruned, RuleError, RuleResult,
    RunCount, SplitEqn, Spmd, Tangent, Used, Varying, bind,
};
use crate::passes;
use crate::stablehlo::Value;
use crate::{ensure, ensure_dtype, ensure_shape};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Applies a program to carried values as long as another program returns true.
///
/// | | |
/// |-|-|
/// | operands   | `n_cond_consts` values for the condition, `n_body_consts` for the body, then the initial carries |
/// | results    | the final carries |
/// | cond       | from its constants and the carries to `bool[]` |
/// | body       | from its constants and the carries to the carries |
/// | lowering   | [`stablehlo.while`](https://openxla.org/stablehlo/spec#while) |
/// | derivative | forward mode only: a loop that also carries tangents |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[doc(alias = "while")]
pub struct WhileLoop {
    /// The number of leading operands that only the condition takes.
    pub n_cond_consts: usize,
    /// The number of operands after those that only the body takes.
    pub n_body_consts: usize,
    /// Returns true to run another step.
    #[serde(skip)]
    pub cond: Arc<Program>,
    /// One step.
    #[serde(skip)]
    pub body: Arc<Program>,
}

/// The printed parameters of a [`WhileLoop`].
#[derive(Deserialize)]
struct Parameters {
    n_cond_consts: usize,
    n_body_consts: usize,
}

/// One item per operand of a loop.
#[derive(Clone)]
struct LoopInputs<L> {
    cond_consts: L,
    body_consts: L,
    carry: L,
}

impl<L: List + Clone> LoopInputs<L> {
    /// Returns the items of the condition's inputs.
    fn cond(&self) -> L {
        self.cond_consts.clone().join(self.carry.clone())
    }

    /// Returns the items of the body's inputs.
    fn body(&self) -> L {
        self.body_consts.clone().join(self.carry.clone())
    }

    /// Joins the groups to one list.
    fn join(self) -> L {
        self.cond_consts.join(self.body_consts).join(self.carry)
    }
}

impl WhileLoop {
    fn n_carry(&self) -> usize {
        self.body.outputs().len()
    }

    fn n_consts(&self) -> usize {
        self.n_cond_consts + self.n_body_consts
    }

    /// Groups a list with one item per operand.
    fn inputs<L: List>(&self, list: L) -> LoopInputs<L> {
        let (cond_consts, rest) = list.cut(self.n_cond_consts);
        let (body_consts, carry) = rest.cut(self.n_body_consts);
        LoopInputs { cond_consts, body_consts, carry }
    }
}

impl Primitive for WhileLoop {
    fn name(&self) -> &'static str {
        "while_loop"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let expected = self.n_consts() + self.n_carry();
        ensure_shape!(
            operands.len() == expected,
            "takes {expected} operands, got {}",
            operands.len()
        );
        let groups = self.inputs(operands.to_vec());
        let programs =
            [("condition", &self.cond, groups.cond()), ("body", &self.body, groups.body())];
        for (role, program, operands) in programs {
            let inputs = program.avals_in();
            ensure_shape!(
                inputs.len() == operands.len(),
                "the {role} takes {} values, the loop has {} for it",
                inputs.len(),
                operands.len()
            );
            for (position, (operand, input)) in operands.iter().zip(&inputs).enumerate() {
                ensure_shape!(
                    operand.same_type(input),
                    "the {role} takes {input} at {position}, got {operand}"
                );
            }
        }
        let condition = self.cond.avals_out();
        ensure!(condition.len() == 1, "the condition gives {} values", condition.len());
        ensure_dtype!(
            condition[0].same_type(&Aval::new(DType::Bool, [])),
            "the condition must give bool[], it gives {}",
            condition[0]
        );
        let outputs = self.body.avals_out();
        for (position, (output, input)) in outputs.iter().zip(&groups.carry).enumerate() {
            ensure_shape!(
                output.same_type(input),
                "the body takes carry {position} as {input} and gives it as {output}"
            );
        }
        Ok(outputs)
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let mut varying = self.inputs(Marks::of_tangents(tangents));
        // A carry that starts constant varies if a step computes it from a varying one.
        let derivative = loop {
            let derivative = jvp_of(&self.body, &varying.body(), &varying.carry);
            if !varying.carry.grow(&derivative.results) {
                break derivative.program;
            }
        };
        // The derivative takes constants and carries, then the tangents of both. The loop needs
        // constants and their tangents first.
        let n_inputs = self.body.inputs().len();
        let positions: Vec<usize> = (0..derivative.inputs().len()).collect();
        let (primal_inputs, tangent_inputs) = positions.cut(n_inputs);
        let (consts, carry) = primal_inputs.cut(self.n_body_consts);
        let (const_tangents, carry_tangents) = tangent_inputs.cut(varying.body_consts.count());
        let order = [consts, const_tangents, carry, carry_tangents].concat();
        // The condition takes the tangents of the carries and ignores them.
        let mut cond_inputs: Vec<ProgramInput> =
            (0..self.cond.inputs().len()).map(ProgramInput::Existing).collect();
        let tangent_avals = varying.carry.select(&self.body.avals_out());
        cond_inputs.extend(tangent_avals.into_iter().map(ProgramInput::Unused));
        let loop_ = WhileLoop {
            n_cond_consts: self.n_cond_consts,
            n_body_consts: self.n_body_consts + varying.body_consts.count(),
            cond: Arc::new(self.cond.with_inputs(&cond_inputs)),
            body: Arc::new(derivative.permute_inputs(&order)),
        };
        let (primals, tangents) = (self.inputs(primals.to_vec()), self.inputs(tangents.to_vec()));
        let to_dense = |tangents: Vec<Tangent>| -> Vec<Array> {
            tangents.iter().map(Tangent::to_dense).collect()
        };
        let operands = [
            primals.cond_consts,
            primals.body_consts,
            to_dense(varying.body_consts.select(&tangents.body_consts)),
            primals.carry,
            to_dense(varying.carry.select(&tangents.carry)),
        ]
        .concat();
        let results = bind(loop_, &operands.iter().collect::<Vec<_>>());
        let (outputs, dense) = results.cut(self.n_carry());
        let tangents = varying.carry.tangents(avals_of(&outputs), dense);
        Ok((outputs, tangents))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        batch::batch(self, operands, axes, axis)
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        lower::lower(self, ctx, operands)
    }

    /// Returns the cost of one step, because the number of steps is unknown.
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        passes::cost(&self.cond) + passes::cost(&self.body) + Cost::movement(operands, results)
    }

    fn effects(&self) -> Effects {
        self.cond.effects().and(self.body.effects())
    }

    fn transpose(&self, _: &[Tangent], _: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        Err(RuleError::unsupported(
            "has no reverse-mode derivative, which stores values of every step, because the \
             number of steps is unknown",
        )
        .help(
            "use `scan`, or `fori_loop` with bounds that are numbers or concrete arrays; forward \
             mode (`jvp`) supports loops of any length",
        ))
    }

    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        Some(self)
    }

    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for WhileLoop {
    fn operand_varying(&self, _: &[Aval]) -> Option<Vec<Varying>> {
        let cond_consts = self.cond.avals_in().into_iter().take(self.n_cond_consts);
        let inputs = cond_consts.chain(self.body.avals_in());
        Some(inputs.map(|aval| aval.varying).collect())
    }
}

impl HigherOrder for WhileLoop {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        vec![("cond", &self.cond), ("body", &self.body)]
    }

    fn run_counts(&self, _: &[Aval], _: &[Aval]) -> Vec<RunCount> {
        vec![RunCount::Unknown, RunCount::Unknown]
    }

    fn forwarded(&self) -> Vec<Option<usize>> {
        let carry = |index: usize| {
            let is_same = self.body.forwarded_input(index) == Some(self.n_body_consts + index);
            is_same.then_some(self.n_consts() + index)
        };
        (0..self.n_carry()).map(carry).collect()
    }

    fn split(&self, known: &Marks<Known>) -> Option<SplitEqn> {
        split::split(self, known)
    }

    fn prune(&self, used: &Marks<Used>) -> Option<Pruned> {
        split::prune(self, used)
    }

    fn with_programs(&self, programs: Vec<Arc<Program>>) -> Option<Arc<dyn Primitive>> {
        let [cond, body] = <[_; 2]>::try_from(programs).ok()?;
        Some(Arc::new(WhileLoop { cond, body, ..self.clone() }))
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        let mut inputs = self.inputs(operands.to_vec());
        while passes::eval(&self.cond, &inputs.cond())[0].item::<bool>()? {
            inputs.carry = passes::eval(&self.body, &inputs.body());
        }
        Ok(inputs.carry)
    }
}

pub(super) fn make(
    params: serde_json::Value,
    programs: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    let Parameters { n_cond_consts, n_body_consts } = parse::parameters(params)?;
    let [cond, body] = parse::exact("while_loop", programs)?;
    let n_carry = body.outputs().len();
    ensure!(
        cond.inputs().len() == n_cond_consts + n_carry
            && body.inputs().len() == n_body_consts + n_carry,
        "a loop that carries {n_carry} values with {n_cond_consts} and {n_body_consts} constants \
         does not fit programs of {} and {} inputs",
        cond.inputs().len(),
        body.inputs().len()
    );
    let (cond, body) = (Arc::new(cond), Arc::new(body));
    Ok(Arc::new(WhileLoop { n_cond_consts, n_body_consts, cond, body }))
}
