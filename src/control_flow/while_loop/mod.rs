//! `while_loop`: a loop that runs as long as a condition holds.

mod exemplars;
mod function;
mod lower;
mod split;

pub(super) use exemplars::exemplars;
pub(super) use function::run;
pub use function::while_loop;

use super::masked::{Derived, batch_of, jvp_of, marked, tangents_of};
use super::scan::grow;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, HigherOrder, JvpResult, LowerCtx,
    Operand, Primitive, Program, Pruned, RuleError, RuleResult, RunCount, Split, Spmd, Tangent,
    Varying, bind,
};
use crate::passes;
use crate::primitives::rules::{batch_at, dense};
use crate::primitives::{broadcast_in_dim, reduce_or, select};
use crate::stablehlo::Value;
use crate::transforms::staging::trace_rules;
use crate::{ensure, ensure_dtype, ensure_shape};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// Applies a program to carried values again and again, as long as another program says so.
///
/// | | |
/// |-|-|
/// | operands   | `n_cond_consts` values that the condition sees, `n_body_consts` that the body sees, then the first carries |
/// | results    | the last carries |
/// | cond       | from its constants and the carries to `bool[]` |
/// | body       | from its constants and the carries to the carries |
/// | lowering   | [`stablehlo.while`](https://openxla.org/stablehlo/spec#while) |
/// | derivative | forward only: a loop that carries tangents along |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[doc(alias = "while")]
pub struct WhileLoop {
    /// How many of the first operands only the condition takes.
    pub n_cond_consts: usize,
    /// How many of the next operands only the body takes.
    pub n_body_consts: usize,
    /// Whether to go on.
    #[serde(skip)]
    pub cond: Arc<Program>,
    /// One step.
    #[serde(skip)]
    pub body: Arc<Program>,
}

/// Reads from text what [`WhileLoop`] prints, but for its programs.
#[derive(Deserialize)]
struct Parameters {
    n_cond_consts: usize,
    n_body_consts: usize,
}

impl WhileLoop {
    fn n_carry(&self) -> usize {
        self.body.outputs().len()
    }

    fn n_consts(&self) -> usize {
        self.n_cond_consts + self.n_body_consts
    }

    fn carries(&self) -> Range<usize> {
        self.n_consts()..self.n_consts() + self.n_carry()
    }

    /// What the condition takes, of one thing for each operand.
    fn of_cond<T: Clone>(&self, items: &[T]) -> Vec<T> {
        items[..self.n_cond_consts].iter().chain(&items[self.n_consts()..]).cloned().collect()
    }

    /// What the body takes, of one thing for each operand.
    fn of_body<T: Clone>(&self, items: &[T]) -> Vec<T> {
        items[self.n_cond_consts..].to_vec()
    }

