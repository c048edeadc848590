//! Iterative solvers of linear systems whose matrix is a function: `jax.scipy.sparse.linalg`.
//!
//! [`cg`] and [`gmres`] are those of [`oxidax::linalg`]. All take trees and a preconditioner. Their
//! derivatives are those of the system, by [`custom_linear_solve`].

use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::prelude::*;

pub use oxidax::linalg::{IterativeOptions, cg, cg_with, gmres, gmres_with};

/// Returns the number of elements of a tree.
fn n_unknowns<T: Tree>(b: &T) -> usize {
    tree::reduce(b, 0, |n, leaf| n + leaf.size())
}

/// Returns `x + factor · y` in the dtypes of `x`.
fn along<T: Tree>(x: &T, factor: &Array, y: &T) -> T {
    tree::zip_map(x, y, |x, y| x + y * factor.astype(y.dtype()))
}

/// Returns the square of the norm, real.
fn square<T: Tree>(x: &T) -> Array {
    real(tree::vdot(x, x))
}

/// Solves `matvec(x) = b` by the stabilized method of biconjugate gradients, for a linear `matvec`
/// that need not be symmetric.
///
/// `b` is an array or a tree. Derivatives are those of the system, by [`custom_linear_solve`]:
/// forward and reverse mode solve it with other right-hand sides, and reach what `matvec` captures.
///
/// Throws as [`custom_linear_solve`] does.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::sparse::linalg::bicgstab;
/// let a = array![[4.0, 1.0], [-2.0, 3.0]];
/// let b = array![1.0, 2.0];
/// let x = bicgstab(|x: &Array| a.matmul(x), &b);
/// assert!(allclose(a.matmul(&x), &b).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Reference: van der Vorst, "Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG for the
/// solution of nonsymmetric linear systems" (1992).
#[track_caller]
pub fn bicgstab<T: Tree>(matvec: impl Fn(&T) -> T, b: &T) -> T {
    bicgstab_with(matvec, b, IterativeOptions::default())
}

/// As [`bicgstab`], with options. `restart` has no effect.
#[track_caller]
pub fn bicgstab_with<T: Tree>(
    matvec: impl Fn(&T) -> T,
    b: &T,
    options: IterativeOptions<'_, T>,
) -> T {
    let solve = |matvec: &dyn Fn(&T) -> T, b: &T| {
        let steps = options.n_steps(b);
        let target = maximum(square(b) * (options.tol * options.tol), options.atol * options.atol);
        let x = options.first_guess(b);
        let residual = tree::sub(b, &matvec(&x));
        let shadow = tree::map(&residual, Array::clone);
        let one = ones_like(&tree::vdot(b, b));
        let start = Stabilized {
            p: tree::map(&residual, Array::clone),
            q: tree::map(&residual, Array::clone),
            x,
            residual,
            alpha: one.clone(),
            omega: one.clone(),
            rho: one,
            n: scalar(0).astype(DType::I32),
            is_broken: eq(scalar(0), 1),
        };
        let is_open = |state: &Stabilized<T>| {
            let is_far = gt(square(&state.residual), &target);
            let may_go_on = bitwise_and(lt(&state.n, steps), bitwise_not(&state.is_broken));
            bitwise_and(is_far, may_go_on)
        };
        let step = |state: &Stabilized<T>| {
            let apply = |x: &T| options.precondition(x);
            state.next(matvec, &apply, &shadow, &target)
        };
        while_loop(is_open, step, start).x
    };
    Loc::caller().scope(|| custom_linear_solve(matvec, b, solve, TransposeSolve::By(&solve)))
}

/// The state of [`bicgstab`].
#[derive(Tree)]
struct Stabilized<T: Tree> {
    x: T,
    residual: T,
    /// The search direction, and its image.
    p: T,
    q: T,
    alpha: Array,
    omega: Array,
    rho: Array,
    n: Array,
    /// True after a division by zero.
    is_broken: Array,
}

