//! `remat`: recomputes values in the backward pass instead of storing them.

use super::call::{Call, bind_traced, expect_operands};
use super::derive::{batch_call, jvp_call, split_program, transpose_call};
use super::parse;
use super::policy::{Policy, recompute_unsaved};
use super::pruning::prune_call;
use crate::core::options::LOG_CHECKPOINT_RESIDUALS;
use crate::core::trace::RefAccess;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, Exemplar, HigherOrder, JvpResult,
    Known, Loc, LowerCtx, Marks, Operand, Primitive, Program, Pruned, RuleResult, RunCount, Sample,
    SplitEqn, SplitOperand, Tangent, Used, trace,
};
use crate::passes;
use crate::stablehlo::Value;
use crate::transforms::staging::{trace_rules, trace_with_refs};
use crate::tree::{Args, Arguments, FnArgs, Function, TransformedFn, leaves_of, transformed};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Applies a program. Its derivative stores the operands and what the policy selects, and
/// recomputes the rest in the backward pass.
///
/// | | |
/// |-|-|
/// | operands   | those of the program |
/// | results    | those of the program |
/// | lowering   | a call of a private function; in the backward pass after an `optimization_barrier`, so that the compiler does not reuse the values of the forward pass |
/// | derivative | that of the program, recomputed |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[doc(alias = "checkpoint")]
pub struct Remat {
    /// The name of the function, for printing.
    pub name: String,
    /// Selects the values that are stored.
    pub policy: Policy,
    /// True in the backward pass, which repeats the work of the forward pass.
    pub again: bool,
    /// True if the compiler must not reuse values of the forward pass in the backward pass.
    #[serde(skip_serializing_if = "is_true")]
    pub prevent_cse: bool,
    /// The program.
    #[serde(skip)]
    pub program: Arc<Program>,
}

fn is_true(value: &bool) -> bool {
    *value
}

impl Remat {
    fn with_program(&self, program: Arc<Program>) -> Remat {
        Remat { program, ..self.clone() }
    }
}

impl Primitive for Remat {
    fn name(&self) -> &'static str {
        "remat"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        expect_operands(&self.name, &self.program, operands)
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        Ok(jvp_call(&self.program, primals, tangents, |program| self.with_program(program)))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        Ok(batch_call(&self.program, operands, axes, axis, |program| self.with_program(program)))
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        if !self.again || !self.prevent_cse || operands.is_empty() {
            return ctx.call(&self.program, &self.name, operands);
        }
        let types: Vec<_> = operands.iter().map(|value| value.ty().clone()).collect();
        let name = "stablehlo.optimization_barrier";
        let barrier = ctx.op_full(name, operands, "", Vec::new(), &types);
        ctx.call(&self.program, &self.name, &barrier)
    }

    fn cost(&self, _: &[Aval], _: &[Aval]) -> Cost {
        passes::cost(&self.program)
    }

    fn effects(&self) -> Effects {
        self.program.effects()
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        Ok(transpose_call(&self.program, cts, operands, |program| Remat {
            again: true,
            ..self.with_program(program)
        }))
    }

    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        Some(self)
    }
}

impl HigherOrder for Remat {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        vec![("program", &self.program)]
    }

    fn run_counts(&self, _: &[Aval], _: &[Aval]) -> Vec<RunCount> {
        vec![RunCount::Times(1)]
    }

    /// The known half is the plain computation, which also returns the values to store. The unknown
    /// half repeats the work from the operands and the stored values.
    fn split(&self, known: &Marks<Known>) -> Option<SplitEqn> {
        let halves = split_program(&self.program, known)?;
        let known_operands = known.positions();
        let recomputed = recompute_unsaved(&halves, &self.policy);
        if LOG_CHECKPOINT_RESIDUALS.get() {
            let names =
                |avals: &[Aval]| avals.iter().map(Aval::to_string).collect::<Vec<_>>().join(", ");
            let results = recomputed.known.avals_out();
            let inputs = names(&recomputed.known.avals_in());
            let (function, at) = (&self.name, Loc::scoped());
            let stored = names(&results[recomputed.n_results..]);
            tracing::warn!(
                target: "oxidax::transforms",
                function, inputs, stored, %at,
                "values that remat stores"
            );
        }
        // The unknown half takes its own operands, all known ones, then the stored values.
        let own = halves.sources.iter().filter(|source| matches!(source, SplitOperand::Operand(_)));
        let inputs = known_operands.iter().map(|&index| SplitOperand::Operand(index));
        let stored = (recomputed.n_results..recomputed.n_results + recomputed.n_stored)
            .map(SplitOperand::Known);
        let unknown_operands = own.copied().chain(inputs).chain(stored).collect();
        Some(SplitEqn {
            known: Arc::new(Call { name: self.name.clone(), program: Arc::new(recomputed.known) }),
            known_operands,
            unknown: Arc::new(self.with_program(Arc::new(recomputed.unknown))),
            unknown_operands,
            outputs: halves.outputs.clone(),
        })
    }

    fn prune(&self, used: &Marks<Used>) -> Option<Pruned> {
        prune_call(&self.program, used, |program, _| self.with_program(program))
    }

    fn with_programs(&self, programs: Vec<Arc<Program>>) -> Option<Arc<dyn Primitive>> {
        let [program] = <[_; 1]>::try_from(programs).ok()?;
        Some(Arc::new(Remat::with_program(self, program)))
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        Ok(passes::eval(&self.program, operands))
    }
}

