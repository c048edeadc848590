//! Minimization of a function from start to end: L-BFGS and its line search.

use super::lbfgs::CurvaturePairs;
use crate::control_flow::while_loop;
use crate::core::{Array, DType, Shape};
use crate::ops::{isfinite, remainder};
use crate::primitives::{
    bitwise_and, bitwise_not, dynamic_update_slice_in_dim, expand_dims, gt, le, lt, maximum,
    scalar, where_, zeros, zeros_like,
};
use crate::transforms::value_and_grad;
use crate::tree::{self, Tree};

/// Options of [`backtracking_line_search`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineSearchOptions {
    /// The first step size. 1 by default.
    pub first_step: f64,
    /// The factor by which a step that is too long shrinks. 0.5 by default.
    pub decrease_factor: f64,
    /// The part of the decrease that the slope predicts which a step must reach (Armijo's
    /// condition). 1e-4 by default.
    pub sufficient_decrease: f64,
    /// The largest number of step sizes that are tried. 30 by default.
    pub max_steps: usize,
}

impl Default for LineSearchOptions {
    fn default() -> LineSearchOptions {
        LineSearchOptions {
            first_step: 1.0,
            decrease_factor: 0.5,
            sufficient_decrease: 1e-4,
            max_steps: 30,
        }
    }
}

/// Returns the first step size `t`, of `first_step · decrease_factorⁿ`, at which `f` decreases
/// sufficiently: `f(x + t · direction) ≤ f(x) + sufficient_decrease · t · slope`. Returns 0 if no
/// step size does.
///
/// `slope` is the inner product of the gradient at `x` and the direction, which is negative. Values
/// of `f` that are not finite count as too large.
///
/// ```
/// use oxidax::optim::LineSearchOptions;
/// use oxidax::prelude::*;
/// let f = |x: &Array| x.square().sum();
/// let x = ones([2]);
/// let g = grad(f)(&x);
/// let (direction, slope) = (-&g, -tree::vdot(&g, &g));
/// let options = LineSearchOptions::default();
/// let t = optim::backtracking_line_search(f, &x, &direction, &slope, options);
/// assert_eq!(t.item::<f32>()?, 0.5);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Nocedal, Wright: Numerical optimization (2006), algorithm 3.1.
#[doc(alias = "scale_by_backtracking_linesearch")]
#[track_caller]
pub fn backtracking_line_search<T: Tree>(
    f: impl Fn(&T) -> Array,
    x: &T,
    direction: &T,
    slope: &Array,
    options: LineSearchOptions,
) -> Array {
    let start = f(x);
    let too_long = |(step, n): &(Array, Array)| {
        let value = f(&tree::add_scaled(x, step.astype(start.dtype()), direction));
        let bound = &start + step * slope * options.sufficient_decrease;
        // The bound may round to the first value, which is no decrease.
        let is_enough = bitwise_and(le(&value, bound), lt(&value, &start));
        let is_enough = bitwise_and(isfinite(&value), is_enough);
        bitwise_and(bitwise_not(is_enough), lt(n, options.max_steps))
    };
    let shorter = |(step, n): &(Array, Array)| (step * options.decrease_factor, n + 1);
    let first = zeros_like(&start) + options.first_step;
    let (step, n) = while_loop(too_long, shorter, (first, scalar(0)));
    where_(lt(n, options.max_steps), step, 0.0)
}

/// Options of [`minimize_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MinimizeOptions {
    /// The number of earlier steps that approximate the curvature. 10 by default.
    pub memory: usize,
    /// The largest number of steps. 200 by default.
    pub max_steps: usize,
    /// Minimization has converged when the norm of the gradient is at most this. 1e-5 by default.
    pub tolerance: f64,
    /// The search along each direction.
    pub line_search: LineSearchOptions,
}

impl Default for MinimizeOptions {
    fn default() -> MinimizeOptions {
        MinimizeOptions {
            memory: 10,
            max_steps: 200,
            tolerance: 1e-5,
            line_search: LineSearchOptions::default(),
        }
    }
}

/// The result of [`minimize`].
#[derive(Tree, Clone, Debug)]
pub struct Minimum<T: Tree> {
    /// The argument with the least value found.
    pub x: T,
    /// The value there: a scalar.
    pub value: Array,
    /// The norm of the gradient there, in `f32` at least.
    pub gradient_norm: Array,
    /// The number of steps: `i32[]`.
    pub n_steps: Array,
    /// True if the norm of the gradient has reached the tolerance: `bool[]`.
    pub has_converged: Array,
}

/// Minimizes a scalar function of a tree by L-BFGS, beginning at `x0`.
///
/// All leaves of `x0` have real float dtypes. The loop is one program, which runs until the
/// gradient is short, no step size decreases the value, or the number of steps is reached. It has
/// no reverse derivative; use [`custom_root`](crate::control_flow::custom_root) on the gradient.
///
/// Throws `Tree` if a leaf has another dtype, `Op` if the output of `f` is not a real scalar, and
/// whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// // Rosenbrock's function.
/// let f = |(x, y): &(Array, Array)| (1.0 - x).square() + (y - x.square()).square() * 100.0;
/// let minimum = optim::minimize(f, &(scalar(-1.2), scalar(1.0)));
/// assert!(minimum.has_converged.item::<bool>()?);
/// assert!((minimum.x.0.item::<f32>()? - 1.0).abs() < 1e-3);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Liu, Nocedal: On the limited memory BFGS method for large scale optimization (1989).
#[doc(alias = "lbfgs")]
#[doc(alias = "scipy.optimize.minimize")]
#[track_caller]
pub fn minimize<T: Tree>(f: impl Fn(&T) -> Array, x0: &T) -> Minimum<T> {
    minimize_with(f, x0, MinimizeOptions::default())
}

