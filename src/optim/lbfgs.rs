//! L-BFGS as a transformation of gradients.

use super::gradient_transformation::{GradientTransformation, UpdateArgs};
use super::leaves::Leaves;
use super::optimizer::{Optimizer, chain};
use super::schedule::Schedule;
use super::sgd::{scale, scale_by_learning_rate};
use super::zoom_line_search::{InitialGuess, ZoomLineSearchOptions, scale_by_zoom_linesearch_with};
use crate::control_flow::fori_loop;
use crate::core::{Array, RuleError, throw_operands};
use crate::ops::remainder;
use crate::primitives::{
    DynamicIndexOptions, convert_element_type, dynamic_index_in_dim_with,
    dynamic_update_slice_in_dim, eq, expand_dims, full_like, gt, minimum, real, where_, zeros,
    zeros_like,
};
use crate::tree::{self, Tree};

/// Options of [`lbfgs_with`].
#[derive(Clone, Debug)]
pub struct LbfgsOptions {
    /// A factor of the step before the line search. 1 by default.
    pub learning_rate: Schedule,
    /// The options of the scaling.
    pub scaling: ScaleByLbfgsOptions,
    /// The line search, or `None`. By default
    /// [`scale_by_zoom_linesearch`](super::scale_by_zoom_linesearch) with 20 steps at most, which
    /// begins at 1.
    pub linesearch: Option<Optimizer>,
}

impl Default for LbfgsOptions {
    fn default() -> LbfgsOptions {
        let initial_guess = InitialGuess::One;
        let zoom = ZoomLineSearchOptions { initial_guess, ..ZoomLineSearchOptions::default() };
        LbfgsOptions {
            learning_rate: Schedule::from(1.0),
            scaling: ScaleByLbfgsOptions::default(),
            linesearch: Some(scale_by_zoom_linesearch_with(20, zoom)),
        }
    }
}

/// Options of [`scale_by_lbfgs_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleByLbfgsOptions {
    /// The number of earlier steps that approximate the curvature. 10 by default.
    pub memory_size: usize,
    /// Scales the first approximation by the curvature of the last step. True by default.
    pub scale_init_precond: bool,
}

impl Default for ScaleByLbfgsOptions {
    fn default() -> ScaleByLbfgsOptions {
        ScaleByLbfgsOptions { memory_size: 10, scale_init_precond: true }
    }
}

/// Creates L-BFGS with a zoom line search, for functions without noise.
///
/// Call [`Optimizer::update_with`] with the value, the gradient and the function.
/// [`value_and_grad_from_state`](super::value_and_grad_from_state) avoids a second evaluation.
/// [`minimize`](super::minimize()) runs a whole minimization.
///
/// ```
/// use oxidax::optim::UpdateOptions;
/// use oxidax::prelude::*;
/// let rosenbrock = |p: &Array| {
///     let (x, y) = (p.index(i![0]), p.index(i![1]));
///     (1.0 - &x).square() + (y - x.square()).square() * 100.0
/// };
/// let optimizer = optim::lbfgs();
/// let mut p = array![-1.2f32, 1.0];
/// let mut state = optimizer.init(&p);
/// let step = jit(move |p: Array, state: optim::State| {
///     let (value, gradient) = optim::value_and_grad_from_state(rosenbrock, &p, &state);
///     let options = UpdateOptions {
///         value: Some(&value),
///         gradient: Some(&gradient),
///         value_fn: Some(&rosenbrock),
///         ..UpdateOptions::default()
///     };
///     let (updates, state) = optimizer.update_with(&gradient, &state, &p, options);
///     (optim::apply_updates(&p, &updates), state)
/// });
/// for _ in 0..40 {
///     (p, state) = step.call(p, state)?;
/// }
/// assert!((p - 1.0).abs().max().item::<f32>()? < 1e-3);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Liu, Nocedal: On the limited memory BFGS method for large scale optimization (1989).
pub fn lbfgs() -> Optimizer {
    lbfgs_with(LbfgsOptions::default())
}

/// Creates L-BFGS with options.
pub fn lbfgs_with(options: LbfgsOptions) -> Optimizer {
    let LbfgsOptions { learning_rate, scaling, linesearch } = options;
    let rate = match learning_rate.constant() {
        Some(1.0) => scale(-1.0),
        _ => scale_by_learning_rate(learning_rate),
    };
    let links = [Some(scale_by_lbfgs_with(scaling)), Some(rate), linesearch];
    chain(links.into_iter().flatten())
}

/// Multiplies updates by L-BFGS's approximation of the inverse Hessian.
pub fn scale_by_lbfgs() -> Optimizer {
    scale_by_lbfgs_with(ScaleByLbfgsOptions::default())
}

/// Multiplies updates by L-BFGS's approximation of the inverse Hessian, with options.
///
/// Throws `Op` (value) if the memory has size 0.
#[track_caller]
pub fn scale_by_lbfgs_with(options: ScaleByLbfgsOptions) -> Optimizer {
    if options.memory_size == 0 {
        let error = RuleError::value("memory_size must be at least 1, got 0");
        throw_operands("scale_by_lbfgs", error, &[]);
    }
    Optimizer::new(ScaleByLbfgs(options))
}

struct ScaleByLbfgs(ScaleByLbfgsOptions);

#[derive(Tree)]
struct LbfgsState {
    params: Leaves,
    updates: Leaves,
    /// The last steps, one per row; the oldest is overwritten.
    diff_params_memory: Leaves,
    /// The change of the gradient by each step.
    diff_updates_memory: Leaves,
    /// The inverse of the inner product of both.
    weights_memory: Array,
}

