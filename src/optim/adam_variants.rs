//! Variants of Adam: AdaMax, AdaBelief, RAdam and Lion.

use super::adam::{
    absolute_square, create_moments, debiased_mean, decayed_mean, root, with_moments,
};
use super::leaves::Leaf;
use super::mask::Mask;
use super::optimizer::{Optimizer, chain};
use super::schedule::Schedule;
use super::sgd::{
    AddDecayedWeightsOptions, add_decayed_weights_with, scale_by_learning_rate, zero_slot,
};
use super::slots::{Slots, Step, Transformation, power};
use crate::core::DType;
use crate::primitives::{abs, convert_element_type, ge, lt, maximum, sign, sqrt, tanh, where_};

/// Options of [`adamax_with`] and [`scale_by_adamax_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamaxOptions {
    /// The decay of the mean gradient, per step. 0.9 by default.
    pub b1: f64,
    /// The decay of the largest absolute gradient, per step. 0.999 by default.
    pub b2: f64,
    /// A constant added to the absolute gradient. 1e-8 by default.
    pub eps: f64,
}

impl Default for AdamaxOptions {
    fn default() -> AdamaxOptions {
        AdamaxOptions { b1: 0.9, b2: 0.999, eps: 1e-8 }
    }
}

/// Creates AdaMax: Adam that divides by the decayed maximum of the gradient.
///
/// # Reference
/// Kingma, Ba: Adam: a method for stochastic optimization (2015), algorithm 2.
pub fn adamax(learning_rate: impl Into<Schedule>) -> Optimizer {
    adamax_with(learning_rate, AdamaxOptions::default())
}

/// Creates AdaMax with options.
pub fn adamax_with(learning_rate: impl Into<Schedule>, options: AdamaxOptions) -> Optimizer {
    scale_by_adamax_with(options).chain(scale_by_learning_rate(learning_rate))
}

/// Options of [`adamaxw_with`].
#[derive(Clone, Debug)]
pub struct AdamaxWOptions {
    /// The options of the scaling.
    pub scaling: AdamaxOptions,
    /// The part of a parameter that a step subtracts, times the learning rate. 1e-4 by default.
    pub weight_decay: f64,
    /// The leaves that decay. All trained leaves by default.
    pub mask: Mask,
}

impl Default for AdamaxWOptions {
    fn default() -> AdamaxWOptions {
        let scaling = AdamaxOptions::default();
        AdamaxWOptions { scaling, weight_decay: 1e-4, mask: Mask::all() }
    }
}

/// Creates AdaMax with decoupled weight decay of 1e-4.
pub fn adamaxw(learning_rate: impl Into<Schedule>) -> Optimizer {
    adamaxw_with(learning_rate, AdamaxWOptions::default())
}

/// Creates AdaMax with decoupled weight decay, with options.
pub fn adamaxw_with(learning_rate: impl Into<Schedule>, options: AdamaxWOptions) -> Optimizer {
    let AdamaxWOptions { scaling, weight_decay, mask } = options;
    chain([
        scale_by_adamax_with(scaling),
        add_decayed_weights_with(weight_decay, AddDecayedWeightsOptions { mask }),
        scale_by_learning_rate(learning_rate),
    ])
}

/// Scales updates as AdaMax does, without the learning rate.
pub fn scale_by_adamax() -> Optimizer {
    scale_by_adamax_with(AdamaxOptions::default())
}

/// Scales updates as AdaMax does, with options.
pub fn scale_by_adamax_with(options: AdamaxOptions) -> Optimizer {
    Optimizer::one(ScaleByAdamax(options))
}

#[derive(Debug)]
struct ScaleByAdamax(AdamaxOptions);

impl Transformation for ScaleByAdamax {
    fn init(&self, leaves: &[Leaf], slots: &mut Slots<'_>) {
        create_moments(leaves, slots, None, None);
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], slots: &mut Slots<'_>) {
        let AdamaxOptions { b1, b2, eps } = self.0;
        with_moments(leaves, slots, |leaf, mu, nu| {
            *mu = decayed_mean(&leaf.update, mu, b1);
            *nu = maximum(abs(&leaf.update) + eps, &*nu * b2);
            leaf.update = step.debias(mu, b1) / &*nu;
        });
    }
}

/// Options of [`adabelief_with`] and [`scale_by_belief_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdabeliefOptions {
    /// The decay of the mean gradient, per step. 0.9 by default.
    pub b1: f64,
    /// The decay of the mean squared deviation from the mean, per step. 0.999 by default.
    pub b2: f64,
    /// A constant added to the root. 1e-16 by default.
    pub eps: f64,
    /// A constant added to the mean squared deviation at each step. 1e-16 by default.
    pub eps_root: f64,
    /// Uses Nesterov's momentum. False by default.
    pub nesterov: bool,
}