/// As [`minimize`], with options.
#[track_caller]
pub fn minimize_with<T: Tree>(
    f: impl Fn(&T) -> Array,
    x0: &T,
    options: MinimizeOptions,
) -> Minimum<T> {
    let (flat, unravel) = tree::ravel(x0);
    let of_flat = |x: &Array| f(&unravel(x));
    let (value, gradient) = value_and_grad(of_flat)(&flat);
    let history = Shape::new(&[options.memory, flat.size()]);
    let first = Search {
        moves: zeros((history.clone(), flat.dtype())),
        changes: zeros((history, flat.dtype())),
        scale: zeros_like(&value) + 1.0,
        n_pairs: scalar(0i32).astype(DType::I32),
        n_steps: scalar(0i32).astype(DType::I32),
        is_stuck: gt(scalar(0), 0),
        x: flat,
        value,
        gradient,
    };
    let unfinished = |search: &Search| {
        let is_long = gt(tree::norm(&search.gradient), options.tolerance);
        let may_go_on = bitwise_and(is_long, lt(&search.n_steps, options.max_steps));
        bitwise_and(may_go_on, bitwise_not(&search.is_stuck))
    };
    let last = while_loop(unfinished, |search: &Search| search.step(of_flat, options), first);
    let gradient_norm = tree::norm(&last.gradient);
    Minimum {
        x: unravel(&last.x),
        has_converged: le(&gradient_norm, options.tolerance),
        value: last.value,
        gradient_norm,
        n_steps: last.n_steps,
    }
}

/// The state of a minimization.
#[derive(Tree)]
struct Search {
    x: Array,
    value: Array,
    gradient: Array,
    /// The last moves of `x`, one per row; the oldest is overwritten.
    moves: Array,
    /// The change of the gradient by each move.
    changes: Array,
    /// The scale of the inverse curvature.
    scale: Array,
    /// The number of pairs of moves and changes so far.
    n_pairs: Array,
    n_steps: Array,
    /// True when no step size decreases the value.
    is_stuck: Array,
}

impl Search {
    fn step(&self, f: impl Fn(&Array) -> Array, options: MinimizeOptions) -> Search {
        let direction = -self.newton_step(options.memory);
        let slope = tree::vdot(&self.gradient, &direction);
        // Rounding errors may spoil the direction; the gradient always descends.
        let descends = lt(&slope, 0.0);
        let direction = where_(&descends, &direction, -&self.gradient);
        let slope = where_(&descends, slope, -tree::vdot(&self.gradient, &self.gradient));
        // Without history the length of the gradient says nothing about that of the step.
        let norm = tree::norm(&self.gradient).astype(slope.dtype());
        let shrink = where_(gt(&self.n_pairs, 0), 1.0, 1.0 / maximum(norm, 1.0));
        let (direction, slope) = (direction * &shrink, slope * &shrink);
        let length = backtracking_line_search(&f, &self.x, &direction, &slope, options.line_search);
        let x = &self.x + &direction * length.astype(self.x.dtype());
        let (value, gradient) = value_and_grad(f)(&x);
        let (moved, changed) = (&x - &self.x, &gradient - &self.gradient);
        let curvature = tree::vdot(&moved, &changed);
        let square = tree::vdot(&changed, &changed);
        // A pair without positive curvature would make the approximation indefinite.
        let is_kept = gt(&curvature, &square * self.x.dtype().epsilon());
        let row = remainder(&self.n_pairs, options.memory.max(1));
        let put = |rows: &Array, row_values: &Array| {
            if options.memory == 0 {
                return rows.clone();
            }
            let updated =
                dynamic_update_slice_in_dim(rows, &expand_dims(row_values, &[0]), &row, 0);
            where_(&is_kept, updated, rows)
        };
        let ratio = &curvature / where_(gt(&square, 0.0), &square, 1.0);
        Search {
            moves: put(&self.moves, &moved),
            changes: put(&self.changes, &changed),
            scale: where_(&is_kept, ratio.astype(self.scale.dtype()), &self.scale),
            n_pairs: &self.n_pairs + is_kept.astype(DType::I32),
            n_steps: &self.n_steps + 1,
            is_stuck: le(&length, 0.0),
            x,
            value,
            gradient,
        }
    }

    /// Returns the approximate inverse Hessian times the gradient.
    fn newton_step(&self, memory: usize) -> Array {
        if memory == 0 {
            return self.gradient.clone();
        }
        let curvature = (&self.moves * &self.changes).sum_axes(1);
        let exists = gt(&curvature, 0.0);
        let inverse = 1.0 / where_(&exists, &curvature, 1.0);
        let pairs = CurvaturePairs {
            moves: &self.moves,
            changes: &self.changes,
            weights: &where_(&exists, inverse, 0.0),
            oldest: &remainder(&self.n_pairs, memory),
            memory: memory as i32,
        };
        pairs.times_inverse_hessian(self.gradient.clone(), Some(self.scale.clone()))
    }
}
