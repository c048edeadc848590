//! Adam, AdamW and NAdam.

use super::leaves::Leaf;
use super::mask::Mask;
use super::optimizer::{Optimizer, chain};
use super::schedule::Schedule;
use super::sgd::{
    AddDecayedWeightsOptions, add_decayed_weights_with, scale_by_learning_rate, zero_slot,
};
use super::slots::{Slots, Step, Transformation, next_count};
use crate::core::{Array, DType};
use crate::primitives::{imag, real, sqrt, zeros};

/// Options of [`adam_with`] and [`scale_by_adam_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamOptions {
    /// The decay of the mean gradient, per step. 0.9 by default.
    pub b1: f64,
    /// The decay of the mean squared gradient, per step. 0.999 by default.
    pub b2: f64,
    /// A constant added to the root mean square, in units of the gradient. 1e-8 by default.
    pub eps: f64,
    /// A constant added to the mean square under the root, in units of the squared gradient. 0 by
    /// default. Set it to differentiate through the optimizer: the root is not differentiable at 0.
    pub eps_root: f64,
    /// Uses Nesterov's momentum, as NAdam does.
    pub nesterov: bool,
    /// The dtype of the mean. The dtype of the parameter by default.
    pub mu_dtype: Option<DType>,
    /// The dtype of the mean square. The dtype of the parameter by default. Use `f32` for `bf16`
    /// parameters: a decay of 0.999 does not change a `bf16` number.
    pub nu_dtype: Option<DType>,
}

impl Default for AdamOptions {
    fn default() -> AdamOptions {
        AdamOptions {
            b1: 0.9,
            b2: 0.999,
            eps: 1e-8,
            eps_root: 0.0,
            nesterov: false,
            mu_dtype: None,
            nu_dtype: None,
        }
    }
}

/// Options of [`adamw_with`].
///
/// ```
/// use oxidax::optim::{AdamWOptions, Mask};
/// use oxidax::prelude::*;
/// let options = AdamWOptions {
///     b2: 0.95,
///     weight_decay: 0.1,
///     mask: Mask::new(|path, _| path.ends_with("weight")),
///     ..AdamWOptions::default()
/// };
/// let optimizer = optim::adamw_with(3e-4, options);
/// ```
#[derive(Clone, Debug)]
pub struct AdamWOptions {
    /// The decay of the mean gradient, per step. 0.9 by default.
    pub b1: f64,
    /// The decay of the mean squared gradient, per step. 0.999 by default.
    pub b2: f64,
    /// A constant added to the root mean square, in units of the gradient. 1e-8 by default.
    pub eps: f64,
    /// A constant added to the mean square under the root. 0 by default; see
    /// [`AdamOptions::eps_root`].
    pub eps_root: f64,
    /// The part of a parameter that a step subtracts, times the learning rate. 1e-4 by default.
    pub weight_decay: f64,
    /// The leaves that decay. All trained leaves by default.
    pub mask: Mask,
    /// Uses Nesterov's momentum, as NAdamW does.
    pub nesterov: bool,
    /// The dtype of the mean. The dtype of the parameter by default.
    pub mu_dtype: Option<DType>,
    /// The dtype of the mean square. The dtype of the parameter by default; see
    /// [`AdamOptions::nu_dtype`].
    pub nu_dtype: Option<DType>,
}

impl Default for AdamWOptions {
    fn default() -> AdamWOptions {
        let AdamOptions { b1, b2, eps, eps_root, nesterov, mu_dtype, nu_dtype } =
            AdamOptions::default();
        let (weight_decay, mask) = (1e-4, Mask::all());
        AdamWOptions { b1, b2, eps, eps_root, weight_decay, mask, nesterov, mu_dtype, nu_dtype }
    }
}

/// Creates Adam: steps along the mean gradient, each coordinate divided by its root mean square.
///
/// # Reference
/// Kingma, Ba: Adam: a method for stochastic optimization (2015), algorithm 1.
pub fn adam(learning_rate: impl Into<Schedule>) -> Optimizer {
    adam_with(learning_rate, AdamOptions::default())
}

/// Creates Adam with options.
pub fn adam_with(learning_rate: impl Into<Schedule>, options: AdamOptions) -> Optimizer {
    scale_by_adam_with(options).chain(scale_by_learning_rate(learning_rate))
}

/// Creates AdamW: Adam with decoupled weight decay of 1e-4, times the learning rate, on every
/// trained leaf.
///
/// # Reference
/// Loshchilov, Hutter: Decoupled weight decay regularization (2019), algorithm 2.
pub fn adamw(learning_rate: impl Into<Schedule>) -> Optimizer {
    adamw_with(learning_rate, AdamWOptions::default())
}

/// Creates AdamW with options.
pub fn adamw_with(learning_rate: impl Into<Schedule>, options: AdamWOptions) -> Optimizer {
    let AdamWOptions { b1, b2, eps, eps_root, weight_decay, mask, nesterov, mu_dtype, nu_dtype } =
        options;
    let adam = AdamOptions { b1, b2, eps, eps_root, nesterov, mu_dtype, nu_dtype };
    let decay = (weight_decay != 0.0)
        .then(|| add_decayed_weights_with(weight_decay, AddDecayedWeightsOptions { mask }));
    let links =
        [Some(scale_by_adam_with(adam)), decay, Some(scale_by_learning_rate(learning_rate))];
    chain(links.into_iter().flatten())
}