impl Default for AdabeliefOptions {
    fn default() -> AdabeliefOptions {
        AdabeliefOptions { b1: 0.9, b2: 0.999, eps: 1e-16, eps_root: 1e-16, nesterov: false }
    }
}

/// Creates AdaBelief: Adam that divides by the deviation of gradients from their mean.
///
/// # Reference
/// Zhuang et al.: AdaBelief optimizer: adapting stepsizes by the belief in observed gradients
/// (2020).
pub fn adabelief(learning_rate: impl Into<Schedule>) -> Optimizer {
    adabelief_with(learning_rate, AdabeliefOptions::default())
}

/// Creates AdaBelief with options.
pub fn adabelief_with(learning_rate: impl Into<Schedule>, options: AdabeliefOptions) -> Optimizer {
    scale_by_belief_with(options).chain(scale_by_learning_rate(learning_rate))
}

/// Scales updates as AdaBelief does, without the learning rate.
pub fn scale_by_belief() -> Optimizer {
    scale_by_belief_with(AdabeliefOptions::default())
}

/// Scales updates as AdaBelief does, with options.
pub fn scale_by_belief_with(options: AdabeliefOptions) -> Optimizer {
    Optimizer::one(ScaleByBelief(options))
}

#[derive(Debug)]
struct ScaleByBelief(AdabeliefOptions);

impl Transformation for ScaleByBelief {
    fn init(&self, leaves: &[Leaf], slots: &mut Slots<'_>) {
        create_moments(leaves, slots, None, None);
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], slots: &mut Slots<'_>) {
        let AdabeliefOptions { b1, b2, eps, eps_root, nesterov } = self.0;
        with_moments(leaves, slots, |leaf, mu, nu| {
            *mu = decayed_mean(&leaf.update, mu, b1);
            let deviation = absolute_square(&(&leaf.update - &*mu));
            *nu = decayed_mean(&deviation, nu, b2) + eps_root;
            let mean = debiased_mean(step, mu, &leaf.update, b1, nesterov);
            leaf.update = mean / root(&step.debias(nu, b2), 0.0, eps);
        });
    }
}

/// Options of [`radam_with`] and [`scale_by_radam_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RadamOptions {
    /// The decay of the mean gradient, per step. 0.9 by default.
    pub b1: f64,
    /// The decay of the mean squared gradient, per step. 0.999 by default.
    pub b2: f64,
    /// A constant added to the root mean square. 1e-8 by default.
    pub eps: f64,
    /// A constant added to the mean square, inside of the root. 0 by default.
    pub eps_root: f64,
    /// The length of the average from which steps are adapted. 5 by default.
    pub threshold: f64,
    /// Uses Nesterov's momentum. False by default.
    pub nesterov: bool,
}

impl Default for RadamOptions {
    fn default() -> RadamOptions {
        RadamOptions {
            b1: 0.9,
            b2: 0.999,
            eps: 1e-8,
            eps_root: 0.0,
            threshold: 5.0,
            nesterov: false,
        }
    }
}

/// Creates RAdam: Adam that does not adapt steps until the mean square averages enough gradients.
///
/// # Reference
/// Liu et al.: On the variance of the adaptive learning rate and beyond (2020), algorithm 2.
pub fn radam(learning_rate: impl Into<Schedule>) -> Optimizer {
    radam_with(learning_rate, RadamOptions::default())
}

/// Creates RAdam with options.
pub fn radam_with(learning_rate: impl Into<Schedule>, options: RadamOptions) -> Optimizer {
    scale_by_radam_with(options).chain(scale_by_learning_rate(learning_rate))
}

/// Scales updates as RAdam does, without the learning rate.
pub fn scale_by_radam() -> Optimizer {
    scale_by_radam_with(RadamOptions::default())
}

/// Scales updates as RAdam does, with options.
pub fn scale_by_radam_with(options: RadamOptions) -> Optimizer {
    Optimizer::one(ScaleByRadam(options))
}

#[derive(Debug)]
struct ScaleByRadam(RadamOptions);

impl Transformation for ScaleByRadam {
    fn init(&self, leaves: &[Leaf], slots: &mut Slots<'_>) {
        create_moments(leaves, slots, None, None);
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], slots: &mut Slots<'_>) {
        let RadamOptions { b1, b2, eps, eps_root, threshold, nesterov } = self.0;
        // The length of the average with decay `b2`, in the limit and at this step.
        let limit = 2.0 / (1.0 - b2) - 1.0;
        let decay = power(b2, &step.count, DType::F32);
        let count = convert_element_type(&step.count, DType::F32);
        let length = limit - count * 2.0 * &decay / (1.0 - &decay);
        let factor = limit / ((limit - 4.0) * (limit - 2.0));
        let rectification = sqrt(&((&length - 4.0) * (&length - 2.0) * factor / &length));
        let is_long = ge(&length, threshold);
        with_moments(leaves, slots, |leaf, mu, nu| {
            *mu = decayed_mean(&leaf.update, mu, b1);
            *nu = decayed_mean(&absolute_square(&leaf.update), nu, b2);
            let mean = debiased_mean(step, mu, &leaf.update, b1, nesterov);
            let scale = convert_element_type(&rectification, mean.dtype());
            let adapted = &mean * scale / root(&step.debias(nu, b2), eps_root, eps);
            leaf.update = where_(&is_long, &adapted, &mean);
        });
    }
}