impl GradientTransformation for ScaleByLbfgs {
    type State = LbfgsState;

    fn init(&self, parameters: &Leaves) -> LbfgsState {
        let memory = self.0.memory_size;
        let rows = || parameters.map(|p| zeros((p.shape().insert(0, memory), p.dtype())));
        LbfgsState {
            params: tree::zeros_like(parameters),
            updates: tree::zeros_like(parameters),
            diff_params_memory: rows(),
            diff_updates_memory: rows(),
            weights_memory: zeros(([memory], parameters.scalar_dtype())),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: LbfgsState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, LbfgsState) {
        let memory = self.0.memory_size as i32;
        let before = args.count() - 1;
        let has_step = gt(&before, 0);
        let params = args.parameters();
        let dtype = state.weights_memory.dtype();
        let moved =
            params.zip_map([&state.params], |p, [last]| where_(&has_step, p - last, zeros_like(p)));
        let changed = updates
            .zip_map([&state.updates], |g, [last]| where_(&has_step, g - last, zeros_like(g)));
        let curvature = real_vdot(&changed, &moved);
        let inverse = where_(eq(&curvature, 0.0), 0.0, 1.0 / &curvature);
        let row = remainder(&before - 1, memory);
        let stored = |rows: &Array, new: &Array| {
            dynamic_update_slice_in_dim(rows, &expand_dims(new, &[0]), &row, 0)
        };
        let moves = state.diff_params_memory.zip_map([&moved], |rows, [new]| stored(rows, new));
        let changes =
            state.diff_updates_memory.zip_map([&changed], |rows, [new]| stored(rows, new));
        let weights = stored(&state.weights_memory, &convert_element_type(&inverse, dtype));
        let scale = self.0.scale_init_precond.then(|| {
            let square = real_vdot(&changed, &changed);
            let scale = where_(gt(&square, 0.0), &curvature / &square, 1.0);
            let norm = tree::norm(&updates);
            let capped = minimum(1.0 / &norm, full_like(&norm, 1.0));
            where_(&has_step, &scale, convert_element_type(&capped, scale.dtype()))
        });
        let pairs = CurvaturePairs {
            moves: &moves,
            changes: &changes,
            weights: &weights,
            oldest: &remainder(&before, memory),
            memory,
        };
        let direction = pairs.times_inverse_hessian(updates.clone(), scale);
        let state = LbfgsState {
            params: params.clone(),
            updates,
            diff_params_memory: moves,
            diff_updates_memory: changes,
            weights_memory: weights,
        };
        (direction, state)
    }
}

/// Returns the real part of the inner product.
fn real_vdot<T: Tree>(a: &T, b: &T) -> Array {
    let product = tree::vdot(a, b);
    if product.dtype().is_complex() { real(product) } else { product }
}

/// The last moves of the parameters and changes of the gradient, one per row of each leaf.
pub(super) struct CurvaturePairs<'a, T> {
    pub(super) moves: &'a T,
    pub(super) changes: &'a T,
    /// The inverse of the inner product of each pair; 0 for a row without one.
    pub(super) weights: &'a Array,
    /// The row of the oldest pair.
    pub(super) oldest: &'a Array,
    /// The number of rows.
    pub(super) memory: i32,
}

impl<T: Tree> CurvaturePairs<'_, T> {
    /// Returns the approximate inverse Hessian times `v`, by the recursion of two loops. `scale` is
    /// that of the first approximation.
    pub(super) fn times_inverse_hessian(&self, v: T, scale: Option<Array>) -> T {
        let CurvaturePairs { moves, changes, weights, oldest, memory } = *self;
        let options = DynamicIndexOptions { keepdims: false };
        let at = |rows: &T, index: &Array| {
            tree::map(rows, |rows| dynamic_index_in_dim_with(rows, index, 0, options))
        };
        let added = |v: &T, factor: &Array, direction: &T| {
            tree::zip_map(v, direction, |v, direction| {
                let factor = convert_element_type(factor, v.dtype());
                convert_element_type(&(v + direction * factor), v.dtype())
            })
        };
        let backwards = |n: Array, (v, alphas): (T, Array)| {
            let index = remainder(oldest + (memory - 1) - n, memory);
            let (moved, changed) = (at(moves, &index), at(changes, &index));
            let weight = dynamic_index_in_dim_with(weights, &index, 0, options);
            let alpha = weight * convert_element_type(&real_vdot(&moved, &v), weights.dtype());
            let v = added(&v, &-&alpha, &changed);
            (v, dynamic_update_slice_in_dim(&alphas, &expand_dims(&alpha, &[0]), &index, 0))
        };
        let alphas = zeros(([memory as usize], weights.dtype()));
        let (v, alphas) = fori_loop(0, memory, backwards, (v, alphas));
        let v = match scale {
            None => v,
            Some(scale) => tree::map(&v, |v| v * convert_element_type(&scale, v.dtype())),
        };
        let forwards = |n: Array, v: T| {
            let index = remainder(oldest + n, memory);
            let (moved, changed) = (at(moves, &index), at(changes, &index));
            let weight = dynamic_index_in_dim_with(weights, &index, 0, options);
            let alpha = dynamic_index_in_dim_with(&alphas, &index, 0, options);
            let beta = weight * convert_element_type(&real_vdot(&changed, &v), weights.dtype());
            added(&v, &(alpha - beta), &moved)
        };
        fori_loop(0, memory, forwards, v)
    }
}
