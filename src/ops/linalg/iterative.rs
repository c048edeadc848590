//! Iterative solvers of linear systems whose matrix is a function: the counterparts of
//! `jax.scipy.sparse.linalg`.

use super::lstsq;
use crate::control_flow::{TransposeSolve, custom_linear_solve, fori_loop, while_loop};
use crate::core::{Array, DType, Loc, OpErrorKind, Shape, trace};
use crate::ops::matmul;
use crate::primitives::{
    bitwise_and, conj, dynamic_update_slice_in_dim, eq, expand_dims, gt, iota, lt, maximum, real,
    scalar, slice_in_dim, where_, zeros,
};
use crate::tree::{self, Tree};

/// Options of [`cg_with`] and [`gmres_with`].
pub struct IterativeOptions<'a, T> {
    /// The first guess. Zeros by default.
    pub x0: Option<&'a T>,
    /// The relative tolerance: the solver stops when the norm of the residual is at most
    /// `tol · norm(b)`. 1e-5 by default.
    pub tol: f64,
    /// The absolute tolerance of the norm of the residual. 0 by default.
    pub atol: f64,
    /// The largest number of iterations, or of restarts of [`gmres`]. Ten times the number of
    /// unknowns by default.
    pub maxiter: Option<usize>,
    /// An approximate inverse of the function, which speeds up convergence. For [`cg`] it must be
    /// symmetric and positive definite. The identity by default.
    pub preconditioner: Option<&'a dyn Fn(&T) -> T>,
    /// The number of iterations of [`gmres`] between restarts. 20 by default.
    pub restart: usize,
}

impl<T> Default for IterativeOptions<'_, T> {
    fn default() -> Self {
        IterativeOptions {
            x0: None,
            tol: 1e-5,
            atol: 0.0,
            maxiter: None,
            preconditioner: None,
            restart: 20,
        }
    }
}

impl<T: Tree> IterativeOptions<'_, T> {
    /// Returns the first guess of the solution for `b`.
    pub fn first_guess(&self, b: &T) -> T {
        match self.x0 {
            Some(x0) => tree::map(x0, Array::clone),
            None => tree::zeros_like(b),
        }
    }

    /// Applies the preconditioner.
    pub fn precondition(&self, x: &T) -> T {
        match self.preconditioner {
            Some(inverse) => inverse(x),
            None => tree::map(x, Array::clone),
        }
    }

    /// Returns the largest number of iterations for `b`.
    pub fn n_steps(&self, b: &T) -> usize {
        self.maxiter.unwrap_or_else(|| 10 * tree::reduce(b, 0, |n, leaf| n + leaf.size()))
    }

    /// Returns the norm that the residual must reach.
    fn target(&self, b: &T) -> Array {
        maximum(tree::norm(b) * self.tol, self.atol)
    }
}

/// Solves `matvec(x) = b` by conjugate gradients. `matvec` is linear, Hermitian and positive
/// definite; it is not checked.
///
/// `b` is an array or a tree, real or complex. Derivatives are those of the system, by
/// [`custom_linear_solve`]: forward and reverse mode solve it with other right-hand sides, and
/// reach what `matvec` captures.
///
/// Throws as [`custom_linear_solve`] does.
///
/// ```
/// use oxidax::prelude::*;
/// let a = Array::from_slice(&[4.0f32, 1.0, 1.0, 3.0], [2, 2])?;
/// let b = Array::from_slice(&[1.0f32, 2.0], [2])?;
/// let x = linalg::cg(|x: &Array| a.matmul(x), &b);
/// assert!(allclose(a.matmul(&x), &b).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Hestenes, Stiefel: Methods of conjugate gradients for solving linear systems (1952).
#[track_caller]
pub fn cg<T: Tree>(matvec: impl Fn(&T) -> T, b: &T) -> T {
    cg_with(matvec, b, IterativeOptions::default())
}

/// As [`cg`], with options.
#[track_caller]
pub fn cg_with<T: Tree>(matvec: impl Fn(&T) -> T, b: &T, options: IterativeOptions<'_, T>) -> T {
    let loc = Loc::caller();
    let solve = |matvec: &dyn Fn(&T) -> T, b: &T| {
        let inner = |a: &T, b: &T| real(tree::vdot(a, b));
        let n_steps = options.n_steps(b);
        let target = options.target(b);
        let x = options.first_guess(b);
        let residual = tree::sub(b, &matvec(&x));
        let direction = options.precondition(&residual);
        let gamma = inner(&residual, &direction);
        let unfinished = |(_, residual, _, _, step): &(T, T, T, Array, Array)| {
            bitwise_and(gt(tree::norm(residual), &target), lt(step, n_steps))
        };
        let step = |(x, residual, direction, gamma, step): &(T, T, T, Array, Array)| {
            let image = matvec(direction);
            let alpha = gamma / inner(direction, &image);
            let x = along(x, &alpha, direction);
            let residual = along(residual, &-alpha, &image);
            let z = options.precondition(&residual);
            let next = inner(&residual, &z);
            let direction = along(&z, &(&next / gamma), direction);
            (x, residual, direction, next, step + 1)
        };
        while_loop(unfinished, step, (x, residual, direction, gamma, scalar(0))).0
    };
    // The transpose of a complex Hermitian function is its conjugate.
    let is_real = tree::reduce(b, true, |is_real, leaf| is_real && !leaf.dtype().is_complex());
    let transpose = if is_real { TransposeSolve::Symmetric } else { TransposeSolve::By(&solve) };
    loc.scope(|| custom_linear_solve(matvec, b, solve, transpose))
}

