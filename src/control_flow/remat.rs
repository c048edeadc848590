//! `remat`: what the way back needs is computed again instead of being kept.

use super::call::{Call, expect_operands, prune_call};
use super::derived::{self, batch_call, jvp_call, transpose_call};
use super::policy::{Policy, hide_unsaved};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, Exemplar, HigherOrder, JvpResult,
    LowerCtx, Operand, Primitive, Program, Pruned, RuleError, RuleResult, RunCount, Sample, Split,
    SplitOperand, Tangent, bind, trace,
};
use crate::passes;
use crate::stablehlo::Value;
use crate::transforms::staging::{short_name, trace_function, trace_rules};
use crate::tree::{Tree, leaves_of, rebuild};
use serde::{Deserialize, Serialize};
use std::panic::Location;
use std::sync::Arc;

/// Applies a program; differentiated, it keeps its operands and what the policy says, and computes the
/// rest again on the way back.
///
/// | | |
/// |-|-|
/// | operands   | those of the program |
/// | results    | those of the program |
/// | lowering   | a call of a private function; on the way back behind an `optimization_barrier`, so that the compiler does not find what it computed before |
/// | derivative | that of the program, computed again |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[doc(alias = "checkpoint")]
pub struct Remat {
    /// The function's name, for reading.
    pub name: String,
    /// What is kept all the same.
    pub policy: Policy,
    /// Whether this is the way back, where the work is done a second time.
    pub again: bool,
    /// The program.
    #[serde(skip)]
    pub program: Arc<Program>,
}

impl Remat {
    fn of(&self, program: Arc<Program>) -> Remat {
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
        Ok(jvp_call(&self.program, primals, tangents, |program| self.of(program)))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        Ok(batch_call(&self.program, operands, axes, axis, |program| self.of(program)))
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        if !self.again || operands.is_empty() {
            return ctx.call(&self.program, &self.name, operands);
        }
        let types: Vec<_> = operands.iter().map(|value| value.ty().clone()).collect();
        let name = "stablehlo.optimization_barrier";
        let held = ctx.op_full(name, operands, "", Vec::new(), &types);
        ctx.call(&self.program, &self.name, &held)
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
            ..self.of(program)
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

    /// The known half is the plain computation with what the policy keeps; the unknown half does the
    /// work again from the operands and what was kept.
    fn split(&self, known: &[bool]) -> Option<Split> {
        let halves = derived::split(&self.program, known)?;
        let known_operands: Vec<usize> = (0..known.len()).filter(|&at| known[at]).collect();
        let hidden = hide_unsaved(&halves, &self.policy);
        // The unknown half takes its own operands, all known ones, then what was kept.
        let own = halves.sources.iter().filter(|source| matches!(source, SplitOperand::Operand(_)));
        let given = known_operands.iter().map(|&at| SplitOperand::Operand(at));
        let kept = (hidden.n_results..hidden.n_results + hidden.n_saved).map(SplitOperand::Known);
        let unknown_operands = own.copied().chain(given).chain(kept).collect();
        Some(Split {
            known: Arc::new(Call { name: self.name.clone(), program: Arc::new(hidden.ahead) }),
            known_operands,
            unknown: Arc::new(self.of(Arc::new(hidden.unknown))),
            unknown_operands,
            outputs: halves.outputs.clone(),
        })
    }

    fn prune(&self, used: &[bool]) -> Option<Pruned> {
        prune_call(&self.program, used, |program| self.of(program))
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        Ok(passes::eval(&self.program, operands))
    }
}

/// The function with its intermediate values not kept for the way back: reverse mode computes them again.
/// Takes time to save memory; what it does to a gradient's value is nothing.
///
/// Keeps the arguments and nothing else; [`remat_with`] keeps more.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let block = remat(|x: &Array| tanh(&tanh(x)));
/// let x = Array::from_slice(&[0.0f32], [])?;
/// assert_eq!(grad(|x: &Array| block(x))(&x).item::<f32>()?, 1.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Reference: Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26 (2000); Chen et al., "Training
/// deep nets with sublinear memory cost", arXiv:1604.06174.
#[doc(alias = "checkpoint")]
#[track_caller]
pub fn remat<P: Tree, O: Tree>(f: impl Fn(&P) -> O) -> impl Fn(&P) -> O {
    remat_with(Policy::Nothing, f)
}

/// As [`remat`], keeping what `policy` says.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let (w, x) = (ones([3, 3], DType::F32), ones([3], DType::F32));
/// // The products are kept, the cheap functions of them are computed again.
/// let layer = remat_with(Policy::Dots, |x: &Array| tanh(&x.matmul(&w)));
/// let gradient = grad(|x: &Array| layer(x).sum())(&x);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn remat_with<P: Tree, O: Tree>(policy: Policy, f: impl Fn(&P) -> O) -> impl Fn(&P) -> O {
    let location = Location::caller();
    move |primals| apply(&policy, &f, primals, location)
}

fn apply<P: Tree, O: Tree, F: Fn(&P) -> O>(
    policy: &Policy,
    f: &F,
    primals: &P,
    location: &'static Location<'static>,
) -> O {
    // With nothing under way that could ask for a derivative, the function is itself.
    if !trace::is_tracing() {
        return f(primals);
    }
    let name = short_name::<F>();
    let leaves = leaves_of(primals);
    let avals = leaves.iter().map(|leaf| leaf.aval().clone());
    let traced =
        trace_function(format!("remat({name})"), avals, |leaves| f(&rebuild(primals, leaves)));
    let operands: Vec<&Array> = leaves.iter().chain(&traced.captures).collect();
    let program = Arc::new(traced.program);
    let primitive = Remat { name, policy: policy.clone(), again: false, program };
    let outputs = trace::at_location(Some(location), || bind(primitive, &operands));
    rebuild(&traced.template, outputs)
}

pub(super) fn make(
    params: serde_json::Value,
    programs: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    #[derive(Deserialize)]
    struct Params {
        name: String,
        policy: Policy,
        again: bool,
    }
    let Params { name, policy, again } =
        serde_json::from_value(params).map_err(|error| RuleError::value(error.to_string()))?;
    match <[Program; 1]>::try_from(programs) {
        Ok([program]) => Ok(Arc::new(Remat { name, policy, again, program: Arc::new(program) })),
        Err(programs) => {
            Err(RuleError::value(format!("remat holds one program, got {}", programs.len())))
        }
    }
}

pub(super) fn exemplars() -> Vec<Exemplar> {
    let aval = || Aval::new(DType::F64, [2, 3]);
    let program = Arc::new(trace_rules([aval(), aval()], |inputs| {
        let sine = crate::primitives::sin(&inputs[1]);
        vec![&inputs[0] * &sine, crate::primitives::exp(&sine)]
    }));
    let sample = || Sample::uniform(DType::F64, [2, 3], -2.0, 2.0);
    [(Policy::Nothing, false), (Policy::Everything, true)]
        .into_iter()
        .map(|(policy, again)| {
            let remat = Remat { name: "f".into(), policy, again, program: program.clone() };
            Exemplar::new(remat, [sample(), sample()])
        })
        .collect()
}
