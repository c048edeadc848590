//! ACProp, ADOPT and MADGRAD.

use crate::ademamix::decayed;
use crate::leaf_arithmetic::{copied, mean};
use oxidax::optim::{GradientTransformation, Leaves, Mask, Optimizer, Schedule, UpdateArgs};
use oxidax::prelude::*;

/// Options of [`acprop_with`].
#[derive(Clone, Debug)]
pub struct AcpropOptions {
    /// The options of the scaling.
    pub scaling: ScaleByAcpropOptions,
    /// The part of a parameter that a step subtracts, times the learning rate. 0 by default.
    pub weight_decay: f64,
    /// The leaves that decay. All trained leaves by default.
    pub mask: Mask,
}

impl Default for AcpropOptions {
    fn default() -> AcpropOptions {
        let scaling = ScaleByAcpropOptions::default();
        AcpropOptions { scaling, weight_decay: 0.0, mask: Mask::all() }
    }
}

/// Options of [`scale_by_acprop_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleByAcpropOptions {
    /// The decay of the mean gradient, per step. 0.9 by default.
    pub b1: f64,
    /// The decay of the variance, per step. 0.999 by default.
    pub b2: f64,
    /// A constant added to the deviation. 1e-16 by default.
    pub eps: f64,
    /// A constant added to the variance. 1e-16 by default.
    pub eps_root: f64,
}

impl Default for ScaleByAcpropOptions {
    fn default() -> ScaleByAcpropOptions {
        ScaleByAcpropOptions { b1: 0.9, b2: 0.999, eps: 1e-16, eps_root: 1e-16 }
    }
}

/// Creates ACProp: gradients divided by the deviation of earlier gradients from their mean.
///
/// # Reference
/// Zhuang et al.: Momentum centering and asynchronous update for adaptive gradient methods (2021),
/// algorithm 1.
pub fn acprop(learning_rate: impl Into<Schedule>) -> Optimizer {
    acprop_with(learning_rate, AcpropOptions::default())
}

/// Creates ACProp with options.
pub fn acprop_with(learning_rate: impl Into<Schedule>, options: AcpropOptions) -> Optimizer {
    let AcpropOptions { scaling, weight_decay, mask } = options;
    decayed(scale_by_acprop_with(scaling), weight_decay, mask, learning_rate)
}

/// Scales updates as ACProp does, without weight decay and learning rate.
pub fn scale_by_acprop() -> Optimizer {
    scale_by_acprop_with(ScaleByAcpropOptions::default())
}

/// Scales updates as ACProp does, with options.
pub fn scale_by_acprop_with(options: ScaleByAcpropOptions) -> Optimizer {
    Optimizer::new(ScaleByAcprop(options))
}

struct ScaleByAcprop(ScaleByAcpropOptions);

#[derive(Tree)]
struct MeansState {
    mu: Leaves,
    nu: Leaves,
}

impl GradientTransformation for ScaleByAcprop {
    type State = MeansState;

    fn init(&self, parameters: &Leaves) -> MeansState {
        MeansState { mu: tree::zeros_like(parameters), nu: tree::zeros_like(parameters) }
    }

    fn update(
        &self,
        updates: Leaves,
        state: MeansState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, MeansState) {
        let ScaleByAcpropOptions { b1, b2, eps, eps_root } = self.0;
        let mu = updates.zip_map([&state.mu], |g, [m]| mean(g, m, b1));
        let nu = updates
            .zip_map([&state.mu, &state.nu], |g, [m, v]| mean(&(g - m).square(), v, b2) + eps_root);
        // The variance of the steps before this one.
        let is_first = eq(args.count(), 1);
        let before = where_(&is_first, ones_like(args.count()), args.count() - 1);
        let square = optim::bias_correction(&state.nu, b2, &before);
        let updates = updates.zip_map([&square], |g, [square]| {
            g / (sqrt(where_(&is_first, ones_like(square), square)) + eps)
        });
        (updates, MeansState { mu, nu })
    }
}

/// Options of [`adopt_with`] and [`scale_by_adopt_with`].
#[derive(Clone, Debug)]
pub struct AdoptOptions {
    /// The decay of the mean, per step. 0.9 by default.
    pub b1: f64,
    /// The decay of the mean square, per step. 0.9999 by default.
    pub b2: f64,
    /// The least root mean square. 1e-6 by default.
    pub eps: f64,
    /// The dtype of the mean. The dtype of the parameter by default.
    pub mu_dtype: Option<DType>,
    /// Uses Nesterov's momentum.
    pub nesterov: bool,
    /// The largest normalized gradient at a number of updates, or `None`. The fourth root of the
    /// number by default.
    pub clip_value: Option<Schedule>,
}

impl Default for AdoptOptions {
    fn default() -> AdoptOptions {
        let quarter = |count: &Array| pow(count.astype(DType::F32), 0.25);
        AdoptOptions {
            b1: 0.9,
            b2: 0.9999,
            eps: 1e-6,
            mu_dtype: None,
            nesterov: false,
            clip_value: Some(Schedule::new(quarter)),
        }
    }
}

/// Creates ADOPT: Adam that normalizes a gradient by the mean square of the earlier ones, and
/// converges with any `b2`.
///
/// # Reference
/// Taniguchi et al.: ADOPT: modified Adam can converge with any β₂ with the optimal rate (2024),
/// algorithm 2.
pub fn adopt(learning_rate: impl Into<Schedule>) -> Optimizer {
    adopt_with(learning_rate, AdoptOptions::default())
}

/// Creates ADOPT with options.
pub fn adopt_with(learning_rate: impl Into<Schedule>, options: AdoptOptions) -> Optimizer {
    scale_by_adopt_with(options).chain(optim::scale_by_learning_rate(learning_rate))
}