/// Creates NAdam: Adam with Nesterov's momentum.
///
/// # Reference
/// Dozat: Incorporating Nesterov momentum into Adam (2016), algorithm 2, without its second factor
/// `b2`.
pub fn nadam(learning_rate: impl Into<Schedule>) -> Optimizer {
    adam_with(learning_rate, AdamOptions { nesterov: true, ..AdamOptions::default() })
}

/// Creates NAdam with options. The option `nesterov` is not used.
pub fn nadam_with(learning_rate: impl Into<Schedule>, options: AdamOptions) -> Optimizer {
    adam_with(learning_rate, AdamOptions { nesterov: true, ..options })
}

/// Creates NAdamW with options. The option `nesterov` is not used.
pub fn nadamw_with(learning_rate: impl Into<Schedule>, options: AdamWOptions) -> Optimizer {
    adamw_with(learning_rate, AdamWOptions { nesterov: true, ..options })
}

/// Creates NAdamW: [`nadam`] with decoupled weight decay of 1e-4.
pub fn nadamw(learning_rate: impl Into<Schedule>) -> Optimizer {
    adamw_with(learning_rate, AdamWOptions { nesterov: true, ..AdamWOptions::default() })
}

/// Scales updates as Adam does, without weight decay and learning rate.
pub fn scale_by_adam() -> Optimizer {
    scale_by_adam_with(AdamOptions::default())
}

/// Scales updates as Adam does, with options.
pub fn scale_by_adam_with(options: AdamOptions) -> Optimizer {
    Optimizer::one(ScaleByAdam(options))
}

#[derive(Debug)]
struct ScaleByAdam(AdamOptions);

impl Transformation for ScaleByAdam {
    fn init(&self, leaves: &[Leaf], slots: &mut Slots<'_>) {
        create_moments(leaves, slots, self.0.mu_dtype, self.0.nu_dtype);
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], slots: &mut Slots<'_>) {
        let AdamOptions { b1, b2, eps, eps_root, nesterov, .. } = self.0;
        with_moments(leaves, slots, |leaf, mu, nu| {
            *mu = decayed_mean(&leaf.update, mu, b1);
            *nu = decayed_mean(&absolute_square(&leaf.update), nu, b2);
            let mean = debiased_mean(step, mu, &leaf.update, b1, nesterov);
            leaf.update = mean / root(&step.debias(nu, b2), eps_root, eps);
        });
    }
}

/// Creates slots for the mean of the updates of each leaf, `mu`, and of their squares, `nu`.
pub(super) fn create_moments(
    leaves: &[Leaf],
    slots: &mut Slots<'_>,
    mu_dtype: Option<DType>,
    nu_dtype: Option<DType>,
) {
    slots.create("mu", leaves, |leaf| zero_slot(leaf, mu_dtype));
    slots.create("nu", leaves, |leaf| zero_square_slot(leaf, nu_dtype));
}

/// Updates each leaf together with its slots of [`create_moments`].
pub(super) fn with_moments(
    leaves: &mut [Leaf],
    slots: &mut Slots<'_>,
    f: impl Fn(&mut Leaf, &mut Array, &mut Array),
) {
    let (mut mus, mut nus) = (slots.take("mu", leaves), slots.take("nu", leaves));
    for ((leaf, mu), nu) in leaves.iter_mut().zip(&mut mus).zip(&mut nus) {
        f(leaf, mu, nu);
    }
    slots.put(mus);
    slots.put(nus);
}

/// Returns `(1 - decay) · x + decay · mean`.
pub(super) fn decayed_mean(x: &Array, mean: &Array, decay: f64) -> Array {
    x * (1.0 - decay) + mean * decay
}

/// Returns the mean with its bias corrected, or Nesterov's mean, which looks one step ahead.
pub(super) fn debiased_mean(
    step: &Step<'_>,
    mu: &Array,
    update: &Array,
    b1: f64,
    nesterov: bool,
) -> Array {
    if !nesterov {
        return step.debias(mu, b1);
    }
    let ahead = step.debias_at(mu, b1, &next_count(&step.count));
    ahead * b1 + step.debias(update, b1) * (1.0 - b1)
}

/// Returns `sqrt(square + eps_root) + eps`.
pub(super) fn root(square: &Array, eps_root: f64, eps: f64) -> Array {
    if eps_root == 0.0 { sqrt(square) + eps } else { sqrt(&(square + eps_root)) + eps }
}

/// Returns zeros for squares. Squares of complex numbers are those of the absolute value.
pub(super) fn zero_square_slot(leaf: &Leaf, dtype: Option<DType>) -> Array {
    zeros((leaf.parameter.shape(), dtype.unwrap_or(leaf.parameter.dtype()).real()))
}

/// Returns `x · conj(x)`, which is real.
pub(super) fn absolute_square(x: &Array) -> Array {
    if !x.dtype().is_complex() {
        return x * x;
    }
    let (re, im) = (real(x), imag(x));
    &re * &re + &im * &im
}
