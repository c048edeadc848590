//! `linear_call`: a linear function with a user-defined transpose.

use super::call::expect_operands;
use super::closure::throw_tree;
use super::derive::{avals_of, batch_front, mapped_of};
use super::parse;
use crate::core::varying::joint;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, Exemplar, HigherOrder, JvpResult,
    Known, Loc, LowerCtx, Marks, Operand, Primitive, Program, ProgramInput, Pruned, RuleError,
    RuleResult, RunCount, Sample, SplitEqn, Spmd, Tangent, Used, Varying, bind,
};
use crate::ensure_shape;
use crate::passes;
use crate::primitives::rules::{batch_at_front, move_axis};
use crate::stablehlo::Value;
use crate::transforms::staging::{trace_function, trace_rules};
use crate::tree::{Arg, Difference, Function, Tree, TreeDef, leaves_of, rebuild};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Applies a linear program with a user-defined transpose.
///
/// | | |
/// |-|-|
/// | operands   | residuals, then the operands in which the program is linear |
/// | results    | those of the program |
/// | lowering   | a call of a private function |
/// | derivative | linear in the operands after the residuals, which have no derivative; the transpose applies the other program |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct LinearCall {
    /// The name of the function, for printing.
    pub name: String,
    /// The number of operands that are residuals.
    pub n_residuals: usize,
    /// Maps the residuals and the linear operands to the results.
    #[serde(skip)]
    pub program: Arc<Program>,
    /// Maps the residuals and cotangents of the results to cotangents of the linear operands.
    #[serde(skip)]
    pub transposed: Arc<Program>,
}

impl Primitive for LinearCall {
    fn name(&self) -> &'static str {
        "linear_call"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let results = expect_operands(&self.name, &self.program, operands)?;
        let residuals = &operands[..self.n_residuals.min(operands.len())];
        let inputs = [residuals, &results[..]].concat();
        let cotangents = expect_operands(&self.name, &self.transposed, &inputs)?;
        let linear = &operands[residuals.len()..];
        ensure_shape!(
            cotangents.len() == linear.len()
                && cotangents.iter().zip(linear).all(|(a, b)| a.same_type(b)),
            "the transpose of `{}` does not give the types of its linear operands",
            self.name
        );
        Ok(results)
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (residuals, linear) = tangents.split_at(self.n_residuals);
        if residuals.iter().any(|tangent| !tangent.is_zero()) {
            return Err(RuleError::unsupported(format!(
                "a residual of `{}`, or an array that it captures, has a derivative",
                self.name
            ))
            .help("`stop_gradient` it, or make it one of the linear arguments"));
        }
        let outputs = bind(self.clone(), &primals.iter().collect::<Vec<_>>());
        let dense: Vec<Array> = linear.iter().map(Tangent::to_dense).collect();
        let operands: Vec<&Array> = primals[..self.n_residuals].iter().chain(&dense).collect();
        let tangents = bind(self.clone(), &operands);
        Ok((outputs, tangents.into_iter().map(Tangent::Dense).collect()))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let n = self.n_residuals;
        let mut moved = Vec::with_capacity(operands.len());
        for (x, &position) in operands[..n].iter().zip(axes) {
            moved.push(position.map_or(x.clone(), |position| move_axis(x, position, 0)));
        }
        // Linear operands and results are all batched, so that both programs agree.
        moved.extend(batch_at_front(&operands[n..], &axes[n..], axis));
        let batched = |program: &Arc<Program>| {
            let linear = Marks::all(program.inputs().len() - n);
            let mapped = mapped_of(&axes[..n]).concat(&linear);
            let required = Marks::all(program.outputs().len());
            batch_front(program, &mapped, &required, axis).program
        };
        let (program, transposed) = (batched(&self.program), batched(&self.transposed));
        let call = LinearCall { program, transposed, ..self.clone() };
        let outputs = bind(call, &moved.iter().collect::<Vec<_>>());
        let axes = vec![Some(0); outputs.len()];
        Ok(Batched { outputs, axes })
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        ctx.call(&self.program, &self.name, operands)
    }

    fn cost(&self, _: &[Aval], _: &[Aval]) -> Cost {
        passes::cost(&self.program)
    }

    fn effects(&self) -> Effects {
        self.program.effects()
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let (residuals, linear) = operands.split_at(self.n_residuals);
        let residuals: Option<Vec<Array>> = residuals.iter().map(|x| x.known().cloned()).collect();
        let residuals = residuals.ok_or_else(|| RuleError::not_linear("linear_call"))?;
        let cts: Vec<Array> = cts.iter().map(Tangent::to_dense).collect();
        let arguments: Vec<&Array> = residuals.iter().chain(&cts).collect();
        let (program, transposed) = (self.transposed.clone(), self.program.clone());
        let pulled = bind(LinearCall { program, transposed, ..self.clone() }, &arguments);
        let mut operand_cts = vec![None; residuals.len()];
        for (operand, ct) in linear.iter().zip(pulled) {
            operand_cts.push(operand.is_linear().then_some(Tangent::Dense(ct)));
        }
        Ok(operand_cts)
    }

    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        Some(self)
    }

    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for LinearCall {
    fn result_varying(&self, operands: &[Aval], results: &[Aval]) -> Option<Vec<Varying>> {
        Some(vec![joint(operands); results.len()])
    }
}

