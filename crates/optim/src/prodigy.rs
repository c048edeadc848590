//! Prodigy and D-Adaptation: optimizers that estimate their learning rate.

use crate::leaf_arithmetic::{copied, mean, number, power};
use oxidax::optim::{GradientTransformation, Leaves, Optimizer, Schedule, UpdateArgs};
use oxidax::prelude::*;

/// The first estimate in Prodigy's sum of gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "safeguard_warmup")]
pub enum WarmupSafeguard {
    /// Gradients have the weight of the step size.
    #[default]
    Off,
    /// Gradients have the weight of the estimate alone, which keeps it stable during a warm-up.
    On,
}

/// Options of [`prodigy_with`].
#[derive(Clone, Debug)]
pub struct ProdigyOptions {
    /// A factor of the estimated learning rate. 1 by default.
    pub learning_rate: Schedule,
    /// The decay of the mean gradient, per step. 0.9 by default.
    pub beta1: f64,
    /// The decay of the mean squared gradient, per step. 0.999 by default.
    pub beta2: f64,
    /// The decay of the estimate's sums, per step. The root of `beta2` by default.
    pub beta3: Option<f64>,
    /// A constant added to the root mean square. 1e-8 by default.
    pub eps: f64,
    /// The first estimate of the learning rate. 1e-6 by default.
    pub estim_lr0: f64,
    /// A factor of the estimate. 1 by default.
    pub estim_lr_coef: f64,
    /// The part of a parameter that a step subtracts, times the learning rate. 0 by default.
    pub weight_decay: f64,
    /// The weight of gradients in the estimate.
    pub safeguard_warmup: WarmupSafeguard,
}

impl Default for ProdigyOptions {
    fn default() -> ProdigyOptions {
        ProdigyOptions {
            learning_rate: Schedule::from(1.0),
            beta1: 0.9,
            beta2: 0.999,
            beta3: None,
            eps: 1e-8,
            estim_lr0: 1e-6,
            estim_lr_coef: 1.0,
            weight_decay: 0.0,
            safeguard_warmup: WarmupSafeguard::Off,
        }
    }
}

/// Creates Prodigy: Adam with an estimate of the learning rate from the distance to the first
/// parameters. The state has the estimate as `estim_lr`.
///
/// ```
/// use oxidax::prelude::*;
/// let optimizer = oxidax_optim::prodigy();
/// let state = optimizer.init(&ones([2]));
/// assert_eq!(state.value("estim_lr").unwrap().item::<f32>()?, 1e-6);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Mishchenko, Defazio: Prodigy: an expeditiously adaptive parameter-free learner (2023),
/// algorithm 4.
pub fn prodigy() -> Optimizer {
    prodigy_with(ProdigyOptions::default())
}

/// Creates Prodigy with options.
pub fn prodigy_with(options: ProdigyOptions) -> Optimizer {
    Optimizer::new(Prodigy(options))
}

struct Prodigy(ProdigyOptions);

#[derive(Tree)]
struct ProdigyState {
    exp_avg: Leaves,
    exp_avg_sq: Leaves,
    grad_sum: Leaves,
    params0: Leaves,
    estim_lr: Array,
    numerator_weighted: Array,
}

impl GradientTransformation for Prodigy {
    type State = ProdigyState;

