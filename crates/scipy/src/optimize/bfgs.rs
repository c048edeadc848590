//! Minimization by BFGS.

use super::line_search::line_search;
use oxidax::core::{Loc, RuleError, throw_operands};
use oxidax::linalg::{VectorNorm, vector_norm};
use oxidax::prelude::*;

/// Options of [`minimize_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BfgsOptions {
    /// The largest number of steps. 200 times the number of arguments if `None`.
    pub maxiter: Option<usize>,
    /// The norm of the gradient that is compared with `gtol`. The largest element by default.
    pub norm: VectorNorm,
    /// Minimization has converged when the norm of the gradient is below this. 1e-5 by default.
    pub gtol: f64,
    /// The largest number of step sizes that are tried along a direction. 10 by default.
    pub line_search_maxiter: usize,
}

impl Default for BfgsOptions {
    fn default() -> Self {
        BfgsOptions { maxiter: None, norm: VectorNorm::Inf, gtol: 1e-5, line_search_maxiter: 10 }
    }
}

/// The result of [`minimize`].
#[derive(Clone, Debug, Tree)]
pub struct OptimizeResults {
    /// The argument with the least value found: `[n]`.
    pub x: Array,
    /// True if the gradient has become small enough: `bool[]`.
    pub success: Array,
    /// The reason of the end: 0 converged, 1 too many steps, 3 an interval of the line search could
    /// not be narrowed, 5 too many steps of the line search: `i32[]`.
    pub status: Array,
    /// The value at `x`: a scalar.
    pub fun: Array,
    /// The gradient at `x`: `[n]`.
    pub jac: Array,
    /// The estimate of the inverse of the Hessian matrix: `[n, n]`.
    pub hess_inv: Array,
    /// The number of evaluations of the function: `i32[]`.
    pub nfev: Array,
    /// The number of evaluations of the gradient: `i32[]`.
    pub njev: Array,
    /// The number of steps: `i32[]`.
    pub nit: Array,
}

/// Minimizes a scalar function of a vector by the method of Broyden, Fletcher, Goldfarb and Shanno,
/// beginning at `x0`, `[n]`. The gradient is that of reverse mode.
///
/// The loop is one program. It has no reverse derivative; use [`custom_root`] on the gradient.
///
/// Throws `Op` if `x0` is not a vector of real floats or the output of `f` is not a real scalar,
/// and whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_scipy::optimize::minimize;
/// // Rosenbrock's function.
/// let f = |x: &Array| {
///     let (x, y) = (x.index(i![0]), x.index(i![1]));
///     (1.0 - &x).square() + (y - x.square()).square() * 100.0
/// };
/// let result = minimize(f, &array![-1.2, 1.0]);
/// assert!(allclose_with(
///     &result.x,
///     1.0,
///     CloseOptions { atol: 1e-3, ..Default::default() }
/// ).item::<bool>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Reference: Nocedal, Wright: Numerical optimization (2006), algorithm 6.1.
#[doc(alias = "BFGS")]
#[track_caller]
pub fn minimize(f: impl Fn(&Array) -> Array, x0: &Array) -> OptimizeResults {
    minimize_with(f, x0, BfgsOptions::default())
}

/// As [`minimize`], with options.
#[track_caller]
pub fn minimize_with(
    f: impl Fn(&Array) -> Array,
    x0: &Array,
    options: BfgsOptions,
) -> OptimizeResults {
    let BfgsOptions { maxiter, norm, gtol, line_search_maxiter } = options;
    if x0.rank() != 1 || !x0.dtype().is_float() {
        let error = RuleError::shape(format!("needs a vector of floats, got {}", x0.aval()))
            .help("`oxidax::optim::minimize` takes trees");
        throw_operands("minimize", error, &[x0]);
    }
    let f = |x: &Array| value_and_grad(|x: &Array| f(x))(x);
    Loc::caller().scope(|| {
        let maxiter = maxiter.unwrap_or(200 * x0.size());
        let is_small = |gradient: &Array| lt(vector_norm(gradient, norm, -1), gtol);
        let (value, gradient) = f(x0);
        let count = |n: i32| scalar(n).astype(DType::I32);
        let length = vector_norm(&gradient, VectorNorm::L2, -1).astype(value.dtype());
        let start = Search {
            x: x0.clone(),
            previous_value: &value + length * 0.5,
            has_converged: is_small(&gradient),
            value,
            gradient,
            inverse: eye((x0.size(), x0.dtype())),
            is_failed: eq(scalar(0), 1),
            n: count(0),
            n_evaluations: count(1),
            status: count(0),
        };
        let is_open = |search: &Search| {
            let is_over = bitwise_or(&search.has_converged, &search.is_failed);
            bitwise_and(bitwise_not(is_over), lt(&search.n, maxiter))
        };
        let step = |search: &Search| {
            let next = search.next(&f, line_search_maxiter);
            Search { has_converged: is_small(&next.gradient), ..next }
        };
        let end = while_loop(is_open, step, start);
        let other = where_(&end.is_failed, &end.status + 2, -1);
        let other = where_(eq(&end.n, maxiter), 1, other);
        OptimizeResults {
            success: bitwise_and(&end.has_converged, bitwise_not(&end.is_failed)),
            status: where_(&end.has_converged, 0, other).astype(DType::I32),
            x: end.x,
            fun: end.value,
            jac: end.gradient,
            hess_inv: end.inverse,
            nfev: end.n_evaluations.clone(),
            njev: end.n_evaluations,
            nit: end.n,
        }
    })
}

/// The state of a minimization.
#[derive(Tree)]
struct Search {
    x: Array,
    value: Array,
    gradient: Array,
    previous_value: Array,
    /// The estimate of the inverse of the Hessian matrix.
    inverse: Array,
    has_converged: Array,
    is_failed: Array,
    /// The status of the line search.
    status: Array,
    n: Array,
    n_evaluations: Array,
}

impl Search {
    fn next(&self, f: &dyn Fn(&Array) -> (Array, Array), max_steps: usize) -> Search {
        let highest = MatmulOptions { precision: Precision::Highest, ..MatmulOptions::default() };
        let product = |x: &Array, y: &Array| matmul_with(x, y, highest);
        let direction = -product(&self.inverse, &self.gradient);
        let start = (&self.value, &self.gradient);
        let step = line_search(f, &self.x, &direction, start, &self.previous_value, max_steps);
        // In single precision a shorter step would not move the argument.
        let length = match self.x.dtype() {
            DType::F64 => step.length,
            _ => {
                let is_tiny = lt(abs(&step.length), 1e-8);
                where_(is_tiny, sign(&step.length) * 1e-8, &step.length)
            }
        };
        let moved = direction * length.astype(self.x.dtype());
        let changed = &step.gradient - &self.gradient;
        let rho = 1.0 / vdot(&changed, &moved);
        let outer = |x: &Array, y: &Array| x.expand_dims(1) * y.expand_dims(0) * &rho;
        let w = eye((self.x.size(), self.x.dtype())) - outer(&moved, &changed);
        let inverse = product(&product(&w, &self.inverse), &w.mt()) + outer(&moved, &moved);
        Search {
            x: &self.x + moved,
            value: step.value,
            gradient: step.gradient,
            previous_value: self.value.clone(),
            // A step without change of the gradient says nothing about the curvature.
            inverse: where_(isfinite(&rho), inverse, &self.inverse),
            has_converged: self.has_converged.clone(),
            is_failed: step.is_failed,
            status: step.status,
            n: &self.n + 1,
            n_evaluations: &self.n_evaluations + step.n_evaluations,
        }
    }
}
