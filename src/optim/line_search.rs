//! The backtracking line search as a transformation of gradients.

use super::gradient_transformation::{GradientTransformation, UpdateArgs};
use super::leaves::Leaves;
use super::optimizer::{Optimizer, with_leaves};
use super::state::State;
use crate::control_flow::{cond, while_loop};
use crate::core::{Array, DType, Loc};
use crate::ops::{isfinite, isinf, isnan};
use crate::primitives::{
    bitwise_and, bitwise_not, convert_element_type, eq, full, full_like, gt, le, maximum, minimum,
    real, where_, zeros, zeros_like,
};
use crate::transforms::value_and_grad;
use crate::tree::{self, Tree};

/// Options of [`scale_by_backtracking_linesearch_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BacktrackingOptions {
    /// The part of the decrease that the slope predicts which a step must reach. 1e-4 by default.
    pub slope_rtol: f64,
    /// The factor by which a step size that is too long shrinks. 0.8 by default.
    pub decrease_factor: f64,
    /// The first step size of a search is that of the last one times this factor. 1.5 by default.
    pub increase_factor: f64,
    /// The largest step size. 1 by default.
    pub max_learning_rate: f64,
    /// The absolute error of the decrease that is tolerated. 0 by default.
    pub atol: f64,
    /// The error of the decrease relative to the value that is tolerated. 0 by default.
    pub rtol: f64,
    /// Stores the gradient at the new parameters in the state, for [`value_and_grad_from_state`].
    pub store_grad: bool,
}

impl Default for BacktrackingOptions {
    fn default() -> BacktrackingOptions {
        BacktrackingOptions {
            slope_rtol: 1e-4,
            decrease_factor: 0.8,
            increase_factor: 1.5,
            max_learning_rate: 1.0,
            atol: 0.0,
            rtol: 0.0,
            store_grad: false,
        }
    }
}

/// Scales updates by the first step size, of a decreasing sequence, that decreases the loss
/// sufficiently (Armijo's condition).
///
/// Call [`Optimizer::update_with`] with the value, the gradient and the function. The state has
/// `learning_rate`, `value` at the new parameters, `num_linesearch_steps` and `decrease_error`. If
/// no step size gives a finite value, the step is 0. [`backtracking_line_search`] is the search by
/// itself.
///
/// [`backtracking_line_search`]: super::backtracking_line_search
///
/// ```
/// use oxidax::optim::UpdateOptions;
/// use oxidax::prelude::*;
/// let loss = |w: &Array| w.square().sum();
/// let search = optim::scale_by_backtracking_linesearch(15);
/// let optimizer = optim::sgd(1.0).chain(search);
/// let w = array![1f32, 2.0];
/// let (value, gradient) = value_and_grad(loss)(&w);
/// let options = UpdateOptions {
///     value: Some(&value),
///     gradient: Some(&gradient),
///     value_fn: Some(&loss),
///     ..UpdateOptions::default()
/// };
/// let state = optimizer.init(&w);
/// let (updates, _) = optimizer.update_with(&gradient, &state, &w, options);
/// assert!(loss(&(w + updates)).item::<f32>()? < 5.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Nocedal, Wright: Numerical optimization (2006), algorithm 3.1.
pub fn scale_by_backtracking_linesearch(max_backtracking_steps: usize) -> Optimizer {
    scale_by_backtracking_linesearch_with(max_backtracking_steps, BacktrackingOptions::default())
}

/// Scales updates by a backtracking line search, with options.
pub fn scale_by_backtracking_linesearch_with(
    max_backtracking_steps: usize,
    options: BacktrackingOptions,
) -> Optimizer {
    Optimizer::new(Backtracking { max_steps: max_backtracking_steps, options })
}

struct Backtracking {
    max_steps: usize,
    options: BacktrackingOptions,
}

#[derive(Tree)]
struct BacktrackingState {
    learning_rate: Array,
    value: Array,
    grad: Option<Leaves>,
    num_linesearch_steps: Array,
    decrease_error: Array,
}

/// The search: step size, value, error of the decrease, and number of trials.
#[derive(Tree)]
struct Trial {
    rate: Array,
    value: Array,
    error: Array,
    count: Array,
}

impl GradientTransformation for Backtracking {
    type State = BacktrackingState;