    /// The derivative of the body once it is settled which carries vary, growing `varies`.
    fn varying_body(&self, varies: &mut [bool]) -> Derived {
        loop {
            let derivative = jvp_of(&self.body, &self.of_body(varies), &varies[self.carries()]);
            if !grow(&mut varies[self.carries()], &derivative.marks) {
                return derivative;
            }
        }
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
        let programs = [
            ("condition", &self.cond, self.of_cond(operands)),
            ("body", &self.body, self.of_body(operands)),
        ];
        for (what, program, operands) in programs {
            let inputs = program.avals_in();
            ensure_shape!(
                inputs.len() == operands.len(),
                "the {what} takes {} values, the loop has {} for it",
                inputs.len(),
                operands.len()
            );
            for (position, (operand, input)) in operands.iter().zip(&inputs).enumerate() {
                ensure_shape!(
                    operand.same_type(input),
                    "the {what} takes {input} at {position}, got {operand}"
                );
            }
        }
        let go_on = self.cond.avals_out();
        ensure!(go_on.len() == 1, "the condition gives {} values", go_on.len());
        ensure_dtype!(
            go_on[0].same_type(&Aval::new(DType::Bool, [])),
            "the condition must give bool[], it gives {}",
            go_on[0]
        );
        let outputs = self.body.avals_out();
        for (position, (given, taken)) in
            outputs.iter().zip(&operands[self.n_consts()..]).enumerate()
        {
            ensure_shape!(
                given.same_type(taken),
                "the body takes carry {position} as {taken} and gives it as {given}"
            );
        }
        Ok(outputs)
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let mut varies: Vec<bool> = tangents.iter().map(|tangent| !tangent.is_zero()).collect();
        // Tangents of what only the condition sees change nothing.
        varies[..self.n_cond_consts].fill(false);
        let Derived { program, marks } = self.varying_body(&mut varies);
        // Inputs: constants, their tangents, carries, their tangents.
        let of_body = self.of_body(&varies);
        let (n_body, n_consts, n_carry) = (of_body.len(), self.n_body_consts, self.n_carry());
        let const_tangents = of_body[..n_consts].iter().filter(|varies| **varies).count();
        let order: Vec<usize> = (0..n_consts)
            .chain(n_body..n_body + const_tangents)
            .chain(n_consts..n_body)
            .chain(n_body + const_tangents..program.inputs().len())
            .collect();
        let body = program.permute_inputs(&order);
        // The condition takes the tangents of the carries and uses none.
        let carry_avals = self.body.avals_out();
        let unused = marked(&carry_avals, &marks).into_iter().map(Err);
        let inputs: Vec<Result<usize, Aval>> =
            (0..self.cond.inputs().len()).map(Ok).chain(unused).collect();
        let derivative = WhileLoop {
            n_cond_consts: self.n_cond_consts,
            n_body_consts: n_consts + const_tangents,
            cond: Arc::new(self.cond.with_inputs(&inputs)),
            body: Arc::new(body),
        };
        let dense: Vec<Array> = marked(tangents, &varies).iter().map(dense).collect();
        let (const_tangents, carry_tangents) = dense.split_at(const_tangents);
        let (consts, carries) = primals.split_at(self.n_consts());
        let operands: Vec<&Array> =
            consts.iter().chain(const_tangents).chain(carries).chain(carry_tangents).collect();
        let mut results = bind(derivative, &operands);
        let tangents = results.split_off(n_carry);
        let avals: Vec<Aval> = results.iter().map(|array| array.aval().clone()).collect();
        let tangents = tangents_of(&marks, avals, tangents);
        Ok((results, tangents))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let mut mapped: Vec<bool> = axes.iter().map(Option::is_some).collect();
        let (cond, body) = loop {
            let cond = batch_of(&self.cond, &self.of_cond(&mapped), &[false], axis);
            if cond.marks[0] && self.effects() != Effects::None {
                return Err(RuleError::unsupported(
                    "has side effects, and examples of the batch that stop on their own",
                ));
            }
            // If each example stops on its own, each has carries of its own.
            let stops = vec![cond.marks[0]; self.n_carry()];
            if grow(&mut mapped[self.carries()], &stops) {
                continue;
            }
            let body = batch_of(&self.body, &self.of_body(&mapped), &mapped[self.carries()], axis);
            if !grow(&mut mapped[self.carries()], &body.marks) {
                break (cond, body);
            }
        };
        let placed: Vec<Array> = operands
            .iter()
            .zip(axes.iter().zip(&mapped))
            .map(|(x, (&at, &mapped))| if mapped { batch_at(x, at, 0, axis) } else { x.clone() })
            .collect();
        let batched = match cond.marks[0] {
            false => WhileLoop { cond: cond.program, body: body.program, ..self.clone() },
            true => self.until_all_are_done(&cond.program, &body.program),
        };
        // The body looks at the condition too, if examples stop on their own.
        let repeated = &placed[..batched.n_consts() - self.n_consts()];
        let (first, rest) = placed.split_at(self.n_cond_consts);
        let operands: Vec<&Array> = first.iter().chain(repeated).chain(rest).collect();
        let outputs = bind(batched, &operands);
        let axes = mapped[self.carries()].iter().map(|mapped| mapped.then_some(0)).collect();
        Ok(Batched { outputs, axes })
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        lower::lower(self, ctx, operands)
    }

