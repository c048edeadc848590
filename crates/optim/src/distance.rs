//! Optimizers whose step sizes follow from the distance to the first parameters: DoG, DoWG and
//! COCOB.

use crate::leaf_arithmetic::{copied, number, scaled, squared_norm};
use oxidax::optim::{
    AddDecayedWeightsOptions, GradientTransformation, Leaves, Mask, Optimizer, Schedule, UpdateArgs,
};
use oxidax::prelude::*;

/// The first step of [`dog_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DogInitStep {
    /// The first distance.
    Distance(f64),
    /// The learning rate of the first step.
    LearningRate(f64),
    /// The first distance relative to one plus the norm of the parameters.
    Heuristic(f64),
}

/// Options of [`dog_with`].
#[derive(Clone, Debug)]
pub struct DogOptions {
    /// A factor of the step. 1 by default.
    pub learning_rate: Schedule,
    /// The first step. A heuristic of 1e-6 by default.
    pub init_step: DogInitStep,
    /// A constant added to the sum of squared norms. 1e-8 by default.
    pub eps: f64,
    /// The part of a parameter that is added to its gradient. None by default.
    pub weight_decay: Option<f64>,
    /// The leaves that decay. All trained leaves by default.
    pub mask: Mask,
}

impl Default for DogOptions {
    fn default() -> DogOptions {
        DogOptions {
            learning_rate: Schedule::from(1.0),
            init_step: DogInitStep::Heuristic(1e-6),
            eps: 1e-8,
            weight_decay: None,
            mask: Mask::all(),
        }
    }
}

/// Creates DoG: gradient descent whose step size is the largest distance from the first parameters,
/// divided by the root of the sum of squared norms of the gradients.
///
/// # Reference
/// Ivgi, Hinder, Carmon: DoG is SGD's best friend: a parameter-free dynamic step size schedule
/// (2023), equation 2.
pub fn dog() -> Optimizer {
    dog_with(DogOptions::default())
}

/// Creates DoG with options.
pub fn dog_with(options: DogOptions) -> Optimizer {
    let scale = Optimizer::new(ScaleByDog { init_step: options.init_step, eps: options.eps });
    chained(options.weight_decay, options.mask, scale, options.learning_rate)
}

fn chained(
    weight_decay: Option<f64>,
    mask: Mask,
    scale: Optimizer,
    learning_rate: Schedule,
) -> Optimizer {
    let decay = weight_decay
        .map(|decay| optim::add_decayed_weights_with(decay, AddDecayedWeightsOptions { mask }));
    let rate = optim::scale_by_learning_rate(learning_rate);
    optim::chain([decay, Some(scale), Some(rate)].into_iter().flatten())
}

struct ScaleByDog {
    init_step: DogInitStep,
    eps: f64,
}

#[derive(Tree)]
struct DogState {
    init_params: Leaves,
    max_dist: Array,
    sum_sq_norm_grads: Array,
}

impl GradientTransformation for ScaleByDog {
    type State = DogState;

    fn init(&self, parameters: &Leaves) -> DogState {
        let max_dist = match self.init_step {
            DogInitStep::Distance(distance) => number(parameters, distance),
            DogInitStep::LearningRate(_) => number(parameters, 0.0),
            DogInitStep::Heuristic(part) => (tree::norm(parameters) + 1.0) * part,
        };
        DogState {
            init_params: copied(parameters),
            max_dist,
            sum_sq_norm_grads: number(parameters, 0.0),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: DogState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, DogState) {
        let moved = state.init_params.zip_map([args.parameters()], |first, [now]| first - now);
        let dtype = state.sum_sq_norm_grads.dtype();
        let max_dist = maximum(&state.max_dist, tree::norm(&moved));
        let sum = &state.sum_sq_norm_grads + squared_norm(&updates).astype(dtype);
        let mut rate = &max_dist / sqrt(&sum + self.eps);
        if let DogInitStep::LearningRate(first) = self.init_step {
            rate = where_(eq(args.count(), 1), full_like(&rate, first), &rate);
        }
        let init_params = state.init_params;
        (scaled(&updates, &rate), DogState { init_params, max_dist, sum_sq_norm_grads: sum })
    }
}

/// Options of [`dowg_with`].
#[derive(Clone, Debug)]
pub struct DowgOptions {
    /// A factor of the step. 1 by default.
    pub learning_rate: Schedule,
    /// The first estimate of the squared distance. `eps` by default.
    pub init_estim_sq_dist: Option<f64>,
    /// A constant added to the root of the weighted sum. 1e-4 by default.
    pub eps: f64,
    /// The part of a parameter that is added to its gradient. None by default.
    pub weight_decay: Option<f64>,
    /// The leaves that decay. All trained leaves by default.
    pub mask: Mask,
}

impl Default for DowgOptions {
    fn default() -> DowgOptions {
        DowgOptions {
            learning_rate: Schedule::from(1.0),
            init_estim_sq_dist: None,
            eps: 1e-4,
            weight_decay: None,
            mask: Mask::all(),
        }
    }
}

/// Creates DoWG: distance over weighted gradients.
///
/// # Reference
/// Khaled, Mishchenko, Jin: DoWG unleashed: an efficient universal parameter-free gradient descent
/// method (2023), algorithm 1.
pub fn dowg() -> Optimizer {
    dowg_with(DowgOptions::default())
}

/// Creates DoWG with options.
pub fn dowg_with(options: DowgOptions) -> Optimizer {
    let eps = options.eps;
    let first = options.init_estim_sq_dist.unwrap_or(eps);
    chained(
        options.weight_decay,
        options.mask,
        Optimizer::new(ScaleByDowg { first, eps }),
        options.learning_rate,
    )
}

struct ScaleByDowg {
    first: f64,
    eps: f64,
}

#[derive(Tree)]
struct DowgState {
    init_params: Leaves,
    weighted_sq_norm_grads: Array,
    estim_sq_dist: Array,
}

impl GradientTransformation for ScaleByDowg {
    type State = DowgState;

