//! The functions that bind `linear_solve`.

use super::{LinearSolve, LinearSystem};
use crate::control_flow::closure::{Caller, Closure, avals_of, close};
use crate::control_flow::custom::held::expect_types;
use crate::core::{Array, Loc, RuleError, trace};
use crate::transforms::linear_transpose;
use crate::transforms::staging::staged;
use crate::tree::{Tree, leaves_of, rebuild};
use std::sync::Arc;

/// A function that solves: given a linear function and a right-hand side, the argument for which the function
/// gives it, or that and something besides.
pub type Solver<'a, T, O = T> = &'a dyn Fn(&dyn Fn(&T) -> T, &T) -> O;

/// How the transposed system is solved, which reverse mode does.
#[derive(Clone, Copy, Default)]
pub enum TransposeSolve<'a, T> {
    /// Not at all: reverse mode is refused.
    #[default]
    Unknown,
    /// The system is its own transpose, and is solved as it is.
    Symmetric,
    /// By this function; the linear function that it is given is the transpose.
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

/// The `x` with `matvec(x) = b`, which `solve` finds, by whatever means: a loop that cannot be
/// differentiated, an iteration that stops early.
///
/// `matvec` is a linear function of a tree like `b`; it may capture arrays, and derivatives with respect
/// to them and to `b` are those of the system: `solve` is not differentiated, but used again, with other
/// right-hand sides. Reverse mode solves the transposed system as `transpose` says. That
/// `matvec(solve(matvec, b))` is `b` is taken on trust.
///
/// Throws `Tree` if `matvec` or a solver changes a type, `Op` (dtype) if a leaf of `b` is not inexact,
/// `Op` (unsupported) in reverse mode if `transpose` is `Unknown`, and whatever the functions throw.
///
/// ```no_run
/// use oxidax::prelude::*;
/// // Conjugate gradients would do; a diagonal is divided by.
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
    let caller = Caller::of::<()>("custom_linear_solve", Loc::caller());
    let solve = |matvec: &dyn Fn(&T) -> T, b: &T| (solve(matvec, b), ());
    run(&caller, &matvec, b, &solve, transpose).0
}

/// As [`custom_linear_solve`], where `solve` gives something besides: how many steps it took, what is left of
/// the error. It comes back with the solution and has no derivative.
#[track_caller]
pub fn custom_linear_solve_aux<T: Tree, X: Tree>(
    matvec: impl Fn(&T) -> T,
    b: &T,
    solve: impl Fn(&dyn Fn(&T) -> T, &T) -> (T, X),
    transpose: TransposeSolve<'_, T>,
) -> (T, X) {
    let caller = Caller::of::<()>("custom_linear_solve_aux", Loc::caller());
    run(&caller, &matvec, b, &solve, transpose)
}

fn run<T: Tree, X: Tree>(
    caller: &Caller,
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
        trace::throw_rule(caller.name, error, &[leaf.aval().clone()], caller.loc);
    }
    let system = System { caller, b, leaves: &leaves };
    staged(|| {
        let forward = system.closed("matvec", |x| matvec(&x));
        let solved = system.closed_with("solve", |b| solve(matvec, &b), |(x, _)| x);
        let template = rebuild(&solved.template, leaves_of(&solved.template));
        let vecmat = |ct: &T| linear_transpose(matvec, ct, ct);
        let back = match transpose {
            TransposeSolve::Unknown => None,
            TransposeSolve::Symmetric => Some((forward.again(), solved.again())),
            TransposeSolve::By(by) => Some((
                system.closed("vecmat", |ct| vecmat(&ct)).part(),
                system.closed("transpose_solve", |ct| by(&vecmat, &ct)).part(),
            )),
        };
        let (forward, solved) = (forward.part(), solved.part());
        let mut operands = [forward.captures, solved.captures].concat();
        let side = |matvec, solve| LinearSystem { matvec, solve };
        let transposed = back.map(|(vecmat, solve)| {
            operands.extend(vecmat.captures);
            operands.extend(solve.captures);
            side(vecmat.program, solve.program)
        });
        let primitive = LinearSolve { forward: side(forward.program, solved.program), transposed };
        operands.extend(leaves.iter().cloned());
        let operands: Vec<&Array> = operands.iter().collect();
        let outputs = caller.loc.scope(|| trace::bind(primitive, &operands));
        rebuild(&template, outputs)
    })
}

/// The system as the user wrote it.
struct System<'a, T> {
    caller: &'a Caller,
    b: &'a T,
    leaves: &'a [Array],
}

/// A function's program and what it captured.
#[derive(Clone)]
struct Part {
    program: Arc<crate::core::Program>,
    captures: Vec<Array>,
}

impl<O> Closure<O> {
    fn part(self) -> Part {
        Part { program: Arc::new(self.program), captures: self.captures }
    }

    fn again(&self) -> Part {
        Part { program: Arc::new(self.program.clone()), captures: self.captures.clone() }
    }
}

impl<T: Tree> System<'_, T> {
    /// Traces a function from a vector to one.
    fn closed(&self, name: &str, f: impl Fn(T) -> T) -> Closure<T> {
        self.closed_with(name, f, |x| x)
    }

    /// The same where the vector is part of what the function gives.
    fn closed_with<O: Tree>(
        &self,
        name: &str,
        f: impl Fn(T) -> O,
        vector: impl Fn(&O) -> &T,
    ) -> Closure<O> {
        let scope = format!("{}({name})", self.caller.name);
        close(scope, avals_of(self.leaves), |leaves| {
            let found = f(rebuild(self.b, leaves));
            let what = format!("{}: what `{name}` gives", self.caller.name);
            expect_types(&what, self.b, vector(&found), self.caller.loc);
            found
        })
    }
}
