//! `cond`: one of several programs, selected by a number.

mod branches;
mod exemplars;
mod function;
mod platform;
mod split;

pub use branches::Branches;
pub(super) use exemplars::exemplars;
pub use function::{cond, switch};
pub use platform::platform_dependent;

use super::derive::{
    Derived, batch_front, bind_derivative, front_axes, jvp_of, mapped_of, operand_cotangents,
    transpose_of, with_front_axes,
};
use super::parse;
use super::pruning::Live;
use crate::core::varying::joint;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, HigherOrder, JvpResult, Known,
    Loc, LowerCtx, Marks, Operand, Primitive, Program, Pruned, RuleError, RuleResult, RunCount,
    SplitEqn, Spmd, Tangent, Used, Varying, backend, bind,
};
use crate::passes;
use crate::primitives::rules::{batch_at_front, move_axis};
use crate::primitives::{broadcast_in_dim, eq, select};
use crate::stablehlo::{TensorType, Value};
use crate::transforms::batch::batch_program;
use crate::{ensure, ensure_dtype, ensure_shape};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Applies the program with the given number, or the program for the platform that the module is
/// compiled for. Only that program runs.
///
/// | | |
/// |-|-|
/// | operands   | `index: i32[]`, then the operands of every branch |
/// | results    | those of the selected branch; all branches return the same types. A number out of range selects the last |
/// | lowering   | [`stablehlo.case`](https://openxla.org/stablehlo/spec#case); of platforms, the program of the target |
/// | batching   | over `index`: all branches run and results are selected |
/// | derivative | a conditional over the branches' derivatives; a branch that has no residual where another one has returns zeros |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[doc(alias = "case")]
pub struct Cond {
    /// The programs.
    #[serde(skip)]
    pub branches: Vec<Arc<Program>>,
    /// The platform of each program, such as `cpu`; `default` is any. Empty if the number selects
    /// the program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub platforms: Vec<String>,
}

impl Cond {
    fn new<P: Into<Arc<Program>>>(branches: impl IntoIterator<Item = P>) -> Cond {
        Cond { branches: branches.into_iter().map(Into::into).collect(), platforms: Vec::new() }
    }

    /// Returns a conditional over other programs.
    fn with_branches<P: Into<Arc<Program>>>(&self, branches: impl IntoIterator<Item = P>) -> Cond {
        Cond { platforms: self.platforms.clone(), ..Cond::new(branches) }
    }

    /// Returns the number of the program for a platform.
    fn branch_for(&self, platform: &str) -> RuleResult<usize> {
        let is_gpu = matches!(platform, "cuda" | "rocm");
        let named = |name: &str| self.platforms.iter().position(|other| other == name);
        let number = named(platform).or_else(|| named("gpu").filter(|_| is_gpu));
        number.or_else(|| named("default")).ok_or_else(|| {
            let names = self.platforms.join("`, `");
            RuleError::unsupported(format!(
                "has no branch for the platform `{platform}`, only for `{names}`"
            ))
            .help("add a branch for it, or one for \"default\"")
        })
    }

    fn n_outputs(&self) -> usize {
        self.branches[0].outputs().len()
    }

    /// Derives a program from each branch. A result that one branch computes is required of all.
    fn derive<P>(
        &self,
        n_results: usize,
        derive: impl Fn(&Arc<Program>, &Marks<P>) -> Derived<Marks<P>>,
    ) -> (Cond, Marks<P>)
    where
        Marks<P>: Clone + PartialEq,
    {
        let mut required: Marks<P> = Marks::none(n_results);
        loop {
            let branches: Vec<Derived<Marks<P>>> =
                self.branches.iter().map(|branch| derive(branch, &required)).collect();
            for branch in &branches {
                required.grow(&branch.results);
            }
            if branches.iter().all(|branch| branch.results == required) {
                let branches = branches.into_iter().map(|branch| branch.program);
                return (self.with_branches(branches), required);
            }
        }
    }

