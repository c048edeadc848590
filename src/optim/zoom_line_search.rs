//! The zoom line search, which finds a step size that satisfies Wolfe's strong conditions.

use super::gradient_transformation::{GradientTransformation, UpdateArgs};
use super::leaves::Leaves;
use super::line_search::{scaled, slope, stepped};
use super::optimizer::Optimizer;
use crate::control_flow::while_loop;
use crate::core::{Array, DType};
use crate::ops::{isinf, isnan};
use crate::primitives::{
    abs, bitwise_and, bitwise_not, bitwise_or, convert_element_type, eq, full, full_like, ge, gt,
    le, lt, maximum, minimum, sqrt, where_, zeros, zeros_like,
};
use crate::transforms::value_and_grad;
use crate::tree::{self, Tree};

/// The first step size of a line search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialGuess {
    /// The step size of the last search.
    #[default]
    Keep,
    /// 1.
    One,
}

/// Options of [`scale_by_zoom_linesearch_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ZoomLineSearchOptions {
    /// The largest step size. Without limit by default.
    pub max_learning_rate: Option<f64>,
    /// The error of the conditions that is tolerated. 0 by default.
    pub tol: f64,
    /// The factor by which the step size grows until an interval is found. 2 by default.
    pub increase_factor: f64,
    /// The part of the decrease that the slope predicts which a step must reach. 1e-4 by default.
    pub slope_rtol: f64,
    /// The part of the first slope that the slope after the step may have. 0.9 by default.
    pub curv_rtol: f64,
    /// The relative increase of the value that is tolerated where the values are too close to
    /// compare, and the slopes decide. 1e-6 by default.
    pub approx_dec_rtol: Option<f64>,
    /// The length of the interval at which the search ends. 1e-5 by default.
    pub stepsize_precision: f64,
    /// The first step size.
    pub initial_guess: InitialGuess,
}

impl Default for ZoomLineSearchOptions {
    fn default() -> ZoomLineSearchOptions {
        ZoomLineSearchOptions {
            max_learning_rate: None,
            tol: 0.0,
            increase_factor: 2.0,
            slope_rtol: 1e-4,
            curv_rtol: 0.9,
            approx_dec_rtol: Some(1e-6),
            stepsize_precision: 1e-5,
            initial_guess: InitialGuess::Keep,
        }
    }
}

/// Scales updates by a step size that decreases the loss and flattens its slope sufficiently
/// (Wolfe's strong conditions).
///
/// Call [`Optimizer::update_with`] with the value, the gradient and the function. The state has
/// `learning_rate`, `value` and `grad` at the new parameters, for
/// [`value_and_grad_from_state`](super::value_and_grad_from_state), `num_linesearch_steps`,
/// `decrease_error` and `curvature_error`.
///
/// # Reference
/// Nocedal, Wright: Numerical optimization (2006), algorithms 3.5 and 3.6. Hager, Zhang: Algorithm
/// 851: CG_DESCENT (2006), section 2, for the approximate decrease.
#[doc(alias = "zoom_linesearch")]
pub fn scale_by_zoom_linesearch(max_linesearch_steps: usize) -> Optimizer {
    scale_by_zoom_linesearch_with(max_linesearch_steps, ZoomLineSearchOptions::default())
}

/// Scales updates by a zoom line search, with options.
pub fn scale_by_zoom_linesearch_with(
    max_linesearch_steps: usize,
    options: ZoomLineSearchOptions,
) -> Optimizer {
    Optimizer::new(ZoomLineSearch { max_steps: max_linesearch_steps, options })
}

struct ZoomLineSearch {
    max_steps: usize,
    options: ZoomLineSearchOptions,
}

#[derive(Tree)]
struct ZoomState {
    learning_rate: Array,
    value: Array,
    grad: Leaves,
    num_linesearch_steps: Array,
    decrease_error: Array,
    curvature_error: Array,
}

/// A step size with the value of the loss and its slope there.
#[derive(Tree, Clone)]
struct Point {
    step: Array,
    value: Array,
    slope: Array,
}

impl Point {
    fn select(condition: &Array, yes: &Point, no: &Point) -> Point {
        Point {
            step: where_(condition, &yes.step, &no.step),
            value: where_(condition, &yes.value, &no.value),
            slope: where_(condition, &yes.slope, &no.slope),
        }
    }
}

/// A step size that decreases the loss, with the value and the gradient there.
#[derive(Tree, Clone)]
struct SafeStep {
    step: Array,
    value: Array,
    grad: Leaves,
}

impl SafeStep {
    fn select(condition: &Array, yes: &SafeStep, no: &SafeStep) -> SafeStep {
        SafeStep {
            step: where_(condition, &yes.step, &no.step),
            value: where_(condition, &yes.value, &no.value),
            grad: yes.grad.zip_map([&no.grad], |yes, [no]| where_(condition, yes, no)),
        }
    }
}

/// The state of a search.
#[derive(Tree)]
struct Search {
    count: Array,
    current: Point,
    grad: Leaves,
    decrease_error: Array,
    curvature_error: Array,
    is_interval_found: Array,
    is_done: Array,
    has_failed: Array,
    low: Point,
    high: Point,
    /// A third point for cubic interpolation; its slope is not used.
    reference: Point,
    safe: SafeStep,
}