    /// That of one step: how many there are is not known.
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        passes::cost(&self.cond) + passes::cost(&self.body) + Cost::movement(operands, results)
    }

    fn effects(&self) -> Effects {
        self.cond.effects().and(self.body.effects())
    }

    fn transpose(&self, _: &[Tangent], _: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        Err(RuleError::unsupported(
            "has no derivative in reverse mode, which keeps values of every step, because the \
             number of steps is not known ahead",
        )
        .help(
            "use `scan`, or `fori_loop` with bounds that are numbers or concrete arrays; forward \
             mode, `jvp`, goes through a loop of any length",
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
        let of = |program: &Program, n: usize| {
            let inputs: Vec<Varying> =
                program.avals_in().into_iter().take(n).map(|aval| aval.varying).collect();
            inputs
        };
        let mut all = of(&self.cond, self.n_cond_consts);
        all.extend(of(&self.body, usize::MAX));
        Some(all)
    }
}

impl WhileLoop {
    /// The batched loop in which every example stops on its own: it runs while any goes on, and
    /// leaves those as they are that do not. The body takes the condition's constants too, in front.
    fn until_all_are_done(&self, cond: &Program, body: &Program) -> WhileLoop {
        let any = trace_rules(cond.avals_in(), |inputs| {
            let go_on = passes::eval(cond, inputs).swap_remove(0);
            vec![reduce_or(&go_on, &[0])]
        });
        let (n_cond, n_carry) = (self.n_cond_consts, self.n_carry());
        let avals: Vec<Aval> =
            cond.avals_in()[..n_cond].iter().cloned().chain(body.avals_in()).collect();
        let step = trace_rules(avals, |inputs| {
            let carries = &inputs[inputs.len() - n_carry..];
            let seen: Vec<Array> = inputs[..n_cond].iter().chain(carries).cloned().collect();
            let go_on = passes::eval(cond, &seen).swap_remove(0);
            let next = passes::eval(body, &inputs[n_cond..]);
            let each = next.iter().zip(carries).map(|(next, carry)| {
                let mask = broadcast_in_dim(&go_on, carry.shape(), &[0]);
                select(&mask, next, carry)
            });
            each.collect()
        });
        WhileLoop {
            n_cond_consts: n_cond,
            n_body_consts: n_cond + self.n_body_consts,
            cond: Arc::new(any),
            body: Arc::new(step),
        }
    }
}

impl HigherOrder for WhileLoop {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        vec![("cond", &self.cond), ("body", &self.body)]
    }

    fn run_counts(&self, _: &[Aval], _: &[Aval]) -> Vec<RunCount> {
        vec![RunCount::Unknown, RunCount::Unknown]
    }

    fn split(&self, known: &[bool]) -> Option<Split> {
        split::split(self, known)
    }

    fn prune(&self, used: &[bool]) -> Option<Pruned> {
        split::prune(self, used)
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        let (cond_consts, rest) = operands.split_at(self.n_cond_consts);
        let (body_consts, carries) = rest.split_at(self.n_body_consts);
        let mut carries = carries.to_vec();
        let with = |consts: &[Array], carries: &[Array]| [consts, carries].concat();
        while passes::eval(&self.cond, &with(cond_consts, &carries))[0].item::<bool>()? {
            carries = passes::eval(&self.body, &with(body_consts, &carries));
        }
        Ok(carries)
    }
}

pub(super) fn make(
    params: serde_json::Value,
    programs: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    let Parameters { n_cond_consts, n_body_consts } =
        serde_json::from_value(params).map_err(|error| RuleError::value(error.to_string()))?;
    let [cond, body] = <[Program; 2]>::try_from(programs).map_err(|programs| {
        RuleError::value(format!("while_loop holds two programs, got {}", programs.len()))
    })?;
    let carried = body.outputs().len();
    ensure!(
        cond.inputs().len() == n_cond_consts + carried
            && body.inputs().len() == n_body_consts + carried,
        "a loop that carries {carried} values with {n_cond_consts} and {n_body_consts} constants \
         does not fit programs of {} and {} inputs",
        cond.inputs().len(),
        body.inputs().len()
    );
    let (cond, body) = (Arc::new(cond), Arc::new(body));
    Ok(Arc::new(WhileLoop { n_cond_consts, n_body_consts, cond, body }))
}