impl HigherOrder for LinearCall {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        vec![("program", &self.program), ("transposed", &self.transposed)]
    }

    fn run_counts(&self, _: &[Aval], _: &[Aval]) -> Vec<RunCount> {
        vec![RunCount::Times(1), RunCount::Never]
    }

    /// Returns `None`: the function and its transpose belong together.
    fn split(&self, _: &Marks<Known>) -> Option<SplitEqn> {
        None
    }

    /// Returns `None`: all results are computed together.
    fn prune(&self, _: &Marks<Used>) -> Option<Pruned> {
        None
    }

    fn with_programs(&self, programs: Vec<Arc<Program>>) -> Option<Arc<dyn Primitive>> {
        let [program, transposed] = <[_; 2]>::try_from(programs).ok()?;
        Some(Arc::new(LinearCall { program, transposed, ..self.clone() }))
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        Ok(passes::eval(&self.program, operands))
    }
}

/// Applies `fun` to residuals and linear arguments. Its transpose is `fun_transpose`, which takes
/// the residuals and cotangents of the results, and returns cotangents of the linear arguments.
///
/// `fun` must be linear in its second argument, and `fun_transpose` must be its transpose. This is
/// not checked. Forward mode applies `fun` to tangents, reverse mode applies `fun_transpose`, whose
/// transpose is `fun`. Both are traced at the call. Residuals and captured arrays have no
/// derivative.
///
/// Throws `Tree` if `fun_transpose` does not give the types of the linear arguments, `Op`
/// (unsupported) for a derivative by a residual, and whatever the functions throw.
///
/// ```
/// use oxidax::prelude::*;
/// // Divides. The transpose is rounded to two digits.
/// let divide = |x: &Array| {
///     let divide = |by: Array, x: Array| x / by;
///     let rounded = |by: Array, ct: Array| round(&(ct / by * 100.0)) / 100.0;
///     linear_call(divide, rounded, scalar(3.0), x)
/// };
/// assert_eq!(divide(&scalar(9.0)).item::<f32>()?, 3.0);
/// assert_eq!(grad(divide)(&scalar(9.0)).item::<f32>()?, 0.33);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn linear_call<R, X, Y, MF, MT, F, T>(
    fun: F,
    fun_transpose: T,
    residuals: impl Arg<R>,
    linear: impl Arg<X>,
) -> Y
where
    R: Tree,
    X: Tree,
    Y: Tree,
    F: Function<(R, X), MF, Output = Y>,
    T: Function<(R, Y), MT, Output = X>,
{
    let loc = Loc::caller();
    let (residuals, linear) = (&*residuals.hold(), &*linear.hold());
    let (residual_leaves, linear_leaves) = (leaves_of(residuals), leaves_of(linear));
    let n = residual_leaves.len();
    let residual_avals = avals_of(&residual_leaves);
    let scope = format!("linear_call({})", fun.name());
    let inputs = [&residual_avals[..], &avals_of(&linear_leaves)].concat();
    let forward = loc.scope(|| {
        trace_function(scope.clone(), inputs, |mut leaves| {
            let x = leaves.split_off(n);
            fun.apply((rebuild(residuals, leaves), rebuild(linear, x)))
        })
    });
    let n_results = leaves_of(&forward.template).len();
    let inputs = [&residual_avals[..], &forward.program.avals_out()].concat();
    let backward = loc.scope(|| {
        trace_function(format!("{scope}, transpose"), inputs, |mut leaves| {
            let cts = leaves.split_off(n);
            fun_transpose.apply((rebuild(residuals, leaves), rebuild(&forward.template, cts)))
        })
    });
    expect_cotangents(linear, &linear_leaves, &backward.template, loc);
    // Captures are residuals of both programs: those of the function, then those of the transpose.
    let captures = [&forward.captures[..], &backward.captures[..]].concat();
    let taken = 0..forward.captures.len();
    let program = with_captures(&forward.program, n, linear_leaves.len(), taken, &captures);
    let taken = forward.captures.len()..captures.len();
    let transposed = with_captures(&backward.program, n, n_results, taken, &captures);
    let call = LinearCall {
        name: fun.name(),
        n_residuals: n + captures.len(),
        program: Arc::new(program),
        transposed: Arc::new(transposed),
    };
    let operands: Vec<&Array> =
        residual_leaves.iter().chain(&captures).chain(&linear_leaves).collect();
    let outputs = loc.scope(|| bind(call, &operands));
    rebuild(&forward.template, outputs)
}

