//! `linear_solve`: the solution of a linear system by a user-defined function. Its derivative is
//! that of the system; the function itself is not differentiated.

mod exemplars;
mod function;

pub(super) use exemplars::exemplars;
pub use function::{Solver, TransposeSolve, custom_linear_solve, custom_linear_solve_aux};

use super::call::expect_operands;
use super::derive::{batch_front, mapped_of};
use crate::core::varying::joint;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, Effects, Error, HigherOrder, JvpResult, Known, LowerCtx,
    Marks, Operand, Primitive, Program, Pruned, RuleError, RuleResult, RunCount, SplitEqn, Spmd,
    Tangent, Used, Varying, bind,
};
use crate::passes;
use crate::primitives::neg;
use crate::primitives::rules::{batch_at_front, move_axis};
use crate::stablehlo::Value;
use crate::transforms::jvp::jvp_program;
use crate::{ensure, ensure_shape};
use serde::Serialize;
use std::sync::Arc;

/// A linear map and a program that solves systems with it. Both take their captures, then a vector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LinearSystem {
    /// Maps a vector to its image.
    pub matvec: Arc<Program>,
    /// Maps a right-hand side to the vector whose image it is, and auxiliary results.
    pub solve: Arc<Program>,
}

/// Solves a linear system by a program.
///
/// | | |
/// |-|-|
/// | operands   | the captures of the programs in their order; then the right-hand side, `b` |
/// | results    | `x`, of the types of `b`, with `matvec(x) = b`; then auxiliary results of the program `solve` |
/// | lowering   | a call of `solve` as a private function |
/// | derivative | `solve(db − dmatvec(x))`; the transpose solves the transposed system. Auxiliary results have none |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct LinearSolve {
    /// The system.
    #[serde(skip)]
    pub forward: LinearSystem,
    /// The transposed system, for reverse mode.
    #[serde(skip)]
    pub transposed: Option<LinearSystem>,
}

/// The operands of a [`LinearSolve`] in groups.
struct OperandGroups<'a, T> {
    /// The captures of each program.
    captured: Vec<&'a [T]>,
    /// The right-hand side.
    b: &'a [T],
}

impl LinearSolve {
    /// Returns the number of leaves of a vector.
    fn n(&self) -> usize {
        self.forward.matvec.outputs().len()
    }

    fn programs(&self) -> impl Iterator<Item = &Arc<Program>> {
        let systems = std::iter::once(&self.forward).chain(&self.transposed);
        systems.flat_map(|system| [&system.matvec, &system.solve])
    }

    /// Creates the primitive from its programs, of which there are two or four.
    fn from_programs(programs: Vec<Arc<Program>>) -> Option<LinearSolve> {
        let mut programs = programs.into_iter();
        let forward = LinearSystem { matvec: programs.next()?, solve: programs.next()? };
        let transposed = programs.next().zip(programs.next());
        let transposed = transposed.map(|(matvec, solve)| LinearSystem { matvec, solve });
        Some(LinearSolve { forward, transposed })
    }

    fn groups<'a, T>(&self, operands: &'a [T]) -> OperandGroups<'a, T> {
        let n = self.n();
        let mut rest = operands;
        let mut captured = Vec::new();
        for program in self.programs() {
            let (own, others) = rest.split_at(program.inputs().len() - n);
            captured.push(own);
            rest = others;
        }
        OperandGroups { captured, b: rest }
    }

    /// Selects the operands of the program `solve`.
    fn solver_inputs<T: Clone>(&self, operands: &[T]) -> Vec<T> {
        let groups = self.groups(operands);
        [groups.captured[1], groups.b].concat()
    }

    /// Returns `db − dmatvec(x)`.
    fn residual_tangents(
        &self,
        x: &[Array],
        primals: &OperandGroups<'_, Array>,
        tangents: &OperandGroups<'_, Tangent>,
    ) -> Vec<Tangent> {
        if tangents.captured[0].iter().all(Tangent::is_zero) {
            return tangents.b.to_vec();
        }
        let dx: Vec<Tangent> = x.iter().map(Tangent::zero_like).collect();
        let (_, dmatvec) = jvp_program(
            &self.forward.matvec,
            &[primals.captured[0], x].concat(),
            &[tangents.captured[0], &dx[..]].concat(),
        );
        let pairs = tangents.b.iter().zip(&dmatvec);
        pairs.map(|(db, dmatvec)| db.add(&dmatvec.map(db.aval(), |x| neg(x)))).collect()
    }
}