    /// Runs all branches on a batch, and selects for each example the results of its branch.
    fn run_all_branches(
        &self,
        index: &Array,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> Vec<Array> {
        let run = |branch: &Arc<Program>| {
            let (outputs, axes) = batch_program(branch, operands, axes, axis);
            batch_at_front(&outputs, &axes, axis)
        };
        let (last, others) = self.branches.split_last().expect("there is a branch");
        let mut selected = run(last);
        for (number, branch) in others.iter().enumerate() {
            let outputs = run(branch);
            let is_selected = eq(index, number as i32);
            for (selected, output) in selected.iter_mut().zip(&outputs) {
                let mask = broadcast_in_dim(&is_selected, output.shape(), &[0]);
                *selected = select(&mask, output, selected);
            }
        }
        selected
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
        let varying = Marks::of_tangents(&tangents[1..]);
        let (derivative, results) =
            self.derive(self.n_outputs(), |branch, required| jvp_of(branch, &varying, required));
        Ok(bind_derivative(derivative, primals, tangents, &results))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        if let Some(index_axis) = axes[0] {
            if self.effects() != Effects::None {
                return Err(RuleError::unsupported(
                    "has side effects in its branches, and a batch of predicates runs all branches",
                ));
            }
            let index = move_axis(&operands[0], index_axis, 0);
            let outputs = self.run_all_branches(&index, &operands[1..], &axes[1..], axis);
            let axes = vec![Some(0); outputs.len()];
            return Ok(Batched { outputs, axes });
        }
        let mapped = mapped_of(axes);
        let inputs = mapped.slice(1..mapped.len());
        let (batched, results) = self.derive(self.n_outputs(), |branch, required| {
            batch_front(branch, &inputs, required, axis)
        });
        let operands = with_front_axes(operands, axes, &mapped, axis);
        let outputs = bind(batched, &operands.iter().collect::<Vec<_>>());
        Ok(Batched { outputs, axes: front_axes(&results) })
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        if !self.platforms.is_empty() {
            let number = self.branch_for(ctx.platform())?;
            return ctx.inline(&self.branches[number], &operands[1..]);
        }
        let mut types: Vec<TensorType> = results.iter().map(Aval::stablehlo).collect();
        // Ordered effects of all branches start from one token. The conditional returns the next.
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

    /// Returns the maximum of the branches' costs, for each count separately.
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let mut cost = Cost::default();
        for branch in &self.branches {
            let branch = passes::cost(branch);
            cost.flops = cost.flops.max(branch.flops);
            cost.transcendentals = cost.transcendentals.max(branch.transcendentals);
            cost.bytes = cost.bytes.max(branch.bytes);
        }
        cost + Cost::movement(operands, results)
    }

    fn effects(&self) -> Effects {
        let effects = self.branches.iter().map(|branch| branch.effects());
        effects.fold(Effects::None, Effects::and)
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let [Operand::Known(index), operands @ ..] = operands else {
            return Err(RuleError::not_linear("cond"));
        };
        let known = Marks::of_operands(operands);
        let dense_cts = Marks::of_tangents(cts);
        let (transposed, results) = self.derive(known.count_unmarked(), |branch, required| {
            transpose_of(branch, &known, &dense_cts, required)
        });
        transposed.expect_no_sum_over(&index.aval().varying)?;
        let dense = if results.any() {
            let values = operands.iter().filter_map(Operand::known);
            let dense = cts.iter().filter_map(Tangent::array);
            let arguments: Vec<&Array> =
                std::iter::once(index).chain(values).chain(dense).collect();
            bind(transposed, &arguments)
        } else {
            Vec::new()
        };
        let mut cts = operand_cotangents(operands, &results, dense);
        cts.insert(0, None);
        Ok(cts)
    }

    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        Some(self)
    }

    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Cond {
    /// Checks transposed branches, which devices select differently along `axes`.
    fn expect_no_sum_over(&self, axes: &Varying) -> RuleResult<()> {
        let mut names = self.branches.iter().flat_map(|branch| branch.axis_names());
        let Some(axis) = names.find(|axis| axes.contains(axis)) else { return Ok(()) };
        Err(RuleError::unsupported(format!(
            "devices along `{axis}` select different branches, and the backward pass of a branch \
             has a sum over `{axis}`, which all of them must reach"
        ))
        .help(format!(
            "make values that a loop in the branch shares with all devices vary before the branch: \
             `&w + axis_index(\"{axis}\").minimum(0)`"
        )))
    }
}

impl Spmd for Cond {
    fn operand_varying(&self, operands: &[Aval]) -> Option<Vec<Varying>> {
        let index = operands.first().map(|index| index.varying.clone());
        let inputs = self.branches.first().map(|branch| branch.avals_in()).unwrap_or_default();
        Some(index.into_iter().chain(inputs.into_iter().map(|aval| aval.varying)).collect())
    }

