//! Adadelta, Rprop, SM3 and NovoGrad.

use super::adam::{absolute_square, decayed_mean, root};
use super::gradient_transformation::{GradientTransformation, UpdateArgs};
use super::leaves::Leaves;
use super::mask::Mask;
use super::optimizer::{Optimizer, chain};
use super::schedule::Schedule;
use super::sgd::{
    AddDecayedWeightsOptions, add_decayed_weights_with, scale, scale_by_learning_rate,
};
use crate::core::{Array, DType};
use crate::primitives::{
    clamp, eq, full, full_like, gt, lt, minimum, reduce_max, reshape, rsqrt, sign, sqrt, where_,
    zeros, zeros_like,
};
use crate::tree::{self, Tree};

/// Options of [`adadelta_with`].
#[derive(Clone, Debug)]
pub struct AdadeltaOptions {
    /// The decay of both mean squares, per step. 0.9 by default.
    pub rho: f64,
    /// A constant added to the mean squares. 1e-6 by default.
    pub eps: f64,
    /// The part of a parameter that is added to its gradient. 0 by default.
    pub weight_decay: f64,
    /// The leaves that decay. All trained leaves by default.
    pub weight_decay_mask: Mask,
}

impl Default for AdadeltaOptions {
    fn default() -> AdadeltaOptions {
        AdadeltaOptions { rho: 0.9, eps: 1e-6, weight_decay: 0.0, weight_decay_mask: Mask::all() }
    }
}

/// Creates Adadelta: gradients are multiplied by the ratio of the root mean squares of updates and
/// gradients.
///
/// # Reference
/// Zeiler: Adadelta: an adaptive learning rate method (2012), algorithm 1.
pub fn adadelta(learning_rate: impl Into<Schedule>) -> Optimizer {
    adadelta_with(learning_rate, AdadeltaOptions::default())
}

/// Creates Adadelta with options.
pub fn adadelta_with(learning_rate: impl Into<Schedule>, options: AdadeltaOptions) -> Optimizer {
    let AdadeltaOptions { rho, eps, weight_decay, weight_decay_mask: mask } = options;
    chain([
        add_decayed_weights_with(weight_decay, AddDecayedWeightsOptions { mask }),
        scale_by_adadelta_with(ScaleByAdadeltaOptions { rho, eps }),
        scale_by_learning_rate(learning_rate),
    ])
}

/// Options of [`scale_by_adadelta_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleByAdadeltaOptions {
    /// The decay of both mean squares, per step. 0.9 by default.
    pub rho: f64,
    /// A constant added to the mean squares. 1e-6 by default.
    pub eps: f64,
}

impl Default for ScaleByAdadeltaOptions {
    fn default() -> ScaleByAdadeltaOptions {
        ScaleByAdadeltaOptions { rho: 0.9, eps: 1e-6 }
    }
}

/// Scales updates as Adadelta does, without weight decay and learning rate.
pub fn scale_by_adadelta() -> Optimizer {
    scale_by_adadelta_with(ScaleByAdadeltaOptions::default())
}

/// Scales updates as Adadelta does, with options.
pub fn scale_by_adadelta_with(options: ScaleByAdadeltaOptions) -> Optimizer {
    Optimizer::new(ScaleByAdadelta(options))
}

struct ScaleByAdadelta(ScaleByAdadeltaOptions);

#[derive(Tree)]
struct AdadeltaState {
    /// The mean squared gradient.
    e_g: Leaves,
    /// The mean squared update.
    e_x: Leaves,
}

impl GradientTransformation for ScaleByAdadelta {
    type State = AdadeltaState;

    fn init(&self, parameters: &Leaves) -> AdadeltaState {
        AdadeltaState { e_g: tree::zeros_like(parameters), e_x: tree::zeros_like(parameters) }
    }

