//! Adam's kin: AdaMax, AdaBelief, RAdam, Lion.

use super::adam::{absolute_square, make_moments, mean_hat, mix, root, with_moments};
use super::basic::{decay_where, empty, scale_by_learning_rate};
use super::leaves::Leaf;
use super::mask::Mask;
use super::memory::{Memory, Rule, Step, power};
use super::optimizer::{Optimizer, chain};
use super::schedule::Schedule;
use crate::core::DType;
use crate::primitives::{abs, convert_element_type, ge, maximum, sign, sqrt, where_};

/// Adam in units of the largest gradient of late: `b1` 0.9, `b2` 0.999, `eps` 1e-8.
///
/// # Reference
/// Kingma, Ba: Adam: a method for stochastic optimization (2015), algorithm 2.
pub fn adamax(learning_rate: impl Into<Schedule>) -> Optimizer {
    scale_by_adamax(0.9, 0.999, 1e-8).chain(scale_by_learning_rate(learning_rate))
}

/// AdaMax's step of about unit length.
pub fn scale_by_adamax(b1: f64, b2: f64, eps: f64) -> Optimizer {
    Optimizer::one(AdaMax { b1, b2, eps })
}

/// Adam in units of how far gradients are from their mean: `b1` 0.9, `b2` 0.999, `eps` and `eps_root` 1e-16.
///
/// # Reference
/// Zhuang et al.: AdaBelief optimizer: adapting stepsizes by the belief in observed gradients (2020).
pub fn adabelief(learning_rate: impl Into<Schedule>) -> Optimizer {
    scale_by_belief(0.9, 0.999, 1e-16, 1e-16).chain(scale_by_learning_rate(learning_rate))
}

/// AdaBelief's step of about unit length.
pub fn scale_by_belief(b1: f64, b2: f64, eps: f64, eps_root: f64) -> Optimizer {
    Optimizer::one(Belief { b1, b2, eps, eps_root })
}

/// Adam that takes plain steps along the mean until enough gradients were seen to know their size: `b1`
/// 0.9, `b2` 0.999, `eps` 1e-8, `threshold` 5.
///
/// # Reference
/// Liu et al.: On the variance of the adaptive learning rate and beyond (2020), algorithm 2.
pub fn radam(learning_rate: impl Into<Schedule>) -> Optimizer {
    scale_by_radam(0.9, 0.999, 1e-8, 5.0).chain(scale_by_learning_rate(learning_rate))
}

/// RAdam's step.
pub fn scale_by_radam(b1: f64, b2: f64, eps: f64, threshold: f64) -> Optimizer {
    Optimizer::one(Rectified { b1, b2, eps, threshold })
}

/// The numbers of Lion.
///
/// ```
/// use oxidax::prelude::*;
/// let numbers = optim::Lion { weight_decay: 0.1, ..optim::Lion::new(1e-4) };
/// let optimizer = numbers.decay_where(optim::Mask::min_rank(2));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Lion {
    /// Length of a step, per step: a third to a tenth of AdamW's.
    pub learning_rate: Schedule,
    /// How much of the mean is in the step.
    pub b1: f64,
    /// Decay of the mean of past gradients, per step.
    pub b2: f64,
    /// How much of a parameter is taken away at each step, times the learning rate.
    pub weight_decay: f64,
    /// In which dtype the mean is kept; the parameter's if `None`.
    pub mu_dtype: Option<DType>,
}

/// Lion: steps by the sign of a mean of gradients; `b1` 0.9, `b2` 0.99, weight decay 1e-3. For other numbers
/// use [`Lion`].
///
/// # Reference
/// Chen et al.: Symbolic discovery of optimization algorithms (2023), program 1.
pub fn lion(learning_rate: impl Into<Schedule>) -> Optimizer {
    Lion::new(learning_rate).optimizer()
}

/// Lion's step, of length 1 in every coordinate.
pub fn scale_by_lion(b1: f64, b2: f64) -> Optimizer {
    Lion { b1, b2, ..Lion::new(1.0) }.transformation()
}

impl Lion {
    /// The usual numbers: `b1` 0.9, `b2` 0.99, weight decay 1e-3.
    pub fn new(learning_rate: impl Into<Schedule>) -> Lion {
        let learning_rate = learning_rate.into();
        Lion { learning_rate, b1: 0.9, b2: 0.99, weight_decay: 1e-3, mu_dtype: None }
    }