/// Scales updates as ADOPT does, without the learning rate.
pub fn scale_by_adopt() -> Optimizer {
    scale_by_adopt_with(AdoptOptions::default())
}

/// Scales updates as ADOPT does, with options.
pub fn scale_by_adopt_with(options: AdoptOptions) -> Optimizer {
    Optimizer::new(ScaleByAdopt(options))
}

struct ScaleByAdopt(AdoptOptions);

impl GradientTransformation for ScaleByAdopt {
    type State = MeansState;

    fn init(&self, parameters: &Leaves) -> MeansState {
        let mu = parameters.map(|p| zeros((p.shape(), self.0.mu_dtype.unwrap_or(p.dtype()))));
        MeansState { mu, nu: tree::zeros_like(parameters) }
    }

    fn update(
        &self,
        updates: Leaves,
        state: MeansState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, MeansState) {
        let AdoptOptions { b1, b2, eps, nesterov, .. } = self.0;
        let is_first = eq(args.count(), 1);
        let nu = updates.zip_map([&state.nu], |g, [v]| {
            let square = g.square();
            where_(&is_first, &square, mean(&square, v, b2))
        });
        let limit = self.0.clip_value.as_ref().map(|limit| args.rate(limit));
        let normalized = updates.zip_map([&state.nu], |g, [v]| {
            let normalized = g / maximum(sqrt(v), eps);
            match &limit {
                None => normalized,
                Some(limit) => {
                    let limit = limit.astype(g.dtype());
                    maximum(minimum(&normalized, &limit), -&limit)
                }
            }
        });
        // The mean begins with the second gradient.
        let averaged = |means: &Leaves| {
            normalized.zip_map([means], |x, [m]| where_(&is_first, m, mean(x, m, b1)))
        };
        let mu = averaged(&state.mu);
        let updates = if nesterov { averaged(&mu) } else { mu.clone() };
        (updates, MeansState { mu, nu })
    }

    fn schedules(&self) -> Vec<Schedule> {
        self.0.clip_value.iter().cloned().collect()
    }
}

/// Options of [`madgrad_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MadgradOptions {
    /// The options of the scaling.
    pub scaling: ScaleByMadgradOptions,
    /// The part of a parameter that is added to its gradient. 0 by default.
    pub weight_decay: f64,
}

impl Default for MadgradOptions {
    fn default() -> MadgradOptions {
        MadgradOptions { scaling: ScaleByMadgradOptions::default(), weight_decay: 0.0 }
    }
}

/// Options of [`scale_by_madgrad_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleByMadgradOptions {
    /// The decay of the momentum. 0.9 by default.
    pub momentum: f64,
    /// A constant added to the root and to the learning rate. 1e-6 by default.
    pub eps: f64,
}

impl Default for ScaleByMadgradOptions {
    fn default() -> ScaleByMadgradOptions {
        ScaleByMadgradOptions { momentum: 0.9, eps: 1e-6 }
    }
}

/// Creates MADGRAD: momentized, adaptive dual averaging.
///
/// # Reference
/// Defazio, Jelassi: Adaptivity without compromise: a momentumized, adaptive, dual averaged
/// gradient method for stochastic optimization (2021), algorithm 1.
pub fn madgrad(learning_rate: impl Into<Schedule>) -> Optimizer {
    madgrad_with(learning_rate, MadgradOptions::default())
}

/// Creates MADGRAD with options.
pub fn madgrad_with(learning_rate: impl Into<Schedule>, options: MadgradOptions) -> Optimizer {
    let scaling = scale_by_madgrad_with(learning_rate, options.scaling);
    optim::add_decayed_weights(options.weight_decay).chain(scaling)
}

/// Replaces gradients by the steps of MADGRAD, in the direction of descent.
pub fn scale_by_madgrad(learning_rate: impl Into<Schedule>) -> Optimizer {
    scale_by_madgrad_with(learning_rate, ScaleByMadgradOptions::default())
}

/// Replaces gradients by the steps of MADGRAD, with options.
pub fn scale_by_madgrad_with(
    learning_rate: impl Into<Schedule>,
    options: ScaleByMadgradOptions,
) -> Optimizer {
    Optimizer::new(ScaleByMadgrad { learning_rate: learning_rate.into(), options })
}

struct ScaleByMadgrad {
    learning_rate: Schedule,
    options: ScaleByMadgradOptions,
}

#[derive(Tree)]
struct MadgradState {
    grad_sum_sq: Leaves,
    s: Leaves,
    x0: Leaves,
}

impl GradientTransformation for ScaleByMadgrad {
    type State = MadgradState;

    fn init(&self, parameters: &Leaves) -> MadgradState {
        MadgradState {
            grad_sum_sq: tree::zeros_like(parameters),
            s: tree::zeros_like(parameters),
            x0: copied(parameters),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: MadgradState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, MadgradState) {
        let ScaleByMadgradOptions { momentum, eps } = self.options;
        let rate = args.rate(&self.learning_rate) + eps;
        let weight = rate * sqrt(args.count().astype(DType::F32));
        let grad_sum_sq = updates
            .zip_map([&state.grad_sum_sq], |g, [sum]| sum + weight.astype(g.dtype()) * g.square());
        let s = updates.zip_map([&state.s], |g, [sum]| sum + weight.astype(g.dtype()) * g);
        let steps = args.parameters().zip_map([&state.x0, &s, &grad_sum_sq], |x, [x0, s, sum]| {
            let z = x0 - s / (cbrt(sum) + eps);
            z * (1.0 - momentum) + x * momentum - x
        });
        (steps, MadgradState { grad_sum_sq, s, x0: state.x0 })
    }

    fn schedules(&self) -> Vec<Schedule> {
        vec![self.learning_rate.clone()]
    }
}
