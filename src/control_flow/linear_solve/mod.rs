//! `linear_solve`: the solution of a linear system that a user's function finds, differentiated by the
//! system and not through the function.

mod exemplars;
mod function;

pub(super) use exemplars::exemplars;
pub use function::{Solver, TransposeSolve, custom_linear_solve, custom_linear_solve_aux};

use super::call::expect_operands;
use super::masked::batch_of;
use crate::core::varying::joint;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, Effects, Error, HigherOrder, JvpResult, LowerCtx,
    Operand, Primitive, Program, Pruned, RuleError, RuleResult, RunCount, Split, Spmd, Tangent,
    Varying, bind,
};
use crate::passes;
use crate::primitives::neg;
use crate::primitives::rules::{add_tangents, batch_at, dense, move_axis};
use crate::stablehlo::Value;
use crate::transforms::jvp::jvp_program;
use crate::{ensure, ensure_shape};
use serde::Serialize;
use std::sync::Arc;

/// A linear map and a program that solves systems with it. Both take what they captured, then a vector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LinearSystem {
    /// From a vector to its image.
    pub matvec: Arc<Program>,
    /// From a right-hand side to the vector whose image it is, and auxiliary results.
    pub solve: Arc<Program>,
}

/// Solves a linear system by a program, and knows the system.
///
/// | | |
/// |-|-|
/// | operands   | what the programs captured, in their order; then the right-hand side, `b` |
/// | results    | `x`, of `b`'s types, with `matvec(x) = b`; then auxiliary results of the program that solves |
/// | lowering   | a call of that program as a private function |
/// | derivative | `solve(db − dmatvec(x))`; transposed, the other side solves. Auxiliary results have none |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct LinearSolve {
    /// The system.
    #[serde(skip)]
    pub forward: LinearSystem,
    /// The transposed system, for reverse mode.
    #[serde(skip)]
    pub transposed: Option<LinearSystem>,
}

/// The operands of a [`LinearSolve`], apart.
struct Parts<'a, T> {
    /// What `matvec` and `solve` captured, of each side.
    captured: Vec<&'a [T]>,
    b: &'a [T],
}

impl LinearSolve {
    /// How many leaves a vector has.
    fn n(&self) -> usize {
        self.forward.matvec.outputs().len()
    }

    fn each(&self) -> impl Iterator<Item = &Arc<Program>> {
        let sides = std::iter::once(&self.forward).chain(&self.transposed);
        sides.flat_map(|side| [&side.matvec, &side.solve])
    }

    fn parts<'a, T>(&self, operands: &'a [T]) -> Parts<'a, T> {
        let n = self.n();
        let mut rest = operands;
        let captured = self.each().map(|program| {
            let (own, others) = rest.split_at(program.inputs().len() - n);
            rest = others;
            own
        });
        Parts { captured: captured.collect(), b: rest }
    }

    /// The operands of the program that solves.
    fn solver<T: Clone>(&self, operands: &[T]) -> Vec<T> {
        let parts = self.parts(operands);
        [parts.captured[1], parts.b].concat()
    }
}