    fn update(
        &self,
        updates: Leaves,
        state: AdadeltaState,
        _: &UpdateArgs<'_>,
    ) -> (Leaves, AdadeltaState) {
        let ScaleByAdadeltaOptions { rho, eps } = self.0;
        let e_g = updates.zip_map([&state.e_g], |g, [mean]| decayed_mean(&(g * g), mean, rho));
        let updates = updates.zip_map([&e_g, &state.e_x], |g, [e_g, e_x]| {
            sqrt(&(e_x + eps)) / sqrt(&(e_g + eps)) * g
        });
        let e_x = updates.zip_map([&state.e_x], |x, [mean]| decayed_mean(&(x * x), mean, rho));
        (updates, AdadeltaState { e_g, e_x })
    }
}

/// Options of [`rprop_with`] and [`scale_by_rprop_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RpropOptions {
    /// The factor of a step size whose gradient has changed its sign. 0.5 by default.
    pub eta_minus: f64,
    /// The factor of a step size whose gradient has kept its sign. 1.2 by default.
    pub eta_plus: f64,
    /// The least step size. 1e-6 by default.
    pub min_step_size: f64,
    /// The largest step size. 50 by default.
    pub max_step_size: f64,
}

impl Default for RpropOptions {
    fn default() -> RpropOptions {
        RpropOptions { eta_minus: 0.5, eta_plus: 1.2, min_step_size: 1e-6, max_step_size: 50.0 }
    }
}

/// Creates resilient propagation: each coordinate has a step size, which grows while the gradient
/// keeps its sign. Use it with full batches. As in Optax, the first update is zero, and each
/// gradient decides on the step of the one before.
///
/// # Reference
/// Riedmiller, Braun: A direct adaptive method for faster backpropagation learning: the RPROP
/// algorithm (1993). Igel, Hüsken: Empirical evaluation of the improved Rprop learning algorithms
/// (2003), iRprop-.
pub fn rprop(learning_rate: f64) -> Optimizer {
    rprop_with(learning_rate, RpropOptions::default())
}

/// Creates resilient propagation with options.
pub fn rprop_with(learning_rate: f64, options: RpropOptions) -> Optimizer {
    scale_by_rprop_with(learning_rate, options).chain(scale(-1.0))
}

/// Replaces updates by the steps of resilient propagation, in the direction of the gradient. The
/// first step size is `learning_rate`.
pub fn scale_by_rprop(learning_rate: f64) -> Optimizer {
    scale_by_rprop_with(learning_rate, RpropOptions::default())
}

/// Replaces updates by the steps of resilient propagation, with options.
pub fn scale_by_rprop_with(learning_rate: f64, options: RpropOptions) -> Optimizer {
    Optimizer::new(ScaleByRprop { learning_rate, options })
}

struct ScaleByRprop {
    learning_rate: f64,
    options: RpropOptions,
}

#[derive(Tree)]
struct RpropState {
    step_sizes: Leaves,
    prev_updates: Leaves,
}

impl GradientTransformation for ScaleByRprop {
    type State = RpropState;

