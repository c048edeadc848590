//! AMSGrad, Yogi and Adan.

use super::adam::{absolute_square, decayed_mean, root};
use super::gradient_transformation::{GradientTransformation, UpdateArgs};
use super::leaves::Leaves;
use super::mask::Mask;
use super::optimizer::{Optimizer, chain};
use super::schedule::Schedule;
use super::sgd::{AddDecayedWeightsOptions, add_decayed_weights_with, scale_by_learning_rate};
use crate::core::{Array, DType};
use crate::primitives::{eq, full, maximum, sign, where_, zeros, zeros_like};
use crate::tree::{self, Tree};

/// Options of [`amsgrad_with`] and [`scale_by_amsgrad_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AmsgradOptions {
    /// The decay of the mean gradient, per step. 0.9 by default.
    pub b1: f64,
    /// The decay of the mean squared gradient, per step. 0.999 by default.
    pub b2: f64,
    /// A constant added to the root mean square. 1e-8 by default.
    pub eps: f64,
    /// A constant added to the mean square under the root. 0 by default.
    pub eps_root: f64,
    /// The dtype of the mean. The dtype of the parameter by default.
    pub mu_dtype: Option<DType>,
    /// Corrects the bias of the mean. True by default.
    pub bias_correction_mu: bool,
    /// Corrects the bias of the mean square. True by default.
    pub bias_correction_nu: bool,
}

impl Default for AmsgradOptions {
    fn default() -> AmsgradOptions {
        AmsgradOptions {
            b1: 0.9,
            b2: 0.999,
            eps: 1e-8,
            eps_root: 0.0,
            mu_dtype: None,
            bias_correction_mu: true,
            bias_correction_nu: true,
        }
    }
}

/// Creates AMSGrad: Adam that divides by the root of the largest mean square so far.
///
/// # Reference
/// Reddi, Kale, Kumar: On the convergence of Adam and beyond (2018), algorithm 2.
pub fn amsgrad(learning_rate: impl Into<Schedule>) -> Optimizer {
    amsgrad_with(learning_rate, AmsgradOptions::default())
}

/// Creates AMSGrad with options.
pub fn amsgrad_with(learning_rate: impl Into<Schedule>, options: AmsgradOptions) -> Optimizer {
    scale_by_amsgrad_with(options).chain(scale_by_learning_rate(learning_rate))
}

/// Scales updates as AMSGrad does, without the learning rate.
pub fn scale_by_amsgrad() -> Optimizer {
    scale_by_amsgrad_with(AmsgradOptions::default())
}

/// Scales updates as AMSGrad does, with options.
pub fn scale_by_amsgrad_with(options: AmsgradOptions) -> Optimizer {
    Optimizer::new(ScaleByAmsgrad(options))
}

struct ScaleByAmsgrad(AmsgradOptions);

#[derive(Tree)]
struct AmsgradState {
    mu: Leaves,
    nu: Leaves,
    nu_max: Leaves,
}

impl GradientTransformation for ScaleByAmsgrad {
    type State = AmsgradState;

    fn init(&self, parameters: &Leaves) -> AmsgradState {
        let squares = || parameters.map(|p| zeros((p.shape(), p.dtype().real())));
        let mu = parameters.map(|p| zeros((p.shape(), self.0.mu_dtype.unwrap_or(p.dtype()))));
        AmsgradState { mu, nu: squares(), nu_max: squares() }
    }

    fn update(
        &self,
        updates: Leaves,
        state: AmsgradState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, AmsgradState) {
        let AmsgradOptions { b1, b2, eps, eps_root, .. } = self.0;
        let mu = updates.zip_map([&state.mu], |g, [mu]| decayed_mean(g, mu, b1));
        let nu = updates.zip_map([&state.nu], |g, [nu]| decayed_mean(&absolute_square(g), nu, b2));
        let mean =
            if self.0.bias_correction_mu { args.bias_correction(&mu, b1) } else { mu.clone() };
        let square =
            if self.0.bias_correction_nu { args.bias_correction(&nu, b2) } else { nu.clone() };
        let nu_max = state.nu_max.zip_map([&square], |largest, [nu]| maximum(largest, nu));
        let updates = mean.zip_map([&nu_max], |mu, [nu]| mu / root(nu, eps_root, eps));
        (updates, AmsgradState { mu, nu, nu_max })
    }
}