impl Primitive for LinearSolve {
    fn name(&self) -> &'static str {
        "linear_solve"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let n = self.n();
        let n_captured: usize = self.programs().map(|program| program.inputs().len() - n).sum();
        ensure!(
            operands.len() == n_captured + n,
            "takes {n_captured} captured operands and {n} of the right-hand side, got {}",
            operands.len()
        );
        let groups = self.groups(operands);
        for (program, captured) in self.programs().zip(&groups.captured) {
            let outputs =
                expect_operands("linear_solve", program, &[*captured, groups.b].concat())?;
            for (index, (output, b)) in outputs.iter().zip(groups.b).enumerate() {
                ensure_shape!(
                    output.same_type(b),
                    "a program of the system gives {output} at {index}, the right-hand side is {b}"
                );
            }
        }
        Ok(self.forward.solve.avals_out())
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let n = self.n();
        let outputs = bind(self.clone(), &primals.iter().collect::<Vec<_>>());
        let residuals =
            self.residual_tangents(&outputs[..n], &self.groups(primals), &self.groups(tangents));
        let mut output_tangents: Vec<Tangent> = outputs.iter().map(Tangent::zero_like).collect();
        if residuals.iter().any(|tangent| !tangent.is_zero()) {
            let residuals: Vec<Array> = residuals.iter().map(Tangent::to_dense).collect();
            let captured = &primals[..primals.len() - n];
            let operands: Vec<&Array> = captured.iter().chain(&residuals).collect();
            let dx = bind(self.clone(), &operands).into_iter().take(n).map(Tangent::Dense);
            output_tangents.splice(..n, dx);
        }
        Ok((outputs, output_tangents))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let n = self.n();
        let n_captured = operands.len() - n;
        let mut moved = Vec::with_capacity(operands.len());
        for (x, &position) in operands[..n_captured].iter().zip(axes) {
            moved.push(position.map_or(x.clone(), |position| move_axis(x, position, 0)));
        }
        // Every vector is batched, so that the programs agree on which values are.
        moved.extend(batch_at_front(&operands[n_captured..], &axes[n_captured..], axis));
        let captured = self.groups(axes).captured;
        let mut programs = Vec::new();
        for (program, captured) in self.programs().zip(captured) {
            let mapped = mapped_of(captured).concat(&Marks::all(n));
            let required = Marks::all(program.outputs().len());
            programs.push(batch_front(program, &mapped, &required, axis).program);
        }
        let batched = LinearSolve::from_programs(programs).expect("there is a forward system");
        let outputs = bind(batched, &moved.iter().collect::<Vec<_>>());
        let axes = vec![Some(0); outputs.len()];
        Ok(Batched { outputs, axes })
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        ctx.call(&self.forward.solve, "linear_solve", &self.solver_inputs(operands))
    }

    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        // Operands of the other programs exist too, although only derivatives use them.
        passes::cost(&self.forward.solve) + Cost::movement(operands, results)
    }

    fn effects(&self) -> Effects {
        self.forward.solve.effects()
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let n = self.n();
        let Some(transposed) = &self.transposed else {
            return Err(RuleError::unsupported(
                "reverse mode requires a solver of the transposed system",
            )
            .help("pass `TransposeSolve::By` or `TransposeSolve::Symmetric`"));
        };
        let (captured, b) = operands.split_at(operands.len() - n);
        let captured: Option<Vec<Array>> = captured.iter().map(|x| x.known().cloned()).collect();
        let captured = captured.ok_or_else(|| RuleError::not_linear(self.name()))?;
        if cts[n..].iter().any(|ct| !ct.is_zero()) {
            return Err(RuleError::unsupported("auxiliary results have no derivative"));
        }
        let solve_transposed =
            LinearSolve { forward: transposed.clone(), transposed: Some(self.forward.clone()) };
        let n_forward =
            self.forward.matvec.inputs().len() + self.forward.solve.inputs().len() - 2 * n;
        let (forward_captures, transposed_captures) = captured.split_at(n_forward);
        let cts: Vec<Array> = cts[..n].iter().map(Tangent::to_dense).collect();
        let arguments = transposed_captures.iter().chain(forward_captures).chain(&cts);
        let solved = bind(solve_transposed, &arguments.collect::<Vec<_>>());
        let mut operand_cts = vec![None; captured.len()];
        for (b, ct) in b.iter().zip(solved) {
            operand_cts.push(b.is_linear().then_some(Tangent::Dense(ct)));
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

impl Spmd for LinearSolve {
    fn result_varying(&self, operands: &[Aval], results: &[Aval]) -> Option<Vec<Varying>> {
        Some(vec![joint(operands); results.len()])
    }
}

impl HigherOrder for LinearSolve {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        let names = ["matvec", "solve", "vecmat", "transpose_solve"];
        names.into_iter().zip(LinearSolve::programs(self).map(|program| &**program)).collect()
    }

    /// Only `solve` runs. The other programs are used by derivatives.
    fn run_counts(&self, _: &[Aval], _: &[Aval]) -> Vec<RunCount> {
        vec![RunCount::Never, RunCount::Times(1), RunCount::Never, RunCount::Never]
    }

    /// Returns `None`: every part of `x` depends on all of `b`.
    fn split(&self, _: &Marks<Known>) -> Option<SplitEqn> {
        None
    }

    /// Returns `None`: all results are computed together.
    fn prune(&self, _: &Marks<Used>) -> Option<Pruned> {
        None
    }

    fn with_programs(&self, programs: Vec<Arc<Program>>) -> Option<Arc<dyn Primitive>> {
        Some(Arc::new(LinearSolve::from_programs(programs)?))
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        Ok(passes::eval(&self.forward.solve, &self.solver_inputs(operands)))
    }
}

pub(super) fn make(_: serde_json::Value, programs: Vec<Program>) -> RuleResult<Arc<dyn Primitive>> {
    let n = programs.len();
    ensure!(n == 2 || n == 4, "linear_solve holds two or four programs, got {n}");
    let programs = programs.into_iter().map(Arc::new).collect();
    let solve = LinearSolve::from_programs(programs).expect("there are at least two programs");
    Ok(Arc::new(solve))
}