/// The loss along a direction.
struct Line<'a> {
    args: &'a UpdateArgs<'a>,
    updates: &'a Leaves,
    dtype: DType,
    start: Point,
    options: ZoomLineSearchOptions,
    max_steps: usize,
}

impl GradientTransformation for ZoomLineSearch {
    type State = ZoomState;

    fn init(&self, parameters: &Leaves) -> ZoomState {
        let dtype = parameters.scalar_dtype();
        let infinity = || full(([], dtype), f64::INFINITY);
        ZoomState {
            learning_rate: full(([], dtype), 1.0),
            value: infinity(),
            grad: tree::zeros_like(parameters),
            num_linesearch_steps: zeros(([], DType::I32)),
            decrease_error: infinity(),
            curvature_error: infinity(),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: ZoomState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, ZoomState) {
        let dtype = state.value.dtype();
        let gradient = args.gradient();
        let gradient =
            gradient.zip_map([args.parameters()], |g, [p]| convert_element_type(g, p.dtype()));
        let start = Point {
            step: zeros(([], dtype)),
            value: convert_element_type(&args.value(), dtype),
            slope: convert_element_type(&slope(&updates, &gradient), dtype),
        };
        let guess = match self.options.initial_guess {
            InitialGuess::One => full(([], dtype), 1.0),
            InitialGuess::Keep => state.learning_rate.clone(),
        };
        let line = Line {
            args,
            updates: &updates,
            dtype,
            start: start.clone(),
            options: self.options,
            max_steps: self.max_steps,
        };
        let infinity = full(([], dtype), f64::INFINITY);
        let no = full([], false);
        let first = Search {
            count: zeros(([], DType::I32)),
            current: start.clone(),
            grad: gradient.clone(),
            decrease_error: infinity.clone(),
            curvature_error: infinity,
            is_interval_found: no.clone(),
            is_done: no.clone(),
            has_failed: no,
            low: start.clone(),
            high: start.clone(),
            reference: start.clone(),
            safe: SafeStep { step: start.step, value: start.value, grad: gradient },
        };
        let unfinished =
            |search: &Search| bitwise_not(bitwise_or(&search.is_done, &search.has_failed));
        let last = while_loop(unfinished, |search: &Search| line.next(search, &guess), first);
        // A failed search takes a step that decreases the loss, if it has met one.
        let is_outside = isinf(&last.decrease_error);
        let takes_safe = bitwise_or(gt(&last.safe.step, 0.0), is_outside);
        let takes_safe = bitwise_and(&last.has_failed, takes_safe);
        let reached =
            SafeStep { step: last.current.step, value: last.current.value, grad: last.grad };
        let end = SafeStep::select(&takes_safe, &last.safe, &reached);
        let state = ZoomState {
            learning_rate: end.step.clone(),
            value: end.value,
            grad: end.grad,
            num_linesearch_steps: last.count,
            decrease_error: last.decrease_error,
            curvature_error: last.curvature_error,
        };
        (scaled(&updates, &end.step), state)
    }
}

impl Line<'_> {
    /// Evaluates the loss at the next step size, and updates the interval.
    fn next(&self, search: &Search, guess: &Array) -> Search {
        let ZoomLineSearchOptions { tol, increase_factor, .. } = self.options;
        let is_first = eq(&search.count, 0);
        let larger = where_(&is_first, guess, &search.current.step * increase_factor);
        let (larger, is_at_limit) = match self.options.max_learning_rate {
            Some(limit) => (minimum(&larger, full_like(&larger, limit)), ge(&larger, limit)),
            None => (larger, full([], false)),
        };
        let found = &search.is_interval_found;
        let step = where_(found, search.interpolated(), &larger);
        let (point, grad) = self.at(&step);
        let decrease_error = self.decrease_error(&point);
        let curvature_error = self.curvature_error(&point);
        let error = maximum(&decrease_error, &curvature_error);
        let is_met = le(&error, tol);

        let is_safe = le(&decrease_error, tol);
        let is_better = bitwise_or(bitwise_not(found), lt(&point.value, &search.safe.value));
        let is_safe = bitwise_and(is_safe, is_better);
        let new = SafeStep { step: step.clone(), value: point.value.clone(), grad: grad.clone() };
        let safe = SafeStep::select(&is_safe, &new, &search.safe);

        // The search for an interval.
        let rises = bitwise_and(ge(&point.value, &search.current.value), gt(&search.count, 0));
        let high_is_new = bitwise_or(gt(&decrease_error, 0.0), rises);
        let low_is_new = bitwise_and(ge(&point.slope, 0.0), bitwise_not(&high_is_new));
        let low = Point::select(&low_is_new, &point, &search.current);
        let high = Point::select(&low_is_new, &search.current, &point);
        let now_found = bitwise_or(bitwise_or(&high_is_new, &low_is_new), &is_met);
        let ends_at_limit = bitwise_and(&is_at_limit, bitwise_not(&now_found));

        // The reduction of the interval.
        let above = bitwise_or(gt(&decrease_error, 0.0), ge(&point.value, &search.low.value));
        let secant = &point.slope * (&search.high.step - &search.low.step);
        let flips = bitwise_and(ge(&secant, 0.0), bitwise_not(&above));
        let zoomed_high = Point::select(&above, &point, &search.high);
        let zoomed_high = Point::select(&flips, &search.low, &zoomed_high);
        let zoomed_low = Point::select(&above, &search.low, &point);
        let zoomed_reference =
            Point::select(&bitwise_or(&above, &flips), &search.high, &search.low);

        let length = abs(&(&search.high.step - &search.low.step));
        let is_small = le(&length, self.options.stepsize_precision);
        let is_small = bitwise_and(&is_small, gt(&safe.step, 0.0));
        let is_done = bitwise_or(&is_met, bitwise_and(bitwise_not(found), &ends_at_limit));
        let is_last = ge(&search.count + 1, self.max_steps as i32);
        let gives_up = bitwise_or(&is_last, bitwise_and(found, &is_small));
        Search {
            count: &search.count + 1,
            grad,
            decrease_error,
            curvature_error,
            is_interval_found: bitwise_or(found, &now_found),
            has_failed: bitwise_and(&gives_up, bitwise_not(&is_done)),
            is_done,
            reference: Point::select(found, &zoomed_reference, &low),
            low: Point::select(found, &zoomed_low, &low),
            high: Point::select(found, &zoomed_high, &high),
            current: point,
            safe,
        }
    }