impl<T: Tree> Stabilized<T> {
    fn next(
        &self,
        matvec: &dyn Fn(&T) -> T,
        apply: &dyn Fn(&T) -> T,
        shadow: &T,
        target: &Array,
    ) -> Stabilized<T> {
        let rho = tree::vdot(shadow, &self.residual);
        let beta = &rho / &self.rho * &self.alpha / &self.omega;
        let p = along(&self.residual, &beta, &along(&self.p, &-&self.omega, &self.q));
        let p_applied = apply(&p);
        let q = matvec(&p_applied);
        let alpha = &rho / tree::vdot(shadow, &q);
        let s = along(&self.residual, &-&alpha, &q);
        // The first half of the step may be enough. The second one would divide by zero then.
        let is_done = lt(square(&s), target);
        let s_applied = apply(&s);
        let t = matvec(&s_applied);
        let omega = tree::vdot(&t, &s) / tree::vdot(&t, &t);
        let half = along(&self.x, &alpha, &p_applied);
        let whole = along(&half, &omega, &s_applied);
        let choose = |x: &T, y: &T| tree::zip_map(x, y, |x, y| where_(&is_done, x, y));
        let is_zero = |x: &Array| eq(abs(x), 0.0);
        let is_broken = bitwise_or(bitwise_or(is_zero(&alpha), is_zero(&omega)), is_zero(&rho));
        Stabilized {
            x: choose(&half, &whole),
            residual: choose(&s, &along(&s, &-&omega, &t)),
            p,
            q,
            alpha,
            omega,
            rho,
            n: &self.n + 1,
            is_broken,
        }
    }
}

/// Solves `matvec(x) = b` by the generalized minimal residual method, as [`gmres_with`], with a QR
/// decomposition of the Krylov space that grows with it. The residual is known after each step, so
/// a restart ends as soon as it is small enough. `gmres_with` builds the whole space of each
/// restart, which suits accelerators.
///
/// Throws `Op` (value) if `restart` is 0, and as [`custom_linear_solve`] does.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::sparse::linalg::{IterativeOptions, gmres_incremental};
/// let a = array![[4.0, 1.0], [-2.0, 3.0]];
/// let b = array![1.0, 2.0];
/// let x = gmres_incremental(|x: &Array| a.matmul(x), &b, IterativeOptions::default());
/// assert!(allclose(a.matmul(&x), &b).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Reference: Saad and Schultz, "GMRES: a generalized minimal residual algorithm for solving
/// nonsymmetric linear systems" (1986), section 3.2.
#[doc(alias = "solve_method")]
#[track_caller]
pub fn gmres_incremental<T: Tree>(
    matvec: impl Fn(&T) -> T,
    b: &T,
    options: IterativeOptions<'_, T>,
) -> T {
    if options.restart == 0 {
        let error = RuleError::value("restart must be at least 1, got 0");
        throw_operands("gmres_incremental", error, &[]);
    }
    let solve = |matvec: &dyn Fn(&T) -> T, b: &T| {
        let steps = options.n_steps(b);
        let restart = options.restart.min(n_unknowns(b));
        // The residuals are preconditioned, and so is the norm that they are compared with.
        let norm = tree::norm(b);
        let target = maximum(&norm * options.tol, options.atol);
        let is_zero = eq(&norm, 0.0);
        let ratio = where_(&is_zero, 0.0, target / where_(&is_zero, 1.0, &norm));
        let target = tree::norm(&options.precondition(b)) * minimum(ratio, 1.0);
        let residual_of = |x: &T| options.precondition(&tree::sub(b, &matvec(x)));
        let is_open = |(_, residual, n): &(T, T, Array)| {
            bitwise_and(gt(tree::norm(residual), &target), lt(n, steps))
        };
        let step = |(x, residual, n): &(T, T, Array)| {
            let (flat, unravel) = tree::ravel(residual);
            let apply = |v: &Array| tree::ravel(&options.precondition(&matvec(&unravel(v)))).0;
            let correction = unravel(&minimal_residual(apply, &flat, &target, restart));
            let x = tree::add(x, &correction);
            let residual = residual_of(&x);
            (x, residual, n + 1)
        };
        let x = options.first_guess(b);
        let residual = residual_of(&x);
        while_loop(is_open, step, (x, residual, scalar(0).astype(DType::I32))).0
    };
    Loc::caller().scope(|| custom_linear_solve(matvec, b, solve, TransposeSolve::By(&solve)))
}

/// The state of one restart of [`gmres_incremental`].
#[derive(Tree)]
struct Krylov {
    /// An orthonormal basis, in rows: `[n + 1, size]`.
    basis: Array,
    /// The triangular factor of the images of the basis, transposed: `[n, n + 1]`.
    r: Array,
    /// The cosines and sines of the rotations: `[n, 2]`.
    rotations: Array,
    /// The residual in the rotated basis: `[n + 1]`.
    rhs: Array,
    k: Array,
    /// The norm of the residual.
    error: Array,
}