/// Returns `x + factor · direction` in the dtypes of `x`.
fn along<T: Tree>(x: &T, factor: &Array, direction: &T) -> T {
    tree::zip_map(x, direction, |x, d| x + d * factor.astype(d.dtype()))
}

/// Solves `matvec(x) = b` by the generalized minimal residual method with restarts, for a linear
/// `matvec` that need not be symmetric.
///
/// `b` is an array or a tree. Each restart builds an orthonormal basis of the Krylov space, of
/// `restart` vectors like `b`, and solves a least squares problem in it. Derivatives are those of
/// the system, as for [`cg`].
///
/// Throws `Op` (value) if `restart` is 0, and as [`custom_linear_solve`] does.
///
/// ```
/// use oxidax::prelude::*;
/// let a = Array::from_slice(&[4.0f32, 1.0, -2.0, 3.0], [2, 2])?;
/// let b = Array::from_slice(&[1.0f32, 2.0], [2])?;
/// let x = linalg::gmres(|x: &Array| a.matmul(x), &b);
/// assert!(allclose(a.matmul(&x), &b).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Saad, Schultz: GMRES: a generalized minimal residual algorithm for solving nonsymmetric linear
/// systems (1986).
#[track_caller]
pub fn gmres<T: Tree>(matvec: impl Fn(&T) -> T, b: &T) -> T {
    gmres_with(matvec, b, IterativeOptions::default())
}

/// As [`gmres`], with options.
#[track_caller]
pub fn gmres_with<T: Tree>(matvec: impl Fn(&T) -> T, b: &T, options: IterativeOptions<'_, T>) -> T {
    let loc = Loc::caller();
    if options.restart == 0 {
        let message = "restart must be at least 1, got 0".into();
        trace::throw_op(OpErrorKind::Value, "gmres", message, loc);
    }
    let solve = |matvec: &dyn Fn(&T) -> T, b: &T| {
        let n_steps = options.n_steps(b);
        // The residuals are preconditioned, and so is the norm that they are compared with.
        let preconditioned = tree::norm(&options.precondition(b));
        let target = options.target(b) * preconditioned / maximum(tree::norm(b), f32::MIN_POSITIVE);
        let residual_of = |x: &T| options.precondition(&tree::sub(b, &matvec(x)));
        let unfinished = |(_, residual, step): &(T, T, Array)| {
            bitwise_and(gt(tree::norm(residual), &target), lt(step, n_steps))
        };
        let step = |(x, residual, step): &(T, T, Array)| {
            let (flat, unravel) = tree::ravel(residual);
            let apply = |v: &Array| tree::ravel(&options.precondition(&matvec(&unravel(v)))).0;
            let correction = unravel(&krylov_correction(apply, &flat, options.restart));
            let x = tree::add(x, &correction);
            let residual = residual_of(&x);
            (x, residual, step + 1)
        };
        let x = options.first_guess(b);
        let residual = residual_of(&x);
        while_loop(unfinished, step, (x, residual, 0)).0
    };
    loc.scope(|| custom_linear_solve(matvec, b, solve, TransposeSolve::By(&solve)))
}

/// Returns the vector of the Krylov space of `n` dimensions that brings the image closest to
/// `residual`, which is not zero.
fn krylov_correction(apply: impl Fn(&Array) -> Array, residual: &Array, n: usize) -> Array {
    let dtype = residual.dtype();
    let beta = norm_of(residual);
    let row = |x: &Array| expand_dims(x, &[0]);
    let basis = zeros((Shape::new(&[n + 1, residual.size()]), dtype));
    let first = residual / beta.astype(dtype);
    let basis = dynamic_update_slice_in_dim(&basis, &row(&first), 0, 0);
    // The image of basis vector k has the coordinates in row k.
    let images = zeros((Shape::new(&[n, n + 1]), dtype));
    let step = |k: Array, (basis, images): (Array, Array)| {
        let v = matmul(&eq(iota(k.dtype(), n + 1), &k).astype(dtype), &basis);
        let mut w = apply(&v);
        let mut coordinates = zeros((Shape::new(&[n + 1]), dtype));
        // Rows of later vectors are zero. The second pass removes rounding errors of the first.
        for _ in 0..2 {
            let overlap = matmul(&conj(&basis), &w);
            w = &w - matmul(&overlap, &basis);
            coordinates += overlap;
        }
        let length = norm_of(&w);
        // The space is exhausted when the remainder is rounding error.
        let is_new = gt(&length, norm_of(&coordinates) * dtype.epsilon());
        let length = where_(&is_new, length, 0.0);
        let next = where_(&is_new, &w / where_(&is_new, &length, 1.0).astype(dtype), 0.0);
        let at_next = eq(iota(k.dtype(), n + 1), &k + 1).astype(dtype);
        let coordinates = coordinates + at_next * length.astype(dtype);
        let basis = dynamic_update_slice_in_dim(&basis, &row(&next.astype(dtype)), &k + 1, 0);
        (basis, dynamic_update_slice_in_dim(&images, &row(&coordinates), &k, 0))
    };
    let (basis, images) = fori_loop(0, n, step, (basis, images));
    let target = eq(iota(DType::I32, n + 1), 0).astype(dtype) * beta.astype(dtype);
    let y = lstsq(&images.t(), &target).x;
    matmul(&y, &slice_in_dim(&basis, 0, n as isize, 1, 0))
}

/// Returns the Euclidean norm of a vector, in `f32` at least.
fn norm_of(x: &Array) -> Array {
    tree::norm(x)
}
