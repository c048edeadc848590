//! `custom_root`: a root computed by a user-defined function and differentiated by the implicit
//! function theorem.

use super::closure::{CallSite, Closure, close};
use super::custom::custom_jvp;
use super::custom::held_function::expect_types;
use super::derive::avals_of;
use super::linear_solve::Solver;
use crate::core::{Array, Loc, Program, Tangent};
use crate::passes;
use crate::primitives::{neg, zeros_like};
use crate::transforms::jvp::jvp_program;
use crate::transforms::linearize;
use crate::transforms::staging::staged;
use crate::tree::{Tree, leaves_of, rebuild};
use std::sync::Arc;

/// Returns the `x` with `f(x) = 0` that `solve` computes from `initial_guess`.
///
/// `f` maps a tree like the guess to another. It may capture arrays. Derivatives with respect to
/// them are those of the root, by the implicit function theorem. `solve` is not differentiated, so
/// it may be a loop of unknown length. The guess has no derivative.
///
/// `tangent_solve` takes `g`, which is `f` linearized at the root, and a `y`, and returns the `x`
/// with `g(x) = y`. It must be linear in `y` and differentiable. For a scalar use `y / g(1)`. For a
/// vector use [`custom_linear_solve`](super::custom_linear_solve), or a solve with the matrix
/// `jacfwd(g)`.
///
/// Throws `Tree` if a function changes a type, and whatever the functions throw.
///
/// ```
/// use oxidax::prelude::*;
/// // The square root as the root of x² − a, by Newton's method.
/// let root = |a: &Array| {
///     let f = |x: &Array| x * x - a;
///     let newton = |f: &dyn Fn(&Array) -> Array, x: &Array| {
///         fori_loop(0, 20, |_, x: Array| &x - f(&x) / (&x * 2.0), x)
///     };
///     let scalar = |g: &dyn Fn(&Array) -> Array, y: &Array| y / g(&ones_like(y));
///     custom_root(f, &ones_like(a), newton, scalar)
/// };
/// let a = Array::from_slice(&[4.0f32], [])?;
/// assert_eq!(grad(root)(&a).item::<f32>()?, 0.25);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Reference: Blondel et al., "Efficient and modular implicit differentiation" (2022), section 2.
#[track_caller]
pub fn custom_root<T: Tree>(
    f: impl Fn(&T) -> T,
    initial_guess: &T,
    solve: impl Fn(&dyn Fn(&T) -> T, &T) -> T,
    tangent_solve: impl Fn(&dyn Fn(&T) -> T, &T) -> T,
) -> T {
    let site = CallSite::new::<()>("custom_root", Loc::caller());
    let solve = |f: &dyn Fn(&T) -> T, guess: &T| (solve(f, guess), ());
    run(&site, &f, initial_guess, &solve, &tangent_solve).0
}

/// As [`custom_root`], for a `solve` that also returns auxiliary values such as the number of
/// steps. They are returned with the root and have no derivative.
#[track_caller]
pub fn custom_root_aux<T: Tree, X: Tree>(
    f: impl Fn(&T) -> T,
    initial_guess: &T,
    solve: impl Fn(&dyn Fn(&T) -> T, &T) -> (T, X),
    tangent_solve: impl Fn(&dyn Fn(&T) -> T, &T) -> T,
) -> (T, X) {
    let site = CallSite::new::<()>("custom_root_aux", Loc::caller());
    run(&site, &f, initial_guess, &solve, &tangent_solve)
}

/// The user's functions as programs that take their captures first.
struct Root {
    /// The function whose root is computed.
    f: Program,
    /// Maps the guess to the root and auxiliary results.
    solve: Program,
    /// Maps the root and a `y` to the `x` with `g(x) = y`.
    tangent_solve: Program,
    /// The number of leaves of a root.
    n: usize,
}

