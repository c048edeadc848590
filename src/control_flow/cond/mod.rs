//! `cond`: one of several programs, chosen by a number.

mod exemplars;
mod function;
mod split;

pub(super) use exemplars::exemplars;
pub use function::{cond, switch};

use super::masked::{
    Derived, batch_of, jvp_of, same_size, tangents_of, transpose_of, with_kept_inputs,
    with_used_outputs,
};
use super::scan::grow;
use crate::core::varying::joint;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, HigherOrder, JvpResult, LowerCtx,
    Operand, Primitive, Program, Pruned, RuleError, RuleResult, RunCount, Split, Spmd, Tangent,
    Varying, bind,
};
use crate::passes;
use crate::primitives::rules::{batch_at, move_axis};
use crate::primitives::{broadcast_in_dim, eq, select};
use crate::stablehlo::{TensorType, Value};
use crate::transforms::batch::batch_program;
use crate::{ensure, ensure_dtype, ensure_shape};
use serde::Serialize;
use std::sync::Arc;

/// Applies the program whose number is given; only that one runs.
///
/// | | |
/// |-|-|
/// | operands   | `index: i32[]`, then what every branch takes |
/// | results    | those of the chosen branch; all branches give the same types. A number that no branch has chooses the last |
/// | lowering   | [`stablehlo.case`](https://openxla.org/stablehlo/spec#case) |
/// | batching   | over `index`: all branches run and results are selected |
/// | derivative | a choice among the branches' derivatives; what the chosen one keeps for the way back stands beside zeros for the others |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[doc(alias = "case")]
pub struct Cond {
    /// The programs.
    #[serde(skip)]
    pub branches: Vec<Arc<Program>>,
}

impl Cond {
    fn of<P: Into<Arc<Program>>>(branches: impl IntoIterator<Item = P>) -> Cond {
        Cond { branches: branches.into_iter().map(Into::into).collect() }
    }

    fn n_out(&self) -> usize {
        self.branches[0].outputs().len()
    }

    /// Derives a program from each branch, where what one branch has something for, all must have.
    fn derived(
        &self,
        n: usize,
        derive: impl Fn(&Arc<Program>, &[bool]) -> Derived,
    ) -> (Cond, Vec<bool>) {
        let mut force = vec![false; n];
        loop {
            let branches: Vec<Derived> =
                self.branches.iter().map(|branch| derive(branch, &force)).collect();
            let grown = branches.iter().map(|branch| grow(&mut force, &branch.marks));
            let grown = grown.filter(|grown| *grown).count() > 0;
            // The first round finds out; if all branches agree there is no second.
            if !grown || branches.iter().all(|branch| branch.marks == force) {
                return (Cond::of(branches.into_iter().map(|branch| branch.program)), force);
            }
        }
    }
}