    /// Returns the value, slope and gradient at a step size.
    fn at(&self, step: &Array) -> (Point, Leaves) {
        let parameters = stepped(self.args.parameters(), step, self.updates);
        let value_fn = |parameters: &Leaves| self.args.value_at(parameters);
        let (value, grad) = value_and_grad(value_fn)(&parameters);
        let point = Point {
            step: step.clone(),
            value: convert_element_type(&value, self.dtype),
            slope: convert_element_type(&slope(self.updates, &grad), self.dtype),
        };
        (point, grad)
    }

    fn decrease_error(&self, point: &Point) -> Array {
        let ZoomLineSearchOptions { slope_rtol, approx_dec_rtol, .. } = self.options;
        let start = &self.start;
        let increase = &point.value - &start.value;
        let mut error = &increase - &point.step * slope_rtol * &start.slope;
        if let Some(rtol) = approx_dec_rtol {
            let of_slopes = &point.slope - &start.slope * (2.0 * slope_rtol - 1.0);
            let of_values = increase - abs(&start.value) * rtol;
            error = minimum(maximum(&of_slopes, &of_values), &error);
        }
        finite_error(&error)
    }

    fn curvature_error(&self, point: &Point) -> Array {
        finite_error(&(abs(&point.slope) - abs(&self.start.slope) * self.options.curv_rtol))
    }
}

/// Returns the positive part, and infinity for NaN.
fn finite_error(error: &Array) -> Array {
    let positive = maximum(error, zeros_like(error));
    where_(isnan(&positive), full_like(error, f64::INFINITY), &positive)
}

impl Search {
    /// Returns the next step size in the interval: the minimum of a cubic or a parabola, or the
    /// middle if these are close to the ends.
    fn interpolated(&self) -> Array {
        let (low, high) = (&self.low.step, &self.high.step);
        let (left, right) = (minimum(low, high), maximum(low, high));
        let length = &right - &left;
        let is_inside = |x: &Array, margin: f64| {
            let margin = &length * margin;
            bitwise_and(gt(x, &left + &margin), lt(x, &right - &margin))
        };
        let cubic = self.cubic_minimum();
        let parabola = self.parabola_minimum();
        let middle = (low + high) / 2.0;
        let fallback = where_(is_inside(&parabola, 0.1), &parabola, &middle);
        where_(is_inside(&cubic, 0.2), &cubic, &fallback)
    }

    /// Returns the minimum of the cubic with the value and slope at `low` and the values at `high`
    /// and at the third point.
    fn cubic_minimum(&self) -> Array {
        let Point { step, value, slope } = &self.low;
        let (to_high, to_third) = (&self.high.step - step, &self.reference.step - step);
        let product = &to_high * &to_third;
        let denominator = &product * &product * (&to_high - &to_third);
        let of_high = &self.high.value - value - slope * &to_high;
        let of_third = &self.reference.value - value - slope * &to_third;
        let (square_high, square_third) = (&to_high * &to_high, &to_third * &to_third);
        let a = (&square_third * &of_high - &square_high * &of_third) / &denominator;
        let b =
            (square_high * to_high * of_third - square_third * to_third * of_high) / &denominator;
        let radical = &b * &b - &a * slope * 3.0;
        step + (sqrt(&radical) - b) / (a * 3.0)
    }

    /// Returns the minimum of the parabola with the value and slope at `low` and the value at
    /// `high`.
    fn parabola_minimum(&self) -> Array {
        let Point { step, value, slope } = &self.low;
        let length = &self.high.step - step;
        let b = (&self.high.value - value - slope * &length) / (&length * &length);
        step - slope / (b * 2.0)
    }
}