fn run<T: Tree, X: Tree>(
    site: &CallSite,
    f: &dyn Fn(&T) -> T,
    guess: &T,
    solve: Solver<'_, T, (T, X)>,
    tangent_solve: Solver<'_, T>,
) -> (T, X) {
    let leaves = leaves_of(guess);
    let (avals, n) = (avals_of(&leaves), leaves.len());
    let expect = |name: &str, result: &T| {
        let role = format!("{}: the result of `{name}`", site.name);
        expect_types(&role, guess, result, site.loc);
    };
    let scope = |name: &str| format!("{}({name})", site.name);
    staged(|| {
        let f_closure: Closure<T> = close(scope("f"), avals.clone(), |leaves| {
            let y = f(&rebuild(guess, leaves));
            expect("f", &y);
            y
        });
        let solve_closure = close(scope("solve"), avals.clone(), |leaves| {
            let result = solve(f, &rebuild(guess, leaves));
            expect("solve", &result.0);
            result
        });
        let both = [&avals[..], &avals].concat();
        let tangent_closure: Closure<T> = close(scope("tangent_solve"), both, |mut leaves| {
            let y = rebuild(guess, leaves.split_off(n));
            let (_, g) = linearize(f, rebuild(guess, leaves));
            let x = tangent_solve(&|x: &T| g.apply(x), &y);
            expect("tangent_solve", &x);
            x
        });
        let operands =
            [&f_closure.captures[..], &solve_closure.captures, &tangent_closure.captures, &leaves]
                .concat();
        let root = Root {
            f: f_closure.program,
            solve: solve_closure.program,
            tangent_solve: tangent_closure.program,
            n,
        };
        let outputs = site.loc.scope(|| find_root(Arc::new(root), &operands));
        rebuild(&solve_closure.template, outputs)
    })
}

/// The operands of a root in groups.
struct OperandGroups<'a> {
    f: &'a [Array],
    solve: &'a [Array],
    tangent_solve: &'a [Array],
    guess: &'a [Array],
}

impl Root {
    fn groups<'a>(&self, operands: &'a [Array]) -> OperandGroups<'a> {
        let (f, rest) = operands.split_at(self.f.inputs().len() - self.n);
        let (solve, rest) = rest.split_at(self.solve.inputs().len() - self.n);
        let (tangent_solve, guess) = rest.split_at(self.tangent_solve.inputs().len() - 2 * self.n);
        OperandGroups { f, solve, tangent_solve, guess }
    }

    /// Returns the tangents of the root `x`: those of the linearized equation `g(dx) = −df`.
    fn tangents(&self, operands: &[Array], tangents: &[Array], x: &[Array]) -> Vec<Array> {
        let groups = self.groups(operands);
        let mut varying = Vec::with_capacity(groups.f.len() + self.n);
        for (x, dx) in groups.f.iter().zip(tangents) {
            varying.push(if x.dtype().is_inexact() {
                Tangent::Dense(dx.clone())
            } else {
                Tangent::zero_like(x)
            });
        }
        varying.extend(x.iter().map(Tangent::zero_like));
        let (_, df) = jvp_program(&self.f, &[groups.f, x].concat(), &varying);
        let df: Vec<Array> = df.iter().map(Tangent::to_dense).collect();
        let solved = passes::eval(&self.tangent_solve, &[groups.tangent_solve, x, &df].concat());
        solved.iter().map(neg).collect()
    }
}

/// Computes the root of a system without closures. The operands are the captures of `f`, `solve`
/// and `tangent_solve`, and the guess.
fn find_root(root: Arc<Root>, operands: &Vec<Array>) -> Vec<Array> {
    let solver = root.clone();
    let solve = move |operands: &Vec<Array>| {
        let groups = solver.groups(operands);
        passes::eval(&solver.solve, &[groups.solve, groups.guess].concat())
    };
    let rule = move |operands: &Vec<Array>, tangents: &Vec<Array>| {
        let results = find_root(root.clone(), operands);
        let (x, aux) = results.split_at(root.n);
        let mut result_tangents = root.tangents(operands, tangents, x);
        result_tangents.extend(aux.iter().map(zeros_like));
        (results, result_tangents)
    };
    custom_jvp(solve, rule)(operands)
}