    fn init(&self, parameters: &Leaves) -> RpropState {
        RpropState {
            step_sizes: parameters.map(|p| full((p.shape(), p.dtype()), self.learning_rate)),
            prev_updates: tree::zeros_like(parameters),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: RpropState,
        _: &UpdateArgs<'_>,
    ) -> (Leaves, RpropState) {
        let RpropOptions { eta_minus, eta_plus, min_step_size, max_step_size } = self.options;
        let product = updates.zip_map([&state.prev_updates], |g, [last]| g * last);
        let step_sizes = state.step_sizes.zip_map([&product], |size, [product]| {
            let factor =
                where_(gt(product, 0.0), full_like(size, eta_plus), full_like(size, eta_minus));
            let (low, high) = (full_like(size, min_step_size), full_like(size, max_step_size));
            where_(eq(product, 0.0), size, clamp(low, size * factor, high))
        });
        let prev_updates = updates.zip_map([&product, &step_sizes], |g, [product, size]| {
            where_(lt(product, 0.0), zeros_like(g), size * sign(g))
        });
        // As in Optax, a step is taken when the next gradient confirms its sign.
        let updates = product.zip_map([&state.prev_updates], |product, [last]| {
            where_(lt(product, 0.0), zeros_like(last), last)
        });
        (updates, RpropState { step_sizes, prev_updates })
    }
}

/// Creates SM3 with momentum 0.9: Adagrad whose sums of squares are stored per row and column.
///
/// Throws `Op` for complex parameters.
///
/// # Reference
/// Anil, Gupta, Koren, Singer: Memory-efficient adaptive optimization (2019), algorithm SM3-II.
pub fn sm3(learning_rate: impl Into<Schedule>) -> Optimizer {
    sm3_with(learning_rate, ScaleBySm3Options::default())
}

/// Creates SM3 with options.
pub fn sm3_with(learning_rate: impl Into<Schedule>, options: ScaleBySm3Options) -> Optimizer {
    scale_by_sm3_with(options).chain(scale_by_learning_rate(learning_rate))
}

/// Options of [`sm3_with`] and [`scale_by_sm3_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleBySm3Options {
    /// The decay of the mean update, per step. 0.9 by default.
    pub b1: f64,
    /// The decay of the sums of squares, per step. 1 by default: they do not decay.
    pub b2: f64,
    /// A constant added to the sums of squares. 1e-8 by default.
    pub eps: f64,
}

impl Default for ScaleBySm3Options {
    fn default() -> ScaleBySm3Options {
        ScaleBySm3Options { b1: 0.9, b2: 1.0, eps: 1e-8 }
    }
}

/// Scales updates as SM3 does, without the learning rate.
pub fn scale_by_sm3() -> Optimizer {
    scale_by_sm3_with(ScaleBySm3Options::default())
}

/// Scales updates as SM3 does, with options.
pub fn scale_by_sm3_with(options: ScaleBySm3Options) -> Optimizer {
    Optimizer::new(ScaleBySm3(options))
}

struct ScaleBySm3(ScaleBySm3Options);

#[derive(Tree)]
struct Sm3State {
    /// For each leaf the sums along each axis.
    mu: Vec<Vec<Array>>,
    nu: Leaves,
}

impl GradientTransformation for ScaleBySm3 {
    type State = Sm3State;

    fn init(&self, parameters: &Leaves) -> Sm3State {
        let rows = |p: &Array| {
            let sizes = p.shape().dims().iter();
            sizes.map(|&size| zeros(([size], p.dtype()))).collect()
        };
        let mu = parameters.values().iter().map(rows).collect();
        Sm3State { mu, nu: tree::zeros_like(parameters) }
    }

    fn update(&self, updates: Leaves, state: Sm3State, _: &UpdateArgs<'_>) -> (Leaves, Sm3State) {
        let ScaleBySm3Options { b1, b2, eps } = self.0;
        let mut next = Vec::with_capacity(state.mu.len());
        let mut mus = state.mu.iter();
        let scaled = updates.map(|g| {
            let mu = mus.next().expect("one for every leaf");
            let expanded = mu.iter().enumerate().map(|(axis, sums)| {
                let mut dims = vec![1; g.rank()];
                dims[axis] = sums.size();
                reshape(sums, dims)
            });
            let square = if b2 == 1.0 { g * g } else { g * g * (1.0 - b2) };
            let sum = match expanded.reduce(|a, b| minimum(&a, &b)) {
                Some(least) => square + least * b2,
                None => square,
            };
            next.push((0..g.rank()).map(|axis| largest_along(&sum, axis)).collect());
            g * where_(gt(&sum, 0.0), rsqrt(&(&sum + eps)), zeros_like(&sum))
        });
        let nu = scaled.zip_map([&state.nu], |x, [nu]| decayed_mean(x, nu, b1));
        (nu.clone(), Sm3State { mu: next, nu })
    }
}