impl Primitive for LinearSolve {
    fn name(&self) -> &'static str {
        "linear_solve"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let n = self.n();
        let wanted: usize = self.each().map(|program| program.inputs().len() - n).sum();
        ensure!(
            operands.len() == wanted + n,
            "takes {wanted} captured operands and {n} of the right-hand side, got {}",
            operands.len()
        );
        let parts = self.parts(operands);
        for (program, captured) in self.each().zip(&parts.captured) {
            let taken = [*captured, parts.b].concat();
            let given = expect_operands("linear_solve", program, &taken)?;
            for (at, (given, b)) in given.iter().zip(parts.b).enumerate() {
                ensure_shape!(
                    given.same_type(b),
                    "a program of the system gives {given} at {at}, the right-hand side is {b}"
                );
            }
        }
        Ok(self.forward.solve.avals_out())
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let n = self.n();
        let outputs = bind(self.clone(), &primals.iter().collect::<Vec<_>>());
        let (given, varied) = (self.parts(primals), self.parts(tangents));
        let mut right: Vec<Tangent> = varied.b.to_vec();
        if varied.captured[0].iter().any(|tangent| !tangent.is_zero()) {
            let x = &outputs[..n];
            let still: Vec<Tangent> = x.iter().map(Tangent::zero_like).collect();
            let (_, moved) = jvp_program(
                &self.forward.matvec,
                &[given.captured[0], x].concat(),
                &[varied.captured[0], &still[..]].concat(),
            );
            right = right
                .iter()
                .zip(&moved)
                .map(|(db, moved)| add_tangents(db, &moved.map(db.aval(), neg)))
                .collect();
        }
        let mut dx: Vec<Tangent> = outputs.iter().map(Tangent::zero_like).collect();
        if right.iter().any(|tangent| !tangent.is_zero()) {
            let right: Vec<Array> = right.iter().map(dense).collect();
            let captured = &primals[..primals.len() - n];
            let solved = bind(self.clone(), &captured.iter().chain(&right).collect::<Vec<_>>());
            let found = solved.into_iter().take(n).map(Tangent::Dense);
            dx.splice(..n, found);
        }
        Ok((outputs, dx))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let n = self.n();
        let (captured, b) = operands.split_at(operands.len() - n);
        // Every vector is mapped, so that all programs agree on which are.
        let mut placed: Vec<Array> = captured
            .iter()
            .zip(axes)
            .map(|(x, &at)| at.map_or(x.clone(), |at| move_axis(x, at, 0)))
            .collect();
        let b_axes = &axes[captured.len()..];
        placed.extend(b.iter().zip(b_axes).map(|(x, &at)| batch_at(x, at, 0, axis)));
        let mapped: Vec<bool> = axes.iter().map(Option::is_some).collect();
        let marks = self.parts(&mapped).captured;
        let mut programs = self.each().zip(marks).map(|(program, captured)| {
            let mapped = [captured, &vec![true; n]].concat();
            batch_of(program, &mapped, &vec![true; program.outputs().len()], axis).program
        });
        let mut side = || Some(LinearSystem { matvec: programs.next()?, solve: programs.next()? });
        let batched =
            LinearSolve { forward: side().expect("there is a forward side"), transposed: side() };
        let outputs = bind(batched, &placed.iter().collect::<Vec<_>>());
        let axes = vec![Some(0); outputs.len()];
        Ok(Batched { outputs, axes })
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        ctx.call(&self.forward.solve, "linear_solve", &self.solver(operands))
    }

    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        // The operands of the other programs are there, if only for derivatives.
        passes::cost(&self.forward.solve) + Cost::movement(operands, results)
    }

    fn effects(&self) -> Effects {
        self.forward.solve.effects()
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let n = self.n();
        let Some(transposed) = &self.transposed else {
            return Err(RuleError::unsupported(
                "reverse mode solves the transposed system, and nobody said how",
            )
            .help("give `TransposeSolve::By` a function, or say `TransposeSolve::Symmetric`"));
        };
        let (captured, b) = operands.split_at(operands.len() - n);
        let known: Option<Vec<Array>> = captured.iter().map(|x| x.known().cloned()).collect();
        let known = known.ok_or_else(|| RuleError::not_linear(self.name()))?;
        if cts[n..].iter().any(|ct| !ct.is_zero()) {
            return Err(RuleError::unsupported("auxiliary results have no derivative"));
        }
        let other =
            LinearSolve { forward: transposed.clone(), transposed: Some(self.forward.clone()) };
        let n_forward =
            self.forward.matvec.inputs().len() + self.forward.solve.inputs().len() - 2 * n;
        let (of_forward, of_transposed) = known.split_at(n_forward);
        let cts: Vec<Array> = cts[..n].iter().map(dense).collect();
        let arguments = of_transposed.iter().chain(of_forward).chain(&cts);
        let solved = bind(other, &arguments.collect::<Vec<_>>());
        let of_b = b.iter().zip(solved);
        let of_b = of_b.map(|(b, ct)| b.is_linear().then_some(Tangent::Dense(ct)));
        Ok(vec![None; captured.len()].into_iter().chain(of_b).collect())
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
        names.into_iter().zip(self.each().map(|program| &**program)).collect()
    }

    /// The other programs are there for derivatives.
    fn run_counts(&self, _: &[Aval], _: &[Aval]) -> Vec<RunCount> {
        vec![RunCount::Never, RunCount::Times(1), RunCount::Never, RunCount::Never]
    }

    /// All of `b` is needed for any of `x`.
    fn split(&self, _: &[bool]) -> Option<Split> {
        None
    }

    fn prune(&self, _: &[bool]) -> Option<Pruned> {
        None
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        Ok(passes::eval(&self.forward.solve, &self.solver(operands)))
    }
}

pub(super) fn make(_: serde_json::Value, programs: Vec<Program>) -> RuleResult<Arc<dyn Primitive>> {
    let n = programs.len();
    ensure!(n == 2 || n == 4, "linear_solve holds two or four programs, got {n}");
    let mut programs = programs.into_iter().map(Arc::new);
    let mut side = || Some(LinearSystem { matvec: programs.next()?, solve: programs.next()? });
    let forward = side().expect("there are at least two programs");
    Ok(Arc::new(LinearSolve { forward, transposed: side() }))
}
