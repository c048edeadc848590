//! The functions `custom_linear_solve` and `custom_linear_solve_aux`.

use super::{LinearSolve, LinearSystem};
use crate::control_flow::closure::{CallSite, Closure, close};
use crate::control_flow::custom::held_function::expect_types;
use crate::control_flow::derive::avals_of;
use crate::core::{Array, Loc, Program, RuleError, trace};
use crate::transforms::linear_transpose;
use crate::transforms::staging::staged;
use crate::tree::{Tree, leaves_of, rebuild};
use std::sync::Arc;

/// A function that solves a system. It takes a function and a right-hand side, and returns the
/// argument for which the function has that value, or a pair of that and auxiliary values.
pub type Solver<'a, T, O = T> = &'a dyn Fn(&dyn Fn(&T) -> T, &T) -> O;

/// The solver of the transposed system, which reverse mode uses.
#[derive(Clone, Copy, Default)]
pub enum TransposeSolve<'a, T> {
    /// None: reverse mode is an error.
    #[default]
    Unknown,
    /// The solver of the system itself, which is symmetric.
    Symmetric,
    /// A function for the transposed system. The linear function that it receives is the transpose.
    By(Solver<'a, T>),
}

impl<T> std::fmt::Debug for TransposeSolve<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            TransposeSolve::Unknown => "Unknown",
            TransposeSolve::Symmetric => "Symmetric",
            TransposeSolve::By(_) => "By(<closure>)",
        })
    }
}

/// Returns the `x` with `matvec(x) = b` that `solve` computes. `solve` is not differentiated, so it
/// may be a loop of unknown length or an iteration that stops early.
///
/// `matvec` is a linear function of a tree like `b`. It may capture arrays. Derivatives with
/// respect to them and to `b` are those of the system, and are computed by `solve` with other
/// right-hand sides. Reverse mode solves the transposed system with `transpose`. It is not checked
/// that `matvec(solve(matvec, b))` is `b`.
///
/// Throws `Tree` if `matvec` or a solver changes a type, `Op` (dtype) if a leaf of `b` is not
/// inexact, `Op` (unsupported) in reverse mode if `transpose` is `Unknown`, and whatever the
/// functions throw.
///
/// ```
/// use oxidax::prelude::*;
/// // A diagonal system, solved by division.
/// let d = Array::from_slice(&[2.0f32, 4.0], [2])?;
/// let b = Array::from_slice(&[1.0f32, 1.0], [2])?;
/// let loss = |d: &Array| {
///     let solve = |matvec: &dyn Fn(&Array) -> Array, b: &Array| b / matvec(&ones_like(b));
///     custom_linear_solve(|x: &Array| d * x, &b, solve, TransposeSolve::Symmetric).sum()
/// };
/// assert_eq!(grad(loss)(&d).to_vec::<f32>()?, [-0.25, -0.0625]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Reference: Blondel et al., "Efficient and modular implicit differentiation" (2022), section 2.
#[track_caller]
pub fn custom_linear_solve<T: Tree>(
    matvec: impl Fn(&T) -> T,
    b: &T,
    solve: impl Fn(&dyn Fn(&T) -> T, &T) -> T,
    transpose: TransposeSolve<'_, T>,
) -> T {
    let site = CallSite::new::<()>("custom_linear_solve", Loc::caller());
    let solve = |matvec: &dyn Fn(&T) -> T, b: &T| (solve(matvec, b), ());
    run(&site, &matvec, b, &solve, transpose).0
}

/// As [`custom_linear_solve`], for a `solve` that also returns auxiliary values such as the number
/// of steps. They are returned with the solution and have no derivative.
#[track_caller]
pub fn custom_linear_solve_aux<T: Tree, X: Tree>(
    matvec: impl Fn(&T) -> T,
    b: &T,
    solve: impl Fn(&dyn Fn(&T) -> T, &T) -> (T, X),
    transpose: TransposeSolve<'_, T>,
) -> (T, X) {
    let site = CallSite::new::<()>("custom_linear_solve_aux", Loc::caller());
    run(&site, &matvec, b, &solve, transpose)
}

fn run<T: Tree, X: Tree>(
    site: &CallSite,
    matvec: &dyn Fn(&T) -> T,
    b: &T,
    solve: Solver<'_, T, (T, X)>,
    transpose: TransposeSolve<'_, T>,
) -> (T, X) {
    let leaves = leaves_of(b);
    if let Some(leaf) = leaves.iter().find(|leaf| !leaf.dtype().is_inexact()) {
        let error = RuleError::dtype(format!(
            "the right-hand side must be float or complex, got {}",
            leaf.aval()
        ));
        trace::throw_rule(site.name, error, &[leaf.aval().clone()], site.loc);
    }
    let vectors = Vectors { site, b, leaves: &leaves };
    staged(|| {
        let forward = vectors.trace("matvec", |x| matvec(&x));
        let solver = vectors.trace_aux("solve", |b| solve(matvec, &b));
        let template = solver.template;
        let solver = TracedProgram { program: Arc::new(solver.program), captures: solver.captures };
        let vecmat = |ct: &T| linear_transpose(matvec, ct)(ct);
        let transposed = match transpose {
            TransposeSolve::Unknown => None,
            TransposeSolve::Symmetric => Some((forward.clone(), solver.clone())),
            TransposeSolve::By(transpose_solve) => Some((
                vectors.trace("vecmat", |ct| vecmat(&ct)),
                vectors.trace("transpose_solve", |ct| transpose_solve(&vecmat, &ct)),
            )),
        };
        let mut operands = Vec::new();
        let mut system = |matvec: TracedProgram, solve: TracedProgram| {
            operands.extend(matvec.captures);
            operands.extend(solve.captures);
            LinearSystem { matvec: matvec.program, solve: solve.program }
        };
        let forward = system(forward, solver);
        let transposed = transposed.map(|(vecmat, solve)| system(vecmat, solve));
        operands.extend(leaves.iter().cloned());
        let primitive = LinearSolve { forward, transposed };
        let operands: Vec<&Array> = operands.iter().collect();
        let outputs = site.loc.scope(|| trace::bind(primitive, &operands));
        rebuild(&template, outputs)
    })
}

/// A program and the arrays it captures.
#[derive(Clone)]
struct TracedProgram {
    program: Arc<Program>,
    captures: Vec<Array>,
}

/// The vectors of the system, which have the structure and types of `b`.
struct Vectors<'a, T> {
    site: &'a CallSite,
    b: &'a T,
    leaves: &'a [Array],
}

impl<T: Tree> Vectors<'_, T> {
    /// Traces a function from a vector to a vector.
    fn trace(&self, name: &str, f: impl Fn(T) -> T) -> TracedProgram {
        let closure = self.trace_aux(name, |x| (f(x), ()));
        TracedProgram { program: Arc::new(closure.program), captures: closure.captures }
    }

    /// Traces a function from a vector to a vector and auxiliary values.
    fn trace_aux<X: Tree>(&self, name: &str, f: impl Fn(T) -> (T, X)) -> Closure<(T, X)> {
        let scope = format!("{}({name})", self.site.name);
        close(scope, avals_of(self.leaves), |leaves| {
            let result = f(rebuild(self.b, leaves));
            let role = format!("{}: the result of `{name}`", self.site.name);
            expect_types(&role, self.b, &result.0, self.site.loc);
            result
        })
    }
}