    fn init(&self, parameters: &Leaves) -> ProdigyState {
        ProdigyState {
            exp_avg: tree::zeros_like(parameters),
            exp_avg_sq: tree::zeros_like(parameters),
            grad_sum: tree::zeros_like(parameters),
            params0: copied(parameters),
            estim_lr: number(parameters, self.0.estim_lr0),
            numerator_weighted: number(parameters, 0.0),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: ProdigyState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, ProdigyState) {
        let ProdigyOptions { beta1, beta2, eps, estim_lr0, weight_decay, .. } = self.0;
        let beta3 = self.0.beta3.unwrap_or(beta2.sqrt());
        let last = &state.estim_lr;
        let rate = step_size(last, &args.rate(&self.0.learning_rate), args.count(), beta1, beta2);
        let scaled = updates.map(|g| g * last.astype(g.dtype()));
        let moved = state.params0.zip_map([args.parameters()], |first, [now]| first - now);
        let progress = tree::vdot(&updates, &moved).astype(last.dtype());
        let exp_avg = scaled.zip_map([&state.exp_avg], |g, [m]| m * beta1 + g * (1.0 - beta1));
        let exp_avg_sq =
            scaled.zip_map([&state.exp_avg_sq], |g, [v]| v * beta2 + g * (1.0 - beta2) * g);
        let weight = match self.0.safeguard_warmup {
            WarmupSafeguard::On => last,
            WarmupSafeguard::Off => &rate,
        };
        let grad_sum = state
            .grad_sum
            .zip_map([&scaled], |sum, [g]| sum * beta3 + g * weight.astype(g.dtype()) / estim_lr0);
        let numerator_weighted =
            &state.numerator_weighted * beta3 + last / estim_lr0 * &rate * progress;
        let denominator = tree::sum(&grad_sum.map(|sum| abs(sum))).astype(last.dtype());
        let estimate = &numerator_weighted * self.0.estim_lr_coef / denominator;
        let estim_lr = maximum(last, &estimate);
        let steps = exp_avg.zip_map([&exp_avg_sq, args.parameters()], |m, [v, p]| {
            let rate = rate.astype(m.dtype());
            let root = sqrt(v) + estim_lr.astype(m.dtype()) * eps;
            p * &rate * -weight_decay - rate * m / root
        });
        let params0 = state.params0;
        let state =
            ProdigyState { exp_avg, exp_avg_sq, grad_sum, params0, estim_lr, numerator_weighted };
        (steps, state)
    }

    fn schedules(&self) -> Vec<Schedule> {
        vec![self.0.learning_rate.clone()]
    }
}

/// Returns the estimate times the schedule, with the bias of both means corrected.
fn step_size(estimate: &Array, schedule: &Array, count: &Array, beta1: f64, beta2: f64) -> Array {
    let dtype = estimate.dtype();
    let correction = sqrt(1.0 - power(beta2, count, dtype)) / (1.0 - power(beta1, count, dtype));
    estimate * schedule.astype(dtype) * correction
}

/// Options of [`dadapt_adamw_with`].
#[derive(Clone, Debug)]
pub struct DadaptAdamWOptions {
    /// A factor of the estimated learning rate. 1 by default.
    pub learning_rate: Schedule,
    /// The decay of the mean gradient, per step. 0.9 by default.
    pub beta1: f64,
    /// The decay of the mean squared gradient, per step. 0.999 by default.
    pub beta2: f64,
    /// A constant added to the root mean square. 1e-8 by default.
    pub eps: f64,
    /// The first estimate of the learning rate. 1e-6 by default.
    pub estim_lr0: f64,
    /// The part of a parameter that a step subtracts, times the learning rate. 0 by default.
    pub weight_decay: f64,
}

impl Default for DadaptAdamWOptions {
    fn default() -> DadaptAdamWOptions {
        DadaptAdamWOptions {
            learning_rate: Schedule::from(1.0),
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            estim_lr0: 1e-6,
            weight_decay: 0.0,
        }
    }
}

/// Creates AdamW with D-Adaptation: an estimate of the learning rate. The state has the estimate as
/// `estim_lr`.
///
/// # Reference
/// Defazio, Mishchenko: Learning-rate-free learning by D-Adaptation (2023), algorithm 5.
pub fn dadapt_adamw() -> Optimizer {
    dadapt_adamw_with(DadaptAdamWOptions::default())
}

/// Creates AdamW with D-Adaptation, with options.
pub fn dadapt_adamw_with(options: DadaptAdamWOptions) -> Optimizer {
    Optimizer::new(DadaptAdamW(options))
}

struct DadaptAdamW(DadaptAdamWOptions);

#[derive(Tree)]
struct DadaptState {
    exp_avg: Leaves,
    exp_avg_sq: Leaves,
    grad_sum: Leaves,
    estim_lr: Array,
    numerator_weighted: Array,
}

impl GradientTransformation for DadaptAdamW {
    type State = DadaptState;

    fn init(&self, parameters: &Leaves) -> DadaptState {
        DadaptState {
            exp_avg: tree::zeros_like(parameters),
            exp_avg_sq: tree::zeros_like(parameters),
            grad_sum: tree::zeros_like(parameters),
            estim_lr: number(parameters, self.0.estim_lr0),
            numerator_weighted: number(parameters, 0.0),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: DadaptState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, DadaptState) {
        let DadaptAdamWOptions { beta1, beta2, eps, weight_decay, .. } = self.0;
        let root = beta2.sqrt();
        let last = &state.estim_lr;
        let rate = step_size(last, &args.rate(&self.0.learning_rate), args.count(), beta1, beta2);
        let weighted =
            state.grad_sum.zip_map([&state.exp_avg_sq], |sum, [v]| sum / (sqrt(v) + eps));
        let progress = tree::vdot(&updates, &weighted).astype(last.dtype());
        let exp_avg = updates.zip_map([&state.exp_avg], |g, [m]| {
            m * beta1 + rate.astype(g.dtype()) * (1.0 - beta1) * g
        });
        let exp_avg_sq = updates.zip_map([&state.exp_avg_sq], |g, [v]| mean(&g.square(), v, beta2));
        let grad_sum = updates.zip_map([&state.grad_sum], |g, [sum]| {
            sum * root + rate.astype(g.dtype()) * (1.0 - root) * g
        });
        let length = tree::sum(&grad_sum.map(|sum| abs(sum))).astype(last.dtype());
        let numerator_weighted = &state.numerator_weighted * root + &rate * (1.0 - root) * progress;
        let estimate = &numerator_weighted / (length * (1.0 - root));
        let estim_lr = maximum(last, &estimate);
        let steps = exp_avg.zip_map([&exp_avg_sq, args.parameters()], |m, [v, p]| {
            p * rate.astype(m.dtype()) * -weight_decay - m / (sqrt(v) + eps)
        });
        (steps, DadaptState { exp_avg, exp_avg_sq, grad_sum, estim_lr, numerator_weighted })
    }

    fn schedules(&self) -> Vec<Schedule> {
        vec![self.0.learning_rate.clone()]
    }
}