/// Options of [`lion_with`].
///
/// ```
/// use oxidax::optim::{LionOptions, Mask};
/// use oxidax::prelude::*;
/// let options =
///     LionOptions { weight_decay: 0.1, mask: Mask::min_rank(2), ..LionOptions::default() };
/// let optimizer = optim::lion_with(1e-4, options);
/// ```
#[derive(Clone, Debug)]
pub struct LionOptions {
    /// The weight of the mean in a step. 0.9 by default.
    pub b1: f64,
    /// The decay of the mean gradient, per step. 0.99 by default.
    pub b2: f64,
    /// The part of a parameter that a step subtracts, times the learning rate. 1e-3 by default.
    pub weight_decay: f64,
    /// The leaves that decay. All trained leaves by default.
    pub mask: Mask,
    /// The dtype of the mean. The dtype of the parameter by default.
    pub mu_dtype: Option<DType>,
}

impl Default for LionOptions {
    fn default() -> LionOptions {
        LionOptions { b1: 0.9, b2: 0.99, weight_decay: 1e-3, mask: Mask::all(), mu_dtype: None }
    }
}

/// Creates Lion: steps along the sign of a mean gradient.
///
/// Its learning rate is a third to a tenth of AdamW's.
///
/// # Reference
/// Chen et al.: Symbolic discovery of optimization algorithms (2023), program 1.
pub fn lion(learning_rate: impl Into<Schedule>) -> Optimizer {
    lion_with(learning_rate, LionOptions::default())
}

/// Creates Lion with options.
pub fn lion_with(learning_rate: impl Into<Schedule>, options: LionOptions) -> Optimizer {
    let LionOptions { b1, b2, weight_decay, mask, mu_dtype } = options;
    chain([
        scale_by_lion_with(ScaleByLionOptions { b1, b2, mu_dtype, mode: LionMode::Hard }),
        add_decayed_weights_with(weight_decay, AddDecayedWeightsOptions { mask }),
        scale_by_learning_rate(learning_rate),
    ])
}

/// The function that [`scale_by_lion_with`] applies to the mean gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum LionMode {
    /// The sign. The default.
    #[default]
    Hard,
    /// `tanh(beta · x)`, with this `beta`.
    Smooth(f64),
    /// The identity between -1 and 1, and the sign outside.
    Refined,
}

/// Options of [`scale_by_lion_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleByLionOptions {
    /// The weight of the mean in a step. 0.9 by default.
    pub b1: f64,
    /// The decay of the mean gradient, per step. 0.99 by default.
    pub b2: f64,
    /// The dtype of the mean. The dtype of the parameter by default.
    pub mu_dtype: Option<DType>,
    /// The function of the mean gradient. The sign by default.
    pub mode: LionMode,
}

impl Default for ScaleByLionOptions {
    fn default() -> ScaleByLionOptions {
        ScaleByLionOptions { b1: 0.9, b2: 0.99, mu_dtype: None, mode: LionMode::Hard }
    }
}

/// Replaces updates by Lion's, which are 1, 0 or -1 in every coordinate.
pub fn scale_by_lion() -> Optimizer {
    scale_by_lion_with(ScaleByLionOptions::default())
}

/// Replaces updates by Lion's, with options.
pub fn scale_by_lion_with(options: ScaleByLionOptions) -> Optimizer {
    Optimizer::one(ScaleByLion(options))
}

#[derive(Debug)]
struct ScaleByLion(ScaleByLionOptions);

impl Transformation for ScaleByLion {
    fn init(&self, leaves: &[Leaf], slots: &mut Slots<'_>) {
        slots.create("mu", leaves, |leaf| zero_slot(leaf, self.0.mu_dtype));
    }

    fn update(&self, _: &Step<'_>, leaves: &mut [Leaf], slots: &mut Slots<'_>) {
        let mut mus = slots.take("mu", leaves);
        for (leaf, mu) in leaves.iter_mut().zip(&mut mus) {
            let next = decayed_mean(&leaf.update, mu, self.0.b2);
            let mean = decayed_mean(&leaf.update, mu, self.0.b1);
            leaf.update = match self.0.mode {
                LionMode::Hard => sign(&mean),
                LionMode::Smooth(beta) => tanh(&mean * beta),
                LionMode::Refined => where_(lt(abs(&mean), 1.0), &mean, sign(&mean)),
            };
            *mu = next;
        }
        slots.put(mus);
    }
}