/// Returns the vector of the Krylov space of at most `n` dimensions that brings the image closest
/// to `residual`, which is not zero.
fn minimal_residual(
    apply: impl Fn(&Array) -> Array,
    residual: &Array,
    target: &Array,
    n: usize,
) -> Array {
    let dtype = residual.dtype();
    let beta = tree::norm(residual);
    let row = |x: &Array| x.expand_dims(0);
    let first = residual / beta.astype(dtype);
    let basis =
        dynamic_update_slice_in_dim(&zeros(([n + 1, residual.size()], dtype)), &row(&first), 0, 0);
    let start = Krylov {
        basis,
        // Ones on the diagonal of unused columns, so that the triangular system stays regular.
        r: eye(([n, n + 1], dtype)),
        rotations: zeros(([n, 2], dtype)),
        rhs: where_(eq(iota(DType::I32, n + 1), 0), beta.astype(dtype), 0.0).astype(dtype),
        k: scalar(0).astype(DType::I32),
        error: beta,
    };
    let is_open = |state: &Krylov| bitwise_and(lt(&state.k, n), gt(&state.error, target));
    let end = while_loop(is_open, |state: &Krylov| state.extended(&apply), start);
    let square = slice_in_dim(&end.r, 0, n as isize, 1, 1);
    // Unused coordinates of the right-hand side are zero.
    let used = lt(iota(DType::I32, n), &end.k);
    let rhs = where_(used, slice_in_dim(&end.rhs, 0, n as isize, 1, 0), 0.0);
    let y = oxidax::linalg::solve_triangular(&square.mt(), &rhs);
    y.matmul(&slice_in_dim(&end.basis, 0, n as isize, 1, 0))
}

impl Krylov {
    fn extended(&self, apply: &dyn Fn(&Array) -> Array) -> Krylov {
        let (k, dtype) = (&self.k, self.rhs.dtype());
        let n = self.rotations.shape()[0];
        let at = |x: &Array, k: &Array| {
            dynamic_index_in_dim_with(x, k, 0, DynamicIndexOptions { keepdims: false })
        };
        let put = |x: &Array, value: &Array, k: &Array| {
            dynamic_update_slice_in_dim(x, &value.astype(x.dtype()).expand_dims(0), k, 0)
        };
        let mut w = apply(&at(&self.basis, k));
        let before = tree::norm(&w);
        let mut line = zeros(([n + 1], dtype));
        // Rows of later vectors are zero. The second pass removes rounding errors of the first.
        for _ in 0..2 {
            let overlap = conj(&self.basis).matmul(&w);
            w = &w - overlap.matmul(&self.basis);
            line += overlap;
        }
        let length = tree::norm(&w);
        // The space is exhausted when the remainder is rounding error.
        let is_new = gt(&length, before * dtype.real().epsilon());
        let length = where_(&is_new, length, 0.0);
        let divisor = where_(&is_new, &length, 1.0).astype(dtype);
        let next = where_(&is_new, w / divisor, 0.0);
        let basis = put(&self.basis, &next, &(k + 1));
        let line = put(&line, &length, &(k + 1));
        // The earlier rotations, then one that eliminates the last element.
        let rotate = |i: Array, line: Array| turned(&line, &i, &at(&self.rotations, &i));
        let line = fori_loop(0, k, rotate, line);
        let rotation = rotation(&at(&line, k), &at(&line, &(k + 1)));
        let line = turned(&line, k, &rotation);
        let rhs = turned(&self.rhs, k, &rotation);
        Krylov {
            basis,
            r: put(&self.r, &line, k),
            rotations: put(&self.rotations, &rotation, k),
            error: abs(at(&rhs, &(k + 1))).astype(self.error.dtype()),
            rhs,
            k: k + 1,
        }
    }
}

/// Returns the cosine and sine of the rotation that maps `(x, y)` to a multiple of the first unit
/// vector: `[2]`.
fn rotation(x: &Array, y: &Array) -> Array {
    let length = hypot(abs(x), abs(y));
    let is_zero = eq(&length, 0.0);
    let divisor = where_(&is_zero, 1.0, length).astype(x.dtype());
    let (c, s) = (where_(&is_zero, 1.0, x / &divisor), where_(&is_zero, 0.0, y / &divisor));
    stack([c, s], 0)
}

/// Applies a rotation to elements `k` and `k + 1` of a vector.
fn turned(x: &Array, k: &Array, rotation: &Array) -> Array {
    let pair = dynamic_slice_in_dim(x, k, 2, 0);
    let part = |x: &Array, i: isize| slice_in_dim(x, i, i + 1, 1, 0);
    let (c, s) = (part(rotation, 0), part(rotation, 1));
    let (x0, x1) = (part(&pair, 0), part(&pair, 1));
    let turned = [conj(&c) * &x0 + conj(&s) * &x1, c * x1 - s * x0];
    dynamic_update_slice_in_dim(x, &concatenate(turned, 0), k, 0)
}
