//! AdEMAMix and its simplified form.

use crate::leaf_arithmetic::mean;
use oxidax::optim::{
    AddDecayedWeightsOptions, GradientTransformation, Leaves, Mask, Optimizer, Schedule, UpdateArgs,
};
use oxidax::prelude::*;

/// Returns `sqrt(square + eps_root) + eps`.
fn root(square: &Array, eps_root: f64, eps: f64) -> Array {
    if eps_root == 0.0 { sqrt(square) + eps } else { sqrt(square + eps_root) + eps }
}

/// Chains a scaling with decoupled weight decay and a learning rate.
pub(crate) fn decayed(
    scaling: Optimizer,
    weight_decay: f64,
    mask: Mask,
    learning_rate: impl Into<Schedule>,
) -> Optimizer {
    optim::chain([
        scaling,
        optim::add_decayed_weights_with(weight_decay, AddDecayedWeightsOptions { mask }),
        optim::scale_by_learning_rate(learning_rate),
    ])
}

/// Options of [`ademamix_with`].
#[derive(Clone, Debug)]
pub struct AdemamixOptions {
    /// The options of the scaling. `alpha` is 5 by default.
    pub scaling: ScaleByAdemamixOptions,
    /// The part of a parameter that a step subtracts, times the learning rate. 0 by default.
    pub weight_decay: f64,
    /// The leaves that decay. All trained leaves by default.
    pub mask: Mask,
}

impl Default for AdemamixOptions {
    fn default() -> AdemamixOptions {
        let scaling = ScaleByAdemamixOptions { alpha: Schedule::from(5.0), ..Default::default() };
        AdemamixOptions { scaling, weight_decay: 0.0, mask: Mask::all() }
    }
}

/// Options of [`scale_by_ademamix_with`].
#[derive(Clone, Debug)]
pub struct ScaleByAdemamixOptions {
    /// The decay of the fast mean gradient, per step. 0.9 by default.
    pub b1: f64,
    /// The decay of the mean squared gradient, per step. 0.999 by default.
    pub b2: f64,
    /// The decay of the slow mean gradient, per step. 0.9999 by default.
    pub b3: Schedule,
    /// The factor of the slow mean. 6 by default.
    pub alpha: Schedule,
    /// A constant added to the root mean square. 1e-8 by default.
    pub eps: f64,
    /// A constant added to the mean square under the root. 0 by default.
    pub eps_root: f64,
    /// The dtype of the means. The dtype of the parameter by default.
    pub mu_dtype: Option<DType>,
}

impl Default for ScaleByAdemamixOptions {
    fn default() -> ScaleByAdemamixOptions {
        ScaleByAdemamixOptions {
            b1: 0.9,
            b2: 0.999,
            b3: Schedule::from(0.9999),
            alpha: Schedule::from(6.0),
            eps: 1e-8,
            eps_root: 0.0,
            mu_dtype: None,
        }
    }
}

/// Creates AdEMAMix: Adam with a second, slow mean of the gradient.
///
/// # Reference
/// Pagliardini, Ablin, Grangier: The AdEMAMix optimizer: better, faster, older (2024),
/// algorithm 1.
pub fn ademamix(learning_rate: impl Into<Schedule>) -> Optimizer {
    ademamix_with(learning_rate, AdemamixOptions::default())
}

/// Creates AdEMAMix with options.
pub fn ademamix_with(learning_rate: impl Into<Schedule>, options: AdemamixOptions) -> Optimizer {
    let AdemamixOptions { scaling, weight_decay, mask } = options;
    decayed(scale_by_ademamix_with(scaling), weight_decay, mask, learning_rate)
}

/// Scales updates as AdEMAMix does, without weight decay and learning rate.
pub fn scale_by_ademamix() -> Optimizer {
    scale_by_ademamix_with(ScaleByAdemamixOptions::default())
}

/// Scales updates as AdEMAMix does, with options.
pub fn scale_by_ademamix_with(options: ScaleByAdemamixOptions) -> Optimizer {
    Optimizer::new(ScaleByAdemamix(options))
}

struct ScaleByAdemamix(ScaleByAdemamixOptions);

#[derive(Tree)]
struct AdemamixState {
    m1: Leaves,
    m2: Leaves,
    nu: Leaves,
}

impl GradientTransformation for ScaleByAdemamix {
    type State = AdemamixState;

    fn init(&self, parameters: &Leaves) -> AdemamixState {
        let means = || parameters.map(|p| zeros((p.shape(), self.0.mu_dtype.unwrap_or(p.dtype()))));
        AdemamixState { m1: means(), m2: means(), nu: means() }
    }