/// Returns the largest element at each index of an axis.
fn largest_along(x: &Array, axis: usize) -> Array {
    let others: Vec<isize> = (0..x.rank()).filter(|i| *i != axis).map(|i| i as isize).collect();
    if others.is_empty() { x.clone() } else { reduce_max(x, &others) }
}

/// Options of [`novograd_with`] and [`scale_by_novograd_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NovogradOptions {
    /// The decay of the mean, per step. 0.9 by default.
    pub b1: f64,
    /// The decay of the squared norm of each leaf, per step. 0.25 by default.
    pub b2: f64,
    /// A constant added to the norm. 1e-6 by default.
    pub eps: f64,
    /// A constant added to the squared norm under the root. 0 by default.
    pub eps_root: f64,
    /// The part of a parameter that is added to its normalized gradient. 0 by default.
    pub weight_decay: f64,
    /// The dtype of the mean. The dtype of the parameter by default.
    pub mu_dtype: Option<DType>,
}

impl Default for NovogradOptions {
    fn default() -> NovogradOptions {
        NovogradOptions {
            b1: 0.9,
            b2: 0.25,
            eps: 1e-6,
            eps_root: 0.0,
            weight_decay: 0.0,
            mu_dtype: None,
        }
    }
}

/// Creates NovoGrad: momentum of gradients that are divided by the norm of their leaf.
///
/// # Reference
/// Ginsburg et al.: Stochastic gradient methods with layer-wise adaptive moments for training of
/// deep networks (2019), algorithm 1.
pub fn novograd(learning_rate: impl Into<Schedule>) -> Optimizer {
    novograd_with(learning_rate, NovogradOptions::default())
}

/// Creates NovoGrad with options.
pub fn novograd_with(learning_rate: impl Into<Schedule>, options: NovogradOptions) -> Optimizer {
    scale_by_novograd_with(options).chain(scale_by_learning_rate(learning_rate))
}

/// Scales updates as NovoGrad does, without the learning rate. `eps` is 1e-8.
pub fn scale_by_novograd() -> Optimizer {
    scale_by_novograd_with(NovogradOptions { eps: 1e-8, ..NovogradOptions::default() })
}

/// Scales updates as NovoGrad does, with options.
pub fn scale_by_novograd_with(options: NovogradOptions) -> Optimizer {
    Optimizer::new(ScaleByNovograd(options))
}

struct ScaleByNovograd(NovogradOptions);

#[derive(Tree)]
struct NovogradState {
    mu: Leaves,
    /// The mean squared norm of each leaf.
    nu: Leaves,
}

impl GradientTransformation for ScaleByNovograd {
    type State = NovogradState;

    fn init(&self, parameters: &Leaves) -> NovogradState {
        NovogradState {
            mu: parameters.map(|p| zeros((p.shape(), self.0.mu_dtype.unwrap_or(p.dtype())))),
            nu: parameters.map(|p| zeros(([], p.dtype().real()))),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: NovogradState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, NovogradState) {
        let NovogradOptions { b1, b2, eps, eps_root, weight_decay, .. } = self.0;
        let is_first = eq(args.count(), 1);
        let nu = updates.zip_map([&state.nu], |g, [nu]| {
            let square = absolute_square(g).sum();
            where_(&is_first, &square, decayed_mean(&square, nu, b2))
        });
        let normalized = updates.zip_map([&nu, args.parameters()], |g, [nu, parameter]| {
            let normalized = g / root(nu, eps_root, eps);
            if weight_decay == 0.0 { normalized } else { normalized + parameter * weight_decay }
        });
        let mu = normalized.zip_map([&state.mu], |x, [mu]| where_(&is_first, x, mu * b1 + x));
        (mu.clone(), NovogradState { mu, nu })
    }
}