/// Options of [`yogi_with`] and [`scale_by_yogi_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct YogiOptions {
    /// The decay of the mean gradient, per step. 0.9 by default.
    pub b1: f64,
    /// The decay of the mean squared gradient, per step. 0.999 by default.
    pub b2: f64,
    /// A constant added to the root mean square. 1e-3 by default.
    pub eps: f64,
    /// A constant added to the mean square under the root. 0 by default.
    pub eps_root: f64,
    /// The first value of both means. 1e-6 by default.
    pub initial_accumulator_value: f64,
}

impl Default for YogiOptions {
    fn default() -> YogiOptions {
        YogiOptions {
            b1: 0.9,
            b2: 0.999,
            eps: 1e-3,
            eps_root: 0.0,
            initial_accumulator_value: 1e-6,
        }
    }
}

/// Creates Yogi: Adam whose mean square changes by a bounded amount per step.
///
/// # Reference
/// Zaheer et al.: Adaptive methods for nonconvex optimization (2018), algorithm 2.
pub fn yogi(learning_rate: impl Into<Schedule>) -> Optimizer {
    yogi_with(learning_rate, YogiOptions::default())
}

/// Creates Yogi with options.
pub fn yogi_with(learning_rate: impl Into<Schedule>, options: YogiOptions) -> Optimizer {
    scale_by_yogi_with(options).chain(scale_by_learning_rate(learning_rate))
}

/// Scales updates as Yogi does, without the learning rate.
pub fn scale_by_yogi() -> Optimizer {
    scale_by_yogi_with(YogiOptions::default())
}

/// Scales updates as Yogi does, with options.
pub fn scale_by_yogi_with(options: YogiOptions) -> Optimizer {
    Optimizer::new(ScaleByYogi(options))
}

struct ScaleByYogi(YogiOptions);

#[derive(Tree)]
struct MomentsState {
    mu: Leaves,
    nu: Leaves,
}

impl GradientTransformation for ScaleByYogi {
    type State = MomentsState;

    fn init(&self, parameters: &Leaves) -> MomentsState {
        let first = self.0.initial_accumulator_value;
        MomentsState {
            mu: parameters.map(|p| full((p.shape(), p.dtype()), first)),
            nu: parameters.map(|p| full((p.shape(), p.dtype().real()), first)),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: MomentsState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, MomentsState) {
        let YogiOptions { b1, b2, eps, eps_root, .. } = self.0;
        let mu = updates.zip_map([&state.mu], |g, [mu]| decayed_mean(g, mu, b1));
        let nu = updates.zip_map([&state.nu], |g, [nu]| {
            let square = absolute_square(g);
            nu - sign(&(nu - &square)) * (1.0 - b2) * square
        });
        let mean = args.bias_correction(&mu, b1);
        let square = args.bias_correction(&nu, b2);
        let updates = mean.zip_map([&square], |mu, [nu]| mu / root(nu, eps_root, eps));
        (updates, MomentsState { mu, nu })
    }
}

/// Options of [`adan_with`].
#[derive(Clone, Debug)]
pub struct AdanOptions {
    /// The options of the scaling. `eps_root` is 1e-8 by default.
    pub scaling: ScaleByAdanOptions,
    /// The part of a parameter that a step subtracts, times the learning rate. 0 by default.
    pub weight_decay: f64,
    /// The leaves that decay. All trained leaves by default.
    pub mask: Mask,
}

impl Default for AdanOptions {
    fn default() -> AdanOptions {
        let scaling = ScaleByAdanOptions { eps_root: 1e-8, ..ScaleByAdanOptions::default() };
        AdanOptions { scaling, weight_decay: 0.0, mask: Mask::all() }
    }
}

/// Options of [`scale_by_adan_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleByAdanOptions {
    /// The decay of the mean gradient, per step. 0.98 by default.
    pub b1: f64,
    /// The decay of the mean difference of gradients, per step. 0.92 by default.
    pub b2: f64,
    /// The decay of the mean square, per step. 0.99 by default.
    pub b3: f64,
    /// A constant added to the root mean square. 1e-8 by default.
    pub eps: f64,
    /// A constant added to the mean square under the root. 0 by default.
    pub eps_root: f64,
}

