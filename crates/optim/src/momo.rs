//! MoMo: momentum with a model of the loss.

use crate::leaf_arithmetic::{number, power, squared_norm};
use oxidax::optim::{GradientTransformation, Leaves, Optimizer, Schedule, UpdateArgs};
use oxidax::prelude::*;

/// The lower bound of the loss in [`momo_with`] and [`momo_adam_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "adapt_lower_bound")]
pub enum LowerBound {
    /// It does not change.
    #[default]
    Fixed,
    /// It is estimated from the losses, and at least the given one.
    Adapted,
}

/// Options of [`momo_with`].
#[derive(Clone, Debug)]
pub struct MomoOptions {
    /// The largest step size. 1 by default.
    pub learning_rate: Schedule,
    /// The decay of the mean gradient, per step. 0.9 by default.
    pub beta: f64,
    /// A lower bound of the loss. 0 by default.
    pub lower_bound: f64,
    /// The part of a parameter that a step subtracts, times the learning rate. 0 by default.
    pub weight_decay: f64,
    /// The change of the lower bound.
    pub bound: LowerBound,
}

impl Default for MomoOptions {
    fn default() -> MomoOptions {
        MomoOptions {
            learning_rate: Schedule::from(1.0),
            beta: 0.9,
            lower_bound: 0.0,
            weight_decay: 0.0,
            bound: LowerBound::Fixed,
        }
    }
}

/// Creates MoMo: momentum whose step size follows from a model of the loss.
///
/// Call [`Optimizer::update_with`] with the value.
///
/// # Reference
/// Schaipp, Ohana, Eickenberg, Defazio, Gower: MoMo: momentum models for adaptive learning rates
/// (2023), algorithm 1.
pub fn momo() -> Optimizer {
    momo_with(MomoOptions::default())
}

/// Creates MoMo with options.
pub fn momo_with(options: MomoOptions) -> Optimizer {
    let MomoOptions { learning_rate, beta, lower_bound, weight_decay, bound } = options;
    let model = Model { learning_rate, lower_bound, weight_decay, bound };
    Optimizer::new(Momo { beta, model })
}

/// Options of [`momo_adam_with`].
#[derive(Clone, Debug)]
pub struct MomoAdamOptions {
    /// The largest step size. 0.01 by default.
    pub learning_rate: Schedule,
    /// The decay of the mean gradient, per step. 0.9 by default.
    pub b1: f64,
    /// The decay of the mean squared gradient, per step. 0.999 by default.
    pub b2: f64,
    /// A constant added to the root mean square. 1e-8 by default.
    pub eps: f64,
    /// A lower bound of the loss. 0 by default.
    pub lower_bound: f64,
    /// The part of a parameter that a step subtracts, times the learning rate. 0 by default.
    pub weight_decay: f64,
    /// The change of the lower bound.
    pub bound: LowerBound,
}

impl Default for MomoAdamOptions {
    fn default() -> MomoAdamOptions {
        MomoAdamOptions {
            learning_rate: Schedule::from(0.01),
            b1: 0.9,
            b2: 0.999,
            eps: 1e-8,
            lower_bound: 0.0,
            weight_decay: 0.0,
            bound: LowerBound::Fixed,
        }
    }
}

/// Creates MoMo-Adam: Adam whose step size follows from a model of the loss.
///
/// Call [`Optimizer::update_with`] with the value.
///
/// # Reference
/// Schaipp, Ohana, Eickenberg, Defazio, Gower: MoMo: momentum models for adaptive learning rates
/// (2023), algorithm 2.
pub fn momo_adam() -> Optimizer {
    momo_adam_with(MomoAdamOptions::default())
}

/// Creates MoMo-Adam with options.
pub fn momo_adam_with(options: MomoAdamOptions) -> Optimizer {
    let MomoAdamOptions { learning_rate, b1, b2, eps, lower_bound, weight_decay, bound } = options;
    let model = Model { learning_rate, lower_bound, weight_decay, bound };
    Optimizer::new(MomoAdam { b1, b2, eps, model })
}

/// The model of the loss along the mean gradient.
struct Model {
    learning_rate: Schedule,
    lower_bound: f64,
    weight_decay: f64,
    bound: LowerBound,
}

/// The averages that the model is made of.
struct Averages<'a> {
    value: &'a Array,
    gamma: &'a Array,
    /// The inner product of the mean gradient and the parameters.
    product: &'a Array,
    /// The squared norm of the mean gradient.
    square: &'a Array,
    /// The correction of the bias of the averages.
    correction: &'a Array,
    bound: &'a Array,
}

impl Model {
    /// Returns the step size, the next lower bound, and the part of the parameters that decays.
    fn step(&self, averages: &Averages<'_>, args: &UpdateArgs<'_>) -> (Array, Array, Array) {
        let Averages { value, gamma, product, square, correction, bound } = averages;
        let alpha = args.rate(&self.learning_rate).astype(value.dtype());
        let growth = &alpha * self.weight_decay + 1.0;
        let floor = full_like(bound, self.lower_bound);
        let current = match self.bound {
            LowerBound::Fixed => (*bound).clone(),
            LowerBound::Adapted => {
                let cap = &growth * (*value - *gamma) + *product;
                let lowered = maximum(&cap / (*correction * &growth * 2.0), &floor);
                let is_low = lt(&cap, &growth * *correction * *bound);
                where_(is_low, &lowered, *bound)
            }
        };
        let gap = &growth * (*value - *correction * &current - *gamma) + *product;
        let gap = maximum(&gap, zeros_like(&gap)) / *square;
        // Optax compares with the spacing of f64.
        let gap = where_(le(*square, f64::EPSILON), zeros_like(&gap), &gap);
        let tau = minimum(&alpha / *correction, &gap);
        let next = match self.bound {
            LowerBound::Fixed => (*bound).clone(),
            LowerBound::Adapted => {
                let estimate = (*value + *product - *gamma - &tau * *square * 0.5) / *correction;
                maximum(&estimate, &floor)
            }
        };
        let decay = &alpha * self.weight_decay / growth;
        (tau, next, decay)
    }
}

