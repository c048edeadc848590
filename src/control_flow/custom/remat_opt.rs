//! `remat_opt`: the forward rule of a `custom_vjp`, where the function itself may take its place.

use crate::control_flow::Call;
use crate::control_flow::call::expect_operands;
use crate::control_flow::derive::{OutputAxes, batch_of, jvp_call, split_call, transpose_call};
use crate::control_flow::parse;
use crate::control_flow::pruning::Live;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, Exemplar, HigherOrder, JvpResult,
    Known, LowerCtx, Marks, Operand, Primitive, Program, Pruned, RuleResult, RunCount, Sample,
    SplitEqn, Spmd, Tangent, Used, Varying, bind,
};
use crate::passes;
use crate::primitives::{cos, sin};
use crate::stablehlo::Value;
use crate::transforms::staging::trace_rules;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Applies the forward rule of a [`CustomVjp`](super::CustomVjp) with `optimize_remat`. Dead-code
/// elimination replaces it by a call of the function if no residual is used, as in the forward pass
/// under [`remat`](crate::control_flow::remat()).
///
/// | | |
/// |-|-|
/// | operands   | those of both programs |
/// | results    | those of the function, then the residuals |
/// | lowering   | a call of the forward rule |
/// | derivative | that of the forward rule, which nothing replaces |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct RematOpt {
    /// The name of the function, for printing.
    pub name: String,
    /// Maps the operands to the results of the function, then the residuals.
    #[serde(skip)]
    pub forward: Arc<Program>,
    /// Maps the operands to the results of the function.
    #[serde(skip)]
    pub function: Arc<Program>,
}

impl RematOpt {
    /// Returns the number of results that are not residuals.
    fn n_results(&self) -> usize {
        self.function.outputs().len()
    }

    /// Returns a call of a program derived from the forward rule.
    fn derived(&self, prefix: &str, program: Arc<Program>) -> Call {
        Call { name: format!("{prefix}_{}", self.name), program }
    }
}

impl Primitive for RematOpt {
    fn name(&self) -> &'static str {
        "remat_opt"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let mut results = expect_operands(&self.name, &self.function, operands)?;
        let forward = expect_operands(&self.name, &self.forward, operands)?;
        results.extend_from_slice(&forward[self.n_results()..]);
        Ok(results)
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        Ok(jvp_call(&self.forward, primals, tangents, |program| self.derived("jvp", program)))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        // All results are batched, so that both programs agree.
        let batched = |program: &Arc<Program>| {
            let all = OutputAxes::Front(Marks::all(program.outputs().len()));
            batch_of(program, axes, all, axis).program
        };
        let (forward, function) = (batched(&self.forward), batched(&self.function));
        let primitive = RematOpt { name: self.name.clone(), forward, function };
        let outputs = bind(primitive, &operands.iter().collect::<Vec<_>>());
        let axes = vec![Some(0); outputs.len()];
        Ok(Batched { outputs, axes })
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        ctx.call(&self.forward, &self.name, operands)
    }

    fn cost(&self, _: &[Aval], _: &[Aval]) -> Cost {
        passes::cost(&self.forward)
    }

    fn effects(&self) -> Effects {
        self.forward.effects()
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        Ok(transpose_call(&self.forward, cts, operands, |program| {
            self.derived("transpose", program)
        }))
    }

    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        Some(self)
    }

    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for RematOpt {
    fn operand_varying(&self, _: &[Aval]) -> Option<Vec<Varying>> {
        Some(self.forward.avals_in().into_iter().map(|aval| aval.varying).collect())
    }
}

impl HigherOrder for RematOpt {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        vec![("forward", &self.forward), ("function", &self.function)]
    }

    fn run_counts(&self, _: &[Aval], _: &[Aval]) -> Vec<RunCount> {
        vec![RunCount::Times(1), RunCount::Never]
    }

    fn split(&self, known: &Marks<Known>) -> Option<SplitEqn> {
        let half = |prefix| move |program| self.derived(prefix, program);
        split_call(&self.forward, known, half("known"), half("unknown"))
    }

    /// Replaces the forward rule by the function if no residual is used.
    fn prune(&self, used: &Marks<Used>) -> Option<Pruned> {
        let results = used.slice(0..self.n_results());
        if results.count() == used.count() {
            let function = Live::of(&self.function, &results);
            let program = Arc::new(function.with_inputs(&function.inputs));
            return Some(Pruned {
                primitive: Arc::new(Call { name: self.name.clone(), program }),
                operands: function.inputs.positions(),
                results: used.positions(),
            });
        }
        let (forward, function) =
            (Live::of(&self.forward, used), Live::of(&self.function, &results));
        let mut inputs = forward.inputs.clone();
        inputs.grow(&function.inputs);
        let is_whole = forward.has_size_of(&self.forward) && function.has_size_of(&self.function);
        if used.is_all() && inputs.is_all() && is_whole {
            return None;
        }
        let (forward, function) = (forward.with_inputs(&inputs), function.with_inputs(&inputs));
        let (forward, function) = (Arc::new(forward), Arc::new(function));
        Some(Pruned {
            primitive: Arc::new(RematOpt { name: self.name.clone(), forward, function }),
            operands: inputs.positions(),
            results: used.positions(),
        })
    }

    fn with_programs(&self, programs: Vec<Arc<Program>>) -> Option<Arc<dyn Primitive>> {
        let [forward, function] = <[_; 2]>::try_from(programs).ok()?;
        Some(Arc::new(RematOpt { name: self.name.clone(), forward, function }))
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        Ok(passes::eval(&self.forward, operands))
    }
}

pub(in crate::control_flow) fn make(
    params: serde_json::Value,
    programs: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    #[derive(Deserialize)]
    struct Parameters {
        name: String,
    }
    let Parameters { name } = parse::parameters(params)?;
    let [forward, function] = parse::exact("remat_opt", programs)?.map(Arc::new);
    Ok(Arc::new(RematOpt { name, forward, function }))
}

pub(in crate::control_flow) fn exemplars() -> Vec<Exemplar> {
    // Derivative laws run in f64, and the types of a program are fixed.
    [DType::F32, DType::F64]
        .map(|dtype| {
            let avals = || [Aval::new(dtype, [2, 3]), Aval::new(dtype, [2, 3])];
            let forward = trace_rules(avals(), |x| vec![&x[0] * &sin(&x[1]), cos(&x[1])]);
            let function = trace_rules(avals(), |x| vec![&x[0] * &sin(&x[1])]);
            let (forward, function) = (Arc::new(forward), Arc::new(function));
            let primitive = RematOpt { name: "f".into(), forward, function };
            let sample = || Sample::uniform(dtype, [2, 3], -2.0, 2.0);
            Exemplar::new(primitive, [sample(), sample()])
        })
        .into()
}