    fn init(&self, parameters: &Leaves) -> BacktrackingState {
        let dtype = parameters.scalar_dtype();
        BacktrackingState {
            learning_rate: full(([], dtype), 1.0),
            value: full(([], dtype), f64::INFINITY),
            grad: self.options.store_grad.then(|| tree::zeros_like(parameters)),
            num_linesearch_steps: zeros(([], DType::I32)),
            decrease_error: full(([], dtype), f64::INFINITY),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: BacktrackingState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, BacktrackingState) {
        let BacktrackingOptions { slope_rtol, decrease_factor, atol, rtol, .. } = self.options;
        let dtype = state.value.dtype();
        let value = convert_element_type(&args.value(), dtype);
        let slope = convert_element_type(&slope(&updates, &args.gradient()), dtype);
        let (updates_of, parameters) = (&updates, args.parameters());
        let first = minimum(
            &state.learning_rate * self.options.increase_factor,
            full(([], dtype), self.options.max_learning_rate),
        );
        let unfinished = |trial: &Trial| {
            let is_short = bitwise_not(le(&trial.error, atol));
            bitwise_and(is_short, le(&trial.count, self.max_steps as i32))
        };
        let next = |trial: &Trial| {
            let is_first = eq(&trial.count, 0);
            let rate = where_(&is_first, &trial.rate, &trial.rate * decrease_factor);
            let step = stepped(parameters, &rate, updates_of);
            let new_value = convert_element_type(&args.value_at(&step), dtype);
            let error = &new_value - &value * (1.0 + rtol) - &rate * slope_rtol * &slope;
            let error = where_(isnan(&error), full_like(&error, f64::INFINITY), &error);
            let error = maximum(&error, zeros_like(&error));
            Trial { rate, value: new_value, error, count: &trial.count + 1 }
        };
        let start = Trial {
            rate: first,
            value: value.clone(),
            error: full(([], dtype), f64::INFINITY),
            count: zeros(([], DType::I32)),
        };
        let last = while_loop(unfinished, next, start);
        let grad = state.grad.map(|_| {
            let step = stepped(parameters, &last.rate, updates_of);
            value_and_grad(|parameters: &Leaves| args.value_at(parameters))(&step).1
        });
        let rate = where_(isinf(&last.error), zeros_like(&last.rate), &last.rate);
        let scaled = scaled(&updates, &rate);
        let state = BacktrackingState {
            learning_rate: rate,
            value: last.value,
            grad,
            num_linesearch_steps: last.count,
            decrease_error: last.error,
        };
        (scaled, state)
    }
}

/// Returns the derivative of the loss along the updates.
pub(super) fn slope(updates: &Leaves, gradient: &Leaves) -> Array {
    // JAX's gradient of a complex number is the conjugate of the direction of ascent.
    let products = updates.zip_map([gradient], |update, [gradient]| {
        let product = (update * gradient).sum();
        if product.dtype().is_complex() { real(product) } else { product }
    });
    tree::sum(&products)
}

/// Returns `updates · rate`, in the dtypes of the updates.
pub(super) fn scaled(updates: &Leaves, rate: &Array) -> Leaves {
    updates.map(|update| update * convert_element_type(rate, update.dtype()))
}

/// Returns `parameters + rate · updates`, in the dtypes of the parameters.
pub(super) fn stepped(parameters: &Leaves, rate: &Array, updates: &Leaves) -> Leaves {
    parameters.zip_map([updates], |parameter, [update]| {
        let step = update * convert_element_type(rate, update.dtype());
        convert_element_type(&(parameter + step), parameter.dtype())
    })
}

/// Returns the value and the gradient of a loss, from the state of a line search if it has them.
///
/// The state has the value and the gradient after the first update, with
/// [`scale_by_zoom_linesearch`](super::scale_by_zoom_linesearch) or
/// [`BacktrackingOptions::store_grad`]. Before it, and if the value is not finite, the loss is
/// evaluated.
///
/// Throws `Tree` if the optimizer has no line search that stores a gradient.
#[track_caller]
pub fn value_and_grad_from_state<T: Tree>(
    value_fn: impl Fn(&T) -> Array,
    parameters: &T,
    state: &State,
) -> (Array, T) {
    let loc = Loc::caller();
    let leaves = Leaves::new(parameters);
    let stored = state.value("value").cloned().zip(state.accumulator("grad", &leaves));
    let Some((value, grad)) = stored else {
        let message = "the state does not have `value` and `grad`".to_owned();
        let help = "chain `scale_by_zoom_linesearch`, or set `store_grad` of the backtracking one";
        super::leaves::throw_tree("", message, help, loc)
    };
    let of_leaves = |leaves: &Leaves| value_fn(&with_leaves(parameters, leaves));
    let is_stored = bitwise_and(isfinite(&value), gt(state.count(), 0));
    let dtypes = grad.clone();
    let (value, grad) = cond(
        is_stored,
        |(_, value, grad): (Leaves, Array, Leaves)| (value, grad),
        |(leaves, value, _): (Leaves, Array, Leaves)| {
            let (new_value, new_grad) = value_and_grad(of_leaves)(&leaves);
            let new_grad =
                new_grad.zip_map([&dtypes], |g, [like]| convert_element_type(g, like.dtype()));
            (convert_element_type(&new_value, value.dtype()), new_grad)
        },
        (leaves, value, grad),
    );
    let zeros = tree::map(parameters, zeros_like);
    (value, with_leaves(&zeros, &grad))
}