    fn result_varying(&self, operands: &[Aval], results: &[Aval]) -> Option<Vec<Varying>> {
        // Devices that select different branches get different results.
        let varying = |index: usize| {
            let outputs = self.branches.iter().map(|branch| branch.aval(branch.outputs()[index]));
            joint(outputs).and(&operands[0].varying)
        };
        Some((0..results.len()).map(varying).collect())
    }
}

impl HigherOrder for Cond {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        self.branches.iter().map(|branch| ("branch", &**branch)).collect()
    }

    fn run_counts(&self, _: &[Aval], _: &[Aval]) -> Vec<RunCount> {
        vec![RunCount::Choice; self.branches.len()]
    }

    fn split(&self, known: &Marks<Known>) -> Option<SplitEqn> {
        split::split(self, known)
    }

    fn forwarded(&self) -> Vec<Option<usize>> {
        let of_result = |index: usize| {
            let mut inputs = self.branches.iter().map(|branch| branch.forwarded_input(index));
            let first = inputs.next()??;
            // The first operand chooses the branch.
            inputs.all(|input| input == Some(first)).then_some(first + 1)
        };
        (0..self.n_outputs()).map(of_result).collect()
    }

    fn prune(&self, used: &Marks<Used>) -> Option<Pruned> {
        let branches: Vec<Live> =
            self.branches.iter().map(|branch| Live::of(branch, used)).collect();
        let mut inputs = Marks::none(self.branches[0].inputs().len());
        for branch in &branches {
            inputs.grow(&branch.inputs);
        }
        let mut pairs = branches.iter().zip(&self.branches);
        let keeps_sizes = pairs.all(|(live, branch)| live.has_size_of(branch));
        if used.is_all() && inputs.is_all() && keeps_sizes {
            return None;
        }
        let operands = Marks::all(1).concat(&inputs);
        let branches = branches.iter().map(|branch| branch.with_inputs(&inputs));
        Some(Pruned {
            primitive: Arc::new(self.with_branches(branches)),
            operands: operands.positions(),
            results: used.positions(),
        })
    }

    fn with_programs(&self, programs: Vec<Arc<Program>>) -> Option<Arc<dyn Primitive>> {
        Some(Arc::new(self.with_branches(programs)))
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        if !self.platforms.is_empty() {
            // The backend knows the platform.
            let primitive: Arc<dyn Primitive> = Arc::new(self.clone());
            let results = self.branches[0].avals_out();
            let operands: Vec<&Array> = operands.iter().collect();
            return backend().apply(&primitive, &operands, results, Loc::scoped());
        }
        let index = operands[0].item::<i32>()?;
        let last = self.branches.len() - 1;
        let number = usize::try_from(index).map_or(last, |number| number.min(last));
        Ok(passes::eval(&self.branches[number], &operands[1..]))
    }
}

pub(super) fn make(
    params: serde_json::Value,
    programs: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    ensure!(!programs.is_empty(), "cond holds at least one program, got none");
    #[derive(Default, Deserialize)]
    struct Parameters {
        #[serde(default)]
        platforms: Vec<String>,
    }
    let parameters: Option<Parameters> = parse::parameters(params)?;
    let Parameters { platforms } = parameters.unwrap_or_default();
    ensure!(
        platforms.is_empty() || platforms.len() == programs.len(),
        "cond holds {} programs for {} platforms",
        programs.len(),
        platforms.len()
    );
    Ok(Arc::new(Cond { platforms, ..Cond::new(programs) }))
}