/// Throws `Tree` if the results of a transpose do not have the types of the linear arguments.
fn expect_cotangents<X: Tree>(linear: &X, leaves: &[Array], result: &X, loc: Loc) {
    let structure = TreeDef::of(linear);
    let help = "return a tree like the linear arguments".to_string();
    if let Some(Difference { path, a, b }) = structure.difference(&TreeDef::of(result)) {
        let message = format!("linear_call: the transpose gives {b} here, the argument has {a}");
        throw_tree(&path, message, Some(help), loc);
    }
    let pairs = structure.paths().iter().zip(leaves.iter().zip(leaves_of(result)));
    for (path, (leaf, ct)) in pairs {
        if !leaf.aval().same_type(ct.aval()) {
            let (leaf, ct) = (leaf.aval(), ct.aval());
            let message =
                format!("linear_call: the transpose gives {ct} here, the argument is {leaf}");
            throw_tree(path, message, Some(help), loc);
        }
    }
}

/// Returns a program that takes `n` residuals, all captures, then `n_linear` linear operands. It
/// takes `n` residuals, the linear operands, then the captures in `own`.
fn with_captures(
    program: &Program,
    n: usize,
    n_linear: usize,
    own: std::ops::Range<usize>,
    captures: &[Array],
) -> Program {
    let mut inputs: Vec<ProgramInput> = (0..n).map(ProgramInput::Existing).collect();
    for (index, capture) in captures.iter().enumerate() {
        inputs.push(match own.contains(&index) {
            true => ProgramInput::Existing(n + n_linear + index - own.start),
            false => ProgramInput::Unused(capture.aval().clone()),
        });
    }
    inputs.extend((n..n + n_linear).map(ProgramInput::Existing));
    program.with_inputs(&inputs)
}

pub(super) fn make(
    params: serde_json::Value,
    programs: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    #[derive(Deserialize)]
    struct Parameters {
        name: String,
        n_residuals: usize,
    }
    let Parameters { name, n_residuals } = parse::parameters(params)?;
    let [program, transposed] = parse::exact("linear_call", programs)?.map(Arc::new);
    Ok(Arc::new(LinearCall { name, n_residuals, program, transposed }))
}

pub(super) fn exemplars() -> Vec<Exemplar> {
    [DType::F32, DType::F64]
        .map(|dtype| {
            let (factor, vector) = (Aval::new(dtype, [3]), Aval::new(dtype, [2, 3]));
            let scaled = |x: &[Array]| {
                let factor = crate::primitives::broadcast_to(&x[0], x[1].shape());
                vec![&x[1] * factor]
            };
            let program = Arc::new(trace_rules([factor.clone(), vector.clone()], scaled));
            let transposed = program.clone();
            let call = LinearCall { name: "f".into(), n_residuals: 1, program, transposed };
            let sample = |shape: &[usize]| Sample::uniform(dtype, shape, -2.0, 2.0);
            // Residuals have no derivative.
            Exemplar::new(call, [sample(&[3]), sample(&[2, 3])]).without_derivative()
        })
        .into()
}