impl Primitive for Cond {
    fn name(&self) -> &'static str {
        "cond"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [index, operands @ ..] = operands else {
            return Err(RuleError::value("takes a number and operands, got nothing"));
        };
        ensure_dtype!(
            index.same_type(&Aval::new(DType::I32, [])),
            "the branch's number must be i32[], got {index}"
        );
        let Some(first) = self.branches.first() else {
            return Err(RuleError::value("has no branches"));
        };
        let mut results = first.avals_out();
        for (number, branch) in self.branches.iter().enumerate() {
            let inputs = branch.avals_in();
            ensure!(
                inputs.len() == operands.len(),
                "branch {number} takes {} operands, got {}",
                inputs.len(),
                operands.len()
            );
            for (position, (operand, input)) in operands.iter().zip(&inputs).enumerate() {
                ensure_shape!(
                    operand.same_type(input),
                    "branch {number} takes {input} at {position}, got {operand}"
                );
            }
            let outputs = branch.avals_out();
            ensure!(
                outputs.len() == results.len(),
                "branch {number} gives {} results, branch 0 gives {}",
                outputs.len(),
                results.len()
            );
            for (position, (result, output)) in results.iter_mut().zip(&outputs).enumerate() {
                ensure_shape!(
                    result.same_type(output),
                    "branch {number} gives {output} at {position}, branch 0 gives {result}"
                );
                result.weak &= output.weak;
            }
        }
        Ok(results)
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let varies: Vec<bool> = tangents[1..].iter().map(|tangent| !tangent.is_zero()).collect();
        let n_out = self.n_out();
        let (derivative, marks) =
            self.derived(n_out, |branch, force| jvp_of(branch, &varies, force));
        let dense = tangents.iter().filter_map(Tangent::array);
        let operands: Vec<&Array> = primals.iter().chain(dense).collect();
        let mut results = bind(derivative, &operands);
        let tangents = results.split_off(n_out);
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
        if let Some(at) = axes[0] {
            if self.effects() != Effects::None {
                return Err(RuleError::unsupported(
                    "has side effects in its branches, of which a batch of predicates runs all",
                ));
            }
            let index = move_axis(&operands[0], at, 0);
            let outputs = self.selected(&index, &operands[1..], &axes[1..], axis);
            let axes = vec![Some(0); outputs.len()];
            return Ok(Batched { outputs, axes });
        }
        let mapped: Vec<bool> = axes[1..].iter().map(Option::is_some).collect();
        let (batched, marks) =
            self.derived(self.n_out(), |branch, force| batch_of(branch, &mapped, force, axis));
        let placed = operands.iter().zip(axes).map(|(x, &at)| match at {
            Some(at) => move_axis(x, at, 0),
            None => x.clone(),
        });
        let placed: Vec<Array> = placed.collect();
        let outputs = bind(batched, &placed.iter().collect::<Vec<_>>());
        let axes = marks.iter().map(|mark| mark.then_some(0)).collect();
        Ok(Batched { outputs, axes })
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let mut types: Vec<TensorType> = results.iter().map(Aval::stablehlo).collect();
        // Ordered effects of all branches begin with one token, and the choice gives the next.
        let token = (self.effects() == Effects::Ordered).then(|| ctx.token());
        types.extend(token.as_ref().map(|token| token.ty().clone()));
        let mut regions = Vec::with_capacity(self.branches.len());
        for branch in &self.branches {
            let (outside, _) = ctx.open_region(&[]);
            if let Some(token) = &token {
                ctx.set_token(token.clone());
            }
            let mut outputs = ctx.inline(branch, &operands[1..])?;
            if token.is_some() {
                outputs.push(ctx.token());
            }
            regions.push(ctx.close_region(outside, &outputs));
        }
        let mut outputs = ctx.op_full("case", &operands[..1], "", regions, &types);
        if token.is_some()
            && let Some(token) = outputs.pop()
        {
            ctx.set_token(token);
        }
        Ok(outputs)
    }

    /// That of the most expensive branch, by each count.
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let costs = self.branches.iter().map(|branch| passes::cost(branch));
        let most = costs.fold(Cost::default(), |a, b| Cost {
            flops: a.flops.max(b.flops),
            transcendentals: a.transcendentals.max(b.transcendentals),
            bytes: a.bytes.max(b.bytes),
            ..Cost::default()
        });
        most + Cost::movement(operands, results)
    }

    fn effects(&self) -> Effects {
        let effects = self.branches.iter().map(|branch| branch.effects());
        effects.fold(Effects::None, Effects::and)
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let [Operand::Known(index), operands @ ..] = operands else {
            return Err(RuleError::not_linear("cond"));
        };
        let linear: Vec<bool> = operands.iter().map(Operand::is_linear).collect();
        let there: Vec<bool> = cts.iter().map(|ct| !ct.is_zero()).collect();
        let n_linear = linear.iter().filter(|linear| **linear).count();
        let (transposed, marks) =
            self.derived(n_linear, |branch, force| transpose_of(branch, &linear, &there, force));
        let over = &index.aval().varying;
        let mut names = transposed.branches.iter().flat_map(|branch| branch.axis_names());
        if let Some(axis) = names.find(|axis| over.contains(axis)) {
            return Err(RuleError::unsupported(format!(
                "devices along `{axis}` choose differently, and the way back through a branch includes a sum over \
                 `{axis}`, which all of them must come to"
            ))
            .help(format!(
                "let what a loop in the branch shares with all devices differ before the choice: \
                 `&w + axis_index(\"{axis}\").minimum(0)`"
            )));
        }
        let known = operands.iter().filter_map(Operand::known);
        let dense = cts.iter().filter_map(Tangent::array);
        let arguments: Vec<&Array> = std::iter::once(index).chain(known).chain(dense).collect();
        let found = match marks.contains(&true) {
            true => bind(transposed, &arguments),
            false => Vec::new(),
        };
        let avals = operands.iter().filter(|x| x.is_linear()).map(|x| x.aval().clone());
        let mut found = tangents_of(&marks, avals, found).into_iter();
        let ct = |linear: bool| linear.then(|| found.next().expect("one per linear operand"));
        Ok(std::iter::once(None).chain(linear.iter().copied().map(ct)).collect())
    }

    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        Some(self)
    }

    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for Cond {
    fn operand_varying(&self, operands: &[Aval]) -> Option<Vec<Varying>> {
        let index = operands.first().map(|index| index.varying.clone());
        let inputs = self.branches.first().map(|branch| branch.avals_in()).unwrap_or_default();
        Some(index.into_iter().chain(inputs.into_iter().map(|aval| aval.varying)).collect())
    }

    fn result_varying(&self, operands: &[Aval], results: &[Aval]) -> Option<Vec<Varying>> {
        // Devices that choose differently get different results.
        let varying = |index: usize| {
            let outputs = self.branches.iter().map(|branch| branch.aval(branch.outputs()[index]));
            joint(outputs).and(&operands[0].varying)
        };
        Some((0..results.len()).map(varying).collect())
    }
}