/// Returns `f` with its intermediate values recomputed in the backward pass instead of stored. This
/// saves memory, costs time, and does not change the gradient.
///
/// Only the arguments are stored; [`remat_with`] stores more.
///
/// ```
/// use oxidax::prelude::*;
/// let block = remat(|x: &Array| tanh(&tanh(x)));
/// let x = Array::from_slice(&[0.0f32], [])?;
/// assert_eq!(grad(|x: &Array| block(x))(&x).item::<f32>()?, 1.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// References: Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26 (2000); Chen et al.,
/// "Training deep nets with sublinear memory cost", arXiv:1604.06174.
#[doc(alias = "checkpoint")]
#[track_caller]
pub fn remat<'f, A: FnArgs, M: 'f, F: Function<A, M> + 'f>(
    f: F,
) -> impl TransformedFn<'f, A, F::Output> {
    remat_with(f, RematOptions::default())
}

/// Options of [`remat_with`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RematOptions {
    /// The values that are stored for the backward pass besides the arguments.
    pub policy: Policy,
    /// Keeps the compiler from reusing values of the forward pass in the backward pass, which would
    /// undo the recomputation, by a barrier between them. True by default. The body of a `scan`
    /// does not need the barrier, because the compiler shares nothing between two loops; without
    /// it, the compiler can fuse the recomputation with its surroundings.
    pub prevent_cse: bool,
}

impl Default for RematOptions {
    fn default() -> RematOptions {
        RematOptions { policy: Policy::default(), prevent_cse: true }
    }
}

/// As [`remat`], with options.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let (w, x) = (ones([3, 3]), ones([3]));
/// // The products are stored, the cheap functions of them are recomputed.
/// let options = RematOptions { policy: Policy::Dots, ..RematOptions::default() };
/// let layer = remat_with(|x: &Array| tanh(&x.matmul(&w)), options);
/// let gradient = grad(|x: &Array| layer(x).sum())(&x);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn remat_with<'f, A: FnArgs, M: 'f, F: Function<A, M> + 'f>(
    f: F,
    options: RematOptions,
) -> impl TransformedFn<'f, A, F::Output> {
    let loc = Loc::caller();
    transformed::<A, _>(f.name(), move |arguments| apply(&options, &f, arguments, loc))
}

fn apply<A: Args, M, F: Function<A, M>>(
    options: &RematOptions,
    f: &F,
    arguments: A::Refs<'_>,
    loc: Loc,
) -> F::Output {
    let operands = leaves_of(&Arguments::<A>(arguments));
    let call = |leaves: Vec<Array>| f.apply(A::unflatten(arguments, &mut leaves.into_iter()));
    // Outside a trace no derivative can be taken.
    if !trace::is_tracing() {
        return trace::interpreted(format!("remat({})", f.name()), loc, || call(operands));
    }
    let name = f.name();
    let avals = operands.iter().map(|operand| operand.aval().clone());
    let scope = format!("remat({name})");
    let traced = loc.scope(|| trace_with_refs(RefAccess::Captures, loc, scope, avals, call));
    loc.scope(|| traced.refs.expect_no_arguments("remat"));
    let RematOptions { policy, prevent_cse } = options.clone();
    let again = false;
    bind_traced(traced, operands, loc, |program| Remat {
        name,
        policy,
        again,
        prevent_cse,
        program,
    })
}

pub(super) fn make(
    params: serde_json::Value,
    programs: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    #[derive(Deserialize)]
    struct Parameters {
        name: String,
        policy: Policy,
        again: bool,
        #[serde(default = "yes")]
        prevent_cse: bool,
    }
    fn yes() -> bool {
        true
    }
    let Parameters { name, policy, again, prevent_cse } = parse::parameters(params)?;
    let [program] = parse::exact("remat", programs)?;
    Ok(Arc::new(Remat { name, policy, again, prevent_cse, program: Arc::new(program) }))
}

pub(super) fn exemplars() -> Vec<Exemplar> {
    let aval = || Aval::new(DType::F64, [2, 3]);
    let program = Arc::new(trace_rules([aval(), aval()], |inputs| {
        let sine = crate::primitives::sin(&inputs[1]);
        vec![&inputs[0] * &sine, crate::primitives::exp(&sine)]
    }));
    let sample = || Sample::uniform(DType::F64, [2, 3], -2.0, 2.0);
    let either = Policy::Dots.or(Policy::any_names_but(["a"]));
    [(Policy::Nothing, false, true), (Policy::Everything, true, true), (either, true, false)]
        .into_iter()
        .map(|(policy, again, prevent_cse)| {
            let program = program.clone();
            let remat = Remat { name: "f".into(), policy, again, prevent_cse, program };
            Exemplar::new(remat, [sample(), sample()])
        })
        .collect()
}
