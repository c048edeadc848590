//! `custom_root`: a root that a user's function finds, differentiated by the implicit function theorem.

use super::closure::{Caller, Closure, avals_of, close};
use super::custom::custom_jvp;
use super::custom::held::expect_types;
use super::linear_solve::Solver;
use crate::core::{Array, Loc, Program, Tangent};
use crate::passes;
use crate::primitives::{neg, zeros_like};
use crate::transforms::jvp::jvp_program;
use crate::transforms::linearize;
use crate::transforms::staging::staged;
use crate::tree::{Tree, leaves_of, rebuild};
use std::sync::Arc;

/// The `x` with `f(x) = 0` that `solve` finds, starting from `initial_guess`.
///
/// `f` takes and gives a tree like the guess. It may capture arrays, and derivatives with respect to them
/// are those of the root, by the implicit function theorem: `solve` is not differentiated, so that it may
/// be a loop of unknown length. `tangent_solve` is given `f` linearized at the root, `g`, and a `y`, and gives
/// the `x` with `g(x) = y`; it must itself be linear in `y` and differentiable. For a scalar that is
/// `y / g(1)`; for a vector, [`custom_linear_solve`](super::custom_linear_solve) or a solve with the matrix
/// that `jacfwd(g)` gives. The guess has no derivative.
///
/// Throws `Tree` if a function changes a type, and whatever the functions throw.
///
/// ```no_run
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
    let caller = Caller::of::<()>("custom_root", Loc::caller());
    let solve = |f: &dyn Fn(&T) -> T, guess: &T| (solve(f, guess), ());
    run(&caller, &f, initial_guess, &solve, &tangent_solve).0
}

/// As [`custom_root`], where `solve` gives something besides: how many steps it took. It comes back with the
/// root and has no derivative.
#[track_caller]
pub fn custom_root_aux<T: Tree, X: Tree>(
    f: impl Fn(&T) -> T,
    initial_guess: &T,
    solve: impl Fn(&dyn Fn(&T) -> T, &T) -> (T, X),
    tangent_solve: impl Fn(&dyn Fn(&T) -> T, &T) -> T,
) -> (T, X) {
    let caller = Caller::of::<()>("custom_root_aux", Loc::caller());
    run(&caller, &f, initial_guess, &solve, &tangent_solve)
}

/// The user's functions as programs that take what they captured first.
struct Root {
    /// From `x` to what is to vanish.
    f: Program,
    /// From the guess to the root and auxiliary results.
    solve: Program,
    /// From the root and a `y` to the `x` with `g(x) = y`.
    tangent_solve: Program,
    /// How many leaves a root has.
    n: usize,
}

fn run<T: Tree, X: Tree>(
    caller: &Caller,
    f: &dyn Fn(&T) -> T,
    guess: &T,
    solve: Solver<'_, T, (T, X)>,
    tangent_solve: Solver<'_, T>,
) -> (T, X) {
    let leaves = leaves_of(guess);
    let (avals, n) = (avals_of(&leaves), leaves.len());
    let expect = |name: &str, found: &T| {
        let what = format!("{}: what `{name}` gives", caller.name);
        expect_types(&what, guess, found, caller.loc);
    };
    let scope = |name: &str| format!("{}({name})", caller.name);
    staged(|| {
        let of_f: Closure<T> = close(scope("f"), avals.iter().cloned(), |leaves| {
            let y = f(&rebuild(guess, leaves));
            expect("f", &y);
            y
        });
        let of_solve = close(scope("solve"), avals.iter().cloned(), |leaves| {
            let found = solve(f, &rebuild(guess, leaves));
            expect("solve", &found.0);
            found
        });
        let both = avals.iter().chain(&avals).cloned();
        let of_tangent: Closure<T> = close(scope("tangent_solve"), both, |mut leaves| {
            let y = rebuild(guess, leaves.split_off(n));
            let (_, g) = linearize(f, &rebuild(guess, leaves));
            let x = tangent_solve(&|x: &T| g.apply(x), &y);
            expect("tangent_solve", &x);
            x
        });
        let operands =
            [&of_f.captures[..], &of_solve.captures, &of_tangent.captures, &leaves].concat();
        let root =
            Root { f: of_f.program, solve: of_solve.program, tangent_solve: of_tangent.program, n };
        let found = caller.loc.scope(|| root_of(Arc::new(root), &operands));
        rebuild(&of_solve.template, found)
    })
}

/// The root of equations without closures: the operands are what `f`, `solve` and `tangent_solve` captured,
/// and the guess.
fn root_of(root: Arc<Root>, operands: &Vec<Array>) -> Vec<Array> {
    let Root { n, .. } = *root;
    let counts = [
        root.f.inputs().len() - n,
        root.solve.inputs().len() - n,
        root.tangent_solve.inputs().len() - 2 * n,
    ];
    let [in_f, in_solve, _] = counts;
    let solving = root.clone();
    let solved = move |operands: &Vec<Array>| {
        let (captured, guess) = operands.split_at(counts.iter().sum());
        let own = &captured[in_f..in_f + in_solve];
        passes::eval(&solving.solve, &[own, guess].concat())
    };
    let rule = move |operands: &Vec<Array>, tangents: &Vec<Array>| {
        let found = root_of(root.clone(), operands);
        let x = &found[..n];
        let captured = &operands[..in_f];
        let varied = captured.iter().zip(tangents).map(|(x, dx)| match x.dtype().is_inexact() {
            true => Tangent::Dense(dx.clone()),
            false => Tangent::zero_like(x),
        });
        let still = x.iter().map(Tangent::zero_like);
        let tangents: Vec<Tangent> = varied.chain(still).collect();
        let (_, moved) = jvp_program(&root.f, &[captured, x].concat(), &tangents);
        let moved: Vec<Array> = moved.iter().map(crate::primitives::rules::dense).collect();
        let own = &operands[in_f + in_solve..counts.iter().sum()];
        let back = passes::eval(&root.tangent_solve, &[own, x, &moved].concat());
        let dx = back.iter().map(neg).chain(found[n..].iter().map(zeros_like)).collect();
        (found, dx)
    };
    custom_jvp(solved, rule)(operands)
}