impl Cond {
    /// All branches on a batch, and for each example the results of the one that its number names.
    fn selected(
        &self,
        index: &Array,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> Vec<Array> {
        let mut each = self.branches.iter().map(|branch| {
            let (outputs, axes) = batch_program(branch, operands, axes, axis);
            let placed = outputs.iter().zip(axes).map(|(x, at)| batch_at(x, at, 0, axis));
            placed.collect::<Vec<Array>>()
        });
        let last = each.next_back().expect("there is a branch");
        each.enumerate().fold(last, |selected, (number, outputs)| {
            let chosen = eq(index, number as i32);
            let pairs = outputs.iter().zip(&selected);
            pairs
                .map(|(x, other)| select(&broadcast_in_dim(&chosen, x.shape(), &[0]), x, other))
                .collect()
        })
    }
}

impl HigherOrder for Cond {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        self.branches.iter().map(|branch| ("branch", &**branch)).collect()
    }

    fn run_counts(&self, _: &[Aval], _: &[Aval]) -> Vec<RunCount> {
        vec![RunCount::Choice; self.branches.len()]
    }

    fn split(&self, known: &[bool]) -> Option<Split> {
        split::split(self, known)
    }

    fn prune(&self, used: &[bool]) -> Option<Pruned> {
        let each: Vec<(Program, Vec<bool>)> =
            self.branches.iter().map(|branch| with_used_outputs(branch, used)).collect();
        let mut kept = vec![false; self.branches[0].inputs().len()];
        for (_, inputs) in &each {
            grow(&mut kept, inputs);
        }
        let sizes = each.iter().zip(&self.branches);
        let unchanged = sizes.filter(|((now, _), before)| !same_size(now, before)).count() == 0;
        if !used.contains(&false) && !kept.contains(&false) && unchanged {
            return None;
        }
        let branches = each.iter().map(|(branch, _)| with_kept_inputs(branch, &kept));
        let operands = (0..kept.len()).filter(|&at| kept[at]).map(|at| at + 1);
        Some(Pruned {
            primitive: Arc::new(Cond::of(branches)),
            operands: std::iter::once(0).chain(operands).collect(),
            results: (0..used.len()).filter(|&at| used[at]).collect(),
        })
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        let index = operands[0].item::<i32>()?;
        let last = self.branches.len() - 1;
        let number = usize::try_from(index).map_or(last, |number| number.min(last));
        Ok(passes::eval(&self.branches[number], &operands[1..]))
    }
}

pub(super) fn make(_: serde_json::Value, programs: Vec<Program>) -> RuleResult<Arc<dyn Primitive>> {
    ensure!(!programs.is_empty(), "cond holds at least one program, got none");
    Ok(Arc::new(Cond::of(programs)))
}