impl Default for ScaleByAdanOptions {
    fn default() -> ScaleByAdanOptions {
        ScaleByAdanOptions { b1: 0.98, b2: 0.92, b3: 0.99, eps: 1e-8, eps_root: 0.0 }
    }
}

/// Creates Adan: Adam with Nesterov's momentum, computed from differences of gradients.
///
/// # Reference
/// Xie et al.: Adan: adaptive Nesterov momentum algorithm for faster optimizing deep models (2022),
/// algorithm 1.
pub fn adan(learning_rate: impl Into<Schedule>) -> Optimizer {
    adan_with(learning_rate, AdanOptions::default())
}

/// Creates Adan with options.
pub fn adan_with(learning_rate: impl Into<Schedule>, options: AdanOptions) -> Optimizer {
    let AdanOptions { scaling, weight_decay, mask } = options;
    chain([
        scale_by_adan_with(scaling),
        add_decayed_weights_with(weight_decay, AddDecayedWeightsOptions { mask }),
        scale_by_learning_rate(learning_rate),
    ])
}

/// Scales updates as Adan does, without weight decay and learning rate.
pub fn scale_by_adan() -> Optimizer {
    scale_by_adan_with(ScaleByAdanOptions::default())
}

/// Scales updates as Adan does, with options.
pub fn scale_by_adan_with(options: ScaleByAdanOptions) -> Optimizer {
    Optimizer::new(ScaleByAdan(options))
}

struct ScaleByAdan(ScaleByAdanOptions);

#[derive(Tree)]
struct AdanState {
    /// The mean gradient.
    m: Leaves,
    /// The mean difference of gradients.
    v: Leaves,
    /// The mean square.
    n: Leaves,
    /// The last gradient.
    g: Leaves,
}

impl GradientTransformation for ScaleByAdan {
    type State = AdanState;

    fn init(&self, parameters: &Leaves) -> AdanState {
        let zeros_of = || tree::zeros_like(parameters);
        let n = parameters.map(|p| zeros((p.shape(), p.dtype().real())));
        AdanState { m: zeros_of(), v: zeros_of(), n, g: zeros_of() }
    }

    fn update(&self, g: Leaves, state: AdanState, args: &UpdateArgs<'_>) -> (Leaves, AdanState) {
        let ScaleByAdanOptions { b1, b2, b3, eps, eps_root } = self.0;
        let is_first: Array = eq(args.count(), 1);
        let difference =
            g.zip_map([&state.g], |g, [last]| where_(&is_first, zeros_like(g), &(g - last)));
        let m = g.zip_map([&state.m], |g, [m]| decayed_mean(g, m, b1));
        let v = difference.zip_map([&state.v], |d, [v]| decayed_mean(d, v, b2));
        let ahead = g.zip_map([&difference], |g, [d]| g + d * (1.0 - b2));
        let n = ahead.zip_map([&state.n], |x, [n]| decayed_mean(&absolute_square(x), n, b3));
        let mean = args.bias_correction(&m, b1);
        let change = args.bias_correction(&v, b2);
        let square = args.bias_correction(&n, b3);
        let updates = mean
            .zip_map([&change, &square], |m, [v, n]| (m + v * (1.0 - b2)) / root(n, eps_root, eps));
        (updates, AdanState { m, v, n, g })
    }
}