    /// The optimizer; weight decay acts on every trained leaf.
    pub fn optimizer(self) -> Optimizer {
        self.decay_where(Mask::all())
    }

    /// The optimizer, with weight decay on the leaves that `mask` picks and no others.
    pub fn decay_where(self, mask: Mask) -> Optimizer {
        let (rate, decay) = (self.learning_rate.clone(), self.weight_decay);
        chain([self.transformation(), decay_where(decay, mask), scale_by_learning_rate(rate)])
    }

    /// The step alone, without weight decay and learning rate.
    pub fn transformation(self) -> Optimizer {
        Optimizer::one(Signs(self))
    }
}

#[derive(Debug)]
struct AdaMax {
    b1: f64,
    b2: f64,
    eps: f64,
}

impl Rule for AdaMax {
    fn init(&self, leaves: &[Leaf], memory: &mut Memory<'_>) {
        make_moments(leaves, memory, None, None);
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], memory: &mut Memory<'_>) {
        with_moments(leaves, memory, |leaf, mu, nu| {
            *mu = mix(&leaf.update, mu, self.b1);
            *nu = maximum(abs(&leaf.update) + self.eps, &*nu * self.b2);
            leaf.update = step.debias(mu, self.b1) / &*nu;
        });
    }
}

#[derive(Debug)]
struct Belief {
    b1: f64,
    b2: f64,
    eps: f64,
    eps_root: f64,
}

impl Rule for Belief {
    fn init(&self, leaves: &[Leaf], memory: &mut Memory<'_>) {
        make_moments(leaves, memory, None, None);
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], memory: &mut Memory<'_>) {
        with_moments(leaves, memory, |leaf, mu, nu| {
            *mu = mix(&leaf.update, mu, self.b1);
            let surprise = absolute_square(&(&leaf.update - &*mu));
            *nu = mix(&surprise, nu, self.b2) + self.eps_root;
            leaf.update = step.debias(mu, self.b1) / root(&step.debias(nu, self.b2), 0.0, self.eps);
        });
    }
}

#[derive(Debug)]
struct Rectified {
    b1: f64,
    b2: f64,
    eps: f64,
    threshold: f64,
}

impl Rule for Rectified {
    fn init(&self, leaves: &[Leaf], memory: &mut Memory<'_>) {
        make_moments(leaves, memory, None, None);
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], memory: &mut Memory<'_>) {
        // The length of the average that `b2` makes, in the limit and now.
        let limit = 2.0 / (1.0 - self.b2) - 1.0;
        let decayed = power(self.b2, &step.count, DType::F32);
        let count = convert_element_type(&step.count, DType::F32);
        let length = limit - count * 2.0 * &decayed / (1.0 - &decayed);
        let factor = limit / ((limit - 4.0) * (limit - 2.0));
        let rectified = sqrt(&((&length - 4.0) * (&length - 2.0) * factor / &length));
        let known = ge(&length, self.threshold);
        with_moments(leaves, memory, |leaf, mu, nu| {
            *mu = mix(&leaf.update, mu, self.b1);
            *nu = mix(&absolute_square(&leaf.update), nu, self.b2);
            let plain = mean_hat(step, mu, &leaf.update, self.b1, false);
            let scale = convert_element_type(&rectified, plain.dtype());
            let adapted = &plain * scale / root(&step.debias(nu, self.b2), 0.0, self.eps);
            leaf.update = where_(&known, &adapted, &plain);
        });
    }
}

#[derive(Debug)]
struct Signs(Lion);

impl Rule for Signs {
    fn init(&self, leaves: &[Leaf], memory: &mut Memory<'_>) {
        memory.make("mu", leaves, |leaf| empty(leaf, self.0.mu_dtype));
    }

    fn update(&self, _: &Step<'_>, leaves: &mut [Leaf], memory: &mut Memory<'_>) {
        let mut mus = memory.take("mu", leaves);
        for (leaf, mu) in leaves.iter_mut().zip(&mut mus) {
            let next = mix(&leaf.update, mu, self.0.b2);
            leaf.update = sign(&mix(&leaf.update, mu, self.0.b1));
            *mu = next;
        }
        memory.keep(mus);
    }
}