    fn init(&self, parameters: &Leaves) -> DowgState {
        DowgState {
            init_params: copied(parameters),
            weighted_sq_norm_grads: number(parameters, 0.0),
            estim_sq_dist: number(parameters, self.first),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: DowgState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, DowgState) {
        let moved = state.init_params.zip_map([args.parameters()], |first, [now]| first - now);
        let dtype = state.estim_sq_dist.dtype();
        let estim_sq_dist = maximum(&state.estim_sq_dist, squared_norm(&moved).astype(dtype));
        let square = squared_norm(&updates).astype(dtype);
        let weighted_sq_norm_grads = &estim_sq_dist * square + &state.weighted_sq_norm_grads;
        let rate = &estim_sq_dist / (sqrt(&weighted_sq_norm_grads) + self.eps);
        let init_params = state.init_params;
        let state = DowgState { init_params, weighted_sq_norm_grads, estim_sq_dist };
        (scaled(&updates, &rate), state)
    }
}

/// Options of [`cocob_with`].
#[derive(Clone, Debug)]
pub struct CocobOptions {
    /// A factor of the gradients. 1 by default.
    pub learning_rate: Schedule,
    /// The options of the scaling.
    pub scaling: ScaleByCocobOptions,
    /// The part of a parameter that is added to its gradient. 0 by default.
    pub weight_decay: f64,
    /// The leaves that decay. All trained leaves by default.
    pub mask: Mask,
}

impl Default for CocobOptions {
    fn default() -> CocobOptions {
        CocobOptions {
            learning_rate: Schedule::from(1.0),
            scaling: ScaleByCocobOptions::default(),
            weight_decay: 0.0,
            mask: Mask::all(),
        }
    }
}

/// Options of [`scale_by_cocob_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleByCocobOptions {
    /// The least number of largest gradients in the sum of a bet. 100 by default.
    pub alpha: f64,
    /// The first largest gradient. 1e-8 by default.
    pub eps: f64,
}

impl Default for ScaleByCocobOptions {
    fn default() -> ScaleByCocobOptions {
        ScaleByCocobOptions { alpha: 100.0, eps: 1e-8 }
    }
}

/// Creates COCOB, which bets on coordinates like on coins, without a learning rate.
///
/// # Reference
/// Orabona, Tommasi: Training deep networks without learning rates through coin betting (2017),
/// algorithm 2.
pub fn cocob() -> Optimizer {
    cocob_with(CocobOptions::default())
}

/// Creates COCOB with options.
pub fn cocob_with(options: CocobOptions) -> Optimizer {
    let CocobOptions { learning_rate, scaling, weight_decay, mask } = options;
    optim::chain([
        optim::add_decayed_weights_with(weight_decay, AddDecayedWeightsOptions { mask }),
        optim::scale(learning_rate),
        scale_by_cocob_with(scaling),
    ])
}

/// Replaces gradients by the steps of COCOB, in the direction of descent.
pub fn scale_by_cocob() -> Optimizer {
    scale_by_cocob_with(ScaleByCocobOptions::default())
}

/// Replaces gradients by the steps of COCOB, with options.
pub fn scale_by_cocob_with(options: ScaleByCocobOptions) -> Optimizer {
    Optimizer::new(ScaleByCocob(options))
}

struct ScaleByCocob(ScaleByCocobOptions);

#[derive(Tree)]
struct CocobState {
    init_particles: Leaves,
    cumulative_gradients: Leaves,
    scale: Leaves,
    subgradients: Leaves,
    reward: Leaves,
}

impl GradientTransformation for ScaleByCocob {
    type State = CocobState;

    fn init(&self, parameters: &Leaves) -> CocobState {
        CocobState {
            init_particles: copied(parameters),
            cumulative_gradients: tree::zeros_like(parameters),
            scale: parameters.map(|p| full((p.shape(), p.dtype()), self.0.eps)),
            subgradients: tree::zeros_like(parameters),
            reward: tree::zeros_like(parameters),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: CocobState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, CocobState) {
        let alpha = self.0.alpha;
        let parameters = args.parameters();
        let scale = updates.zip_map([&state.scale], |g, [scale]| maximum(scale, abs(g)));
        let subgradients = updates.zip_map([&state.subgradients], |g, [sum]| sum + abs(g));
        let reward = updates.zip_map(
            [parameters, &state.init_particles, &state.reward],
            |g, [now, first, reward]| maximum(reward - g * (now - first), 0.0),
        );
        let sums = updates.zip_map([&state.cumulative_gradients], |g, [sum]| sum - g);
        let others = [&state.init_particles, &sums, &scale, &subgradients, &reward];
        let steps = parameters.zip_map(others, |now, [first, sum, scale, subgradient, reward]| {
            let bound = scale * maximum(subgradient + scale, scale * alpha);
            -now + (first + sum / bound * (scale + reward))
        });
        let init_particles = state.init_particles;
        let state =
            CocobState { init_particles, cumulative_gradients: sums, scale, subgradients, reward };
        (steps, state)
    }
}