struct Momo {
    beta: f64,
    model: Model,
}

#[derive(Tree)]
struct MomoState {
    exp_avg: Leaves,
    barf: Array,
    gamma: Array,
    lb: Array,
}

impl GradientTransformation for Momo {
    type State = MomoState;

    fn init(&self, parameters: &Leaves) -> MomoState {
        MomoState {
            exp_avg: tree::zeros_like(parameters),
            barf: number(parameters, 0.0),
            gamma: number(parameters, 0.0),
            lb: number(parameters, self.model.lower_bound),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: MomoState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, MomoState) {
        let parameters = args.parameters();
        let dtype = state.barf.dtype();
        let is_first = eq(args.count(), 1);
        let beta = where_(&is_first, number(parameters, 0.0), number(parameters, self.beta));
        let averaged = |old: &Array, new: &Array| {
            let beta = beta.astype(old.dtype());
            &beta * old + (1.0 - &beta) * new
        };
        let barf = averaged(&state.barf, &args.value().astype(dtype));
        let exp_avg = updates.zip_map([&state.exp_avg], |g, [m]| averaged(m, g));
        let overlap = tree::vdot(&updates, parameters).astype(dtype);
        let gamma = averaged(&state.gamma, &overlap);
        let square = squared_norm(&exp_avg).astype(dtype);
        let product = tree::vdot(&exp_avg, parameters).astype(dtype);
        let averages = Averages {
            value: &barf,
            gamma: &gamma,
            product: &product,
            square: &square,
            correction: &number(parameters, 1.0),
            bound: &state.lb,
        };
        let (tau, lb, decay) = self.model.step(&averages, args);
        let steps = exp_avg.zip_map([parameters], |m, [p]| {
            -(decay.astype(p.dtype()) * p) - tau.astype(m.dtype()) * m
        });
        (steps, MomoState { exp_avg, barf, gamma, lb })
    }

    fn schedules(&self) -> Vec<Schedule> {
        vec![self.model.learning_rate.clone()]
    }
}

struct MomoAdam {
    b1: f64,
    b2: f64,
    eps: f64,
    model: Model,
}

#[derive(Tree)]
struct MomoAdamState {
    exp_avg: Leaves,
    exp_avg_sq: Leaves,
    barf: Array,
    gamma: Array,
    lb: Array,
}

impl GradientTransformation for MomoAdam {
    type State = MomoAdamState;

    fn init(&self, parameters: &Leaves) -> MomoAdamState {
        MomoAdamState {
            exp_avg: tree::zeros_like(parameters),
            exp_avg_sq: tree::zeros_like(parameters),
            barf: number(parameters, 0.0),
            gamma: number(parameters, 0.0),
            lb: number(parameters, self.model.lower_bound),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: MomoAdamState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, MomoAdamState) {
        let MomoAdam { b1, b2, eps, .. } = *self;
        let parameters = args.parameters();
        let dtype = state.barf.dtype();
        let averaged = |old: &Array, new: &Array, decay: f64| old * decay + new * (1.0 - decay);
        let barf = averaged(&state.barf, &args.value().astype(dtype), b1);
        let exp_avg = updates.zip_map([&state.exp_avg], |g, [m]| averaged(m, g, b1));
        let exp_avg_sq = updates.zip_map([&state.exp_avg_sq], |g, [v]| v * b2 + g * (1.0 - b2) * g);
        let correction = 1.0 - power(b2, args.count(), dtype);
        let scale = exp_avg_sq.map(|v| sqrt(v / correction.astype(v.dtype())) + eps);
        let weighted = exp_avg.zip_map([&scale], |m, [scale]| m / scale);
        let square = tree::vdot(&exp_avg, &weighted).astype(dtype);
        let overlap = tree::vdot(&updates, parameters).astype(dtype);
        let gamma = averaged(&state.gamma, &overlap, b1);
        let product = tree::vdot(&exp_avg, parameters).astype(dtype);
        let averages = Averages {
            value: &barf,
            gamma: &gamma,
            product: &product,
            square: &square,
            correction: &(1.0 - power(b1, args.count(), dtype)),
            bound: &state.lb,
        };
        let (tau, lb, decay) = self.model.step(&averages, args);
        let steps = exp_avg.zip_map([&scale, parameters], |m, [scale, p]| {
            -(decay.astype(p.dtype()) * p) - tau.astype(m.dtype()) * m / scale
        });
        (steps, MomoAdamState { exp_avg, exp_avg_sq, barf, gamma, lb })
    }

    fn schedules(&self) -> Vec<Schedule> {
        vec![self.model.learning_rate.clone()]
    }
}