    fn update(
        &self,
        updates: Leaves,
        state: AdemamixState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, AdemamixState) {
        let ScaleByAdemamixOptions { b1, b2, eps, eps_root, .. } = self.0;
        let (b3, alpha) = (args.rate(&self.0.b3), args.rate(&self.0.alpha));
        let m1 = updates.zip_map([&state.m1], |g, [m]| mean(g, m, b1));
        let m2 = updates.zip_map([&state.m2], |g, [m]| {
            let b3 = b3.astype(m.dtype());
            g * (1.0 - &b3) + m * &b3
        });
        let nu = updates.zip_map([&state.nu], |g, [v]| mean(&g.square(), v, b2));
        let fast = args.bias_correction(&m1, b1);
        let square = args.bias_correction(&nu, b2);
        let updates = fast.zip_map([&m2, &square], |fast, [slow, square]| {
            (fast + slow * alpha.astype(slow.dtype())) / root(square, eps_root, eps)
        });
        (updates, AdemamixState { m1, m2, nu })
    }

    fn schedules(&self) -> Vec<Schedule> {
        vec![self.0.b3.clone(), self.0.alpha.clone()]
    }
}

/// Options of [`simplified_ademamix_with`].
#[derive(Clone, Debug)]
pub struct SimplifiedAdemamixOptions {
    /// The options of the scaling.
    pub scaling: ScaleBySimplifiedAdemamixOptions,
    /// The part of a parameter that a step subtracts, times the learning rate. 0 by default.
    pub weight_decay: f64,
    /// The leaves that decay. All trained leaves by default.
    pub mask: Mask,
}

impl Default for SimplifiedAdemamixOptions {
    fn default() -> SimplifiedAdemamixOptions {
        let scaling = ScaleBySimplifiedAdemamixOptions::default();
        SimplifiedAdemamixOptions { scaling, weight_decay: 0.0, mask: Mask::all() }
    }
}

/// Options of [`scale_by_simplified_ademamix_with`].
#[derive(Clone, Debug)]
pub struct ScaleBySimplifiedAdemamixOptions {
    /// The decay of the sum of gradients, per step. 0.99 by default.
    pub b1: f64,
    /// The decay of the mean squared gradient, per step. 0.95 by default.
    pub b2: f64,
    /// The factor of the current gradient. 0 by default.
    pub alpha: Schedule,
    /// A constant added to the root mean square. 1e-8 by default.
    pub eps: f64,
    /// A constant added to the mean square under the root. 0 by default.
    pub eps_root: f64,
}

impl Default for ScaleBySimplifiedAdemamixOptions {
    fn default() -> ScaleBySimplifiedAdemamixOptions {
        ScaleBySimplifiedAdemamixOptions {
            b1: 0.99,
            b2: 0.95,
            alpha: Schedule::from(0.0),
            eps: 1e-8,
            eps_root: 0.0,
        }
    }
}

/// Creates AdEMAMix with one sum of gradients and the current gradient.
///
/// # Reference
/// Morwani et al.: Connections between schedule-free optimizers, AdEMAMix, and accelerated SGD
/// variants (2025), section 5.
pub fn simplified_ademamix(learning_rate: impl Into<Schedule>) -> Optimizer {
    simplified_ademamix_with(learning_rate, SimplifiedAdemamixOptions::default())
}

/// Creates simplified AdEMAMix with options.
pub fn simplified_ademamix_with(
    learning_rate: impl Into<Schedule>,
    options: SimplifiedAdemamixOptions,
) -> Optimizer {
    let SimplifiedAdemamixOptions { scaling, weight_decay, mask } = options;
    decayed(scale_by_simplified_ademamix_with(scaling), weight_decay, mask, learning_rate)
}

/// Scales updates as simplified AdEMAMix does, without weight decay and learning rate.
pub fn scale_by_simplified_ademamix() -> Optimizer {
    scale_by_simplified_ademamix_with(ScaleBySimplifiedAdemamixOptions::default())
}

/// Scales updates as simplified AdEMAMix does, with options.
pub fn scale_by_simplified_ademamix_with(options: ScaleBySimplifiedAdemamixOptions) -> Optimizer {
    Optimizer::new(ScaleBySimplifiedAdemamix(options))
}

struct ScaleBySimplifiedAdemamix(ScaleBySimplifiedAdemamixOptions);

#[derive(Tree)]
struct SimplifiedState {
    m: Leaves,
    n: Leaves,
}

impl GradientTransformation for ScaleBySimplifiedAdemamix {
    type State = SimplifiedState;

    fn init(&self, parameters: &Leaves) -> SimplifiedState {
        SimplifiedState { m: tree::zeros_like(parameters), n: tree::zeros_like(parameters) }
    }

    fn update(
        &self,
        updates: Leaves,
        state: SimplifiedState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, SimplifiedState) {
        let ScaleBySimplifiedAdemamixOptions { b1, b2, eps, eps_root, .. } = self.0;
        let alpha = args.rate(&self.0.alpha);
        let m = updates.zip_map([&state.m], |g, [m]| g + m * b1);
        let n = updates.zip_map([&state.n], |g, [n]| {
            let square = g.square();
            &square + (n - &square) * b2
        });
        let square = args.bias_correction(&n, b2);
        let updates = updates.zip_map([&m, &square], |g, [m, square]| {
            (m + g * alpha.astype(g.dtype())) / root(square, eps_root, eps)
        });
        (updates, SimplifiedState { m, n })
    }

    fn schedules(&self) -> Vec<Schedule> {
        vec![self.0.alpha.clone()]
    }
}
