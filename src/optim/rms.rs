//! Steps in units of the root mean square: RMSProp, Adagrad, LAMB.

use super::adam::{Adam, absolute_square, empty_square, mix};
use super::basic::{Trace, decay_where, empty, scale_by_learning_rate, stateless};
use super::clip::{norm, root_mean_square};
use super::leaves::Leaf;
use super::mask::Mask;
use super::memory::{Memory, Rule, Step};
use super::optimizer::{Optimizer, chain};
use super::schedule::Schedule;
use crate::core::Array;
use crate::primitives::{bitwise_or, eq, full, gt, maximum, rsqrt, sqrt, where_, zeros_like};

/// The numbers of RMSProp.
///
/// ```
/// use oxidax::prelude::*;
/// let numbers = optim::RmsProp { centered: true, momentum: Some(0.9), ..optim::RmsProp::new(1e-3) };
/// let optimizer = numbers.optimizer();
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RmsProp {
    /// Length of a step, per step.
    pub learning_rate: Schedule,
    /// Decay of the mean square, per step.
    pub decay: f64,
    /// Added to the mean square, or to its root.
    pub eps: f64,
    /// Where the mean square begins.
    pub initial_scale: f64,
    /// Whether `eps` is added under the root.
    pub eps_in_sqrt: bool,
    /// Takes the square of the mean away from the mean of the squares.
    pub centered: bool,
    /// How much of the last step is in the next.
    pub momentum: Option<f64>,
    /// Nesterov's momentum.
    pub nesterov: bool,
    /// Divides means by what has been filled of them.
    pub bias_correction: bool,
}

/// RMSProp: each coordinate in units of its root mean square. `decay` 0.9, `eps` 1e-8 under the root; for other
/// numbers use [`RmsProp`].
///
/// # Reference
/// Tieleman, Hinton: Lecture 6.5, COURSERA: Neural networks for machine learning (2012); centered: Graves:
/// Generating sequences with recurrent neural networks (2013), equations 38–45.
pub fn rmsprop(learning_rate: impl Into<Schedule>) -> Optimizer {
    RmsProp::new(learning_rate).optimizer()
}

impl RmsProp {
    /// The usual numbers: `decay` 0.9, `eps` 1e-8 under the root, nothing else.
    pub fn new(learning_rate: impl Into<Schedule>) -> RmsProp {
        RmsProp {
            learning_rate: learning_rate.into(),
            decay: 0.9,
            eps: 1e-8,
            initial_scale: 0.0,
            eps_in_sqrt: true,
            centered: false,
            momentum: None,
            nesterov: false,
            bias_correction: false,
        }
    }

    /// The optimizer.
    pub fn optimizer(self) -> Optimizer {
        let rate = scale_by_learning_rate(self.learning_rate.clone());
        let nesterov = self.nesterov;
        let trace = self.momentum.map(|decay| Trace { nesterov, ..Trace::new(decay) });
        let steps = self.transformation().chain(rate);
        trace.into_iter().fold(steps, |steps, trace| steps.chain(trace.transformation()))
    }

    /// The step of about unit length alone, without learning rate and momentum.
    #[doc(alias = "scale_by_rms")]
    #[doc(alias = "scale_by_stddev")]
    pub fn transformation(self) -> Optimizer {
        Optimizer::one(Spread(self))
    }
}

#[derive(Debug)]
struct Spread(RmsProp);

impl Rule for Spread {
    fn init(&self, leaves: &[Leaf], memory: &mut Memory<'_>) {
        if self.0.centered {
            memory.make("mu", leaves, |leaf| empty(leaf, None));
        }
        memory.make("nu", leaves, |leaf| empty_square(leaf, None) + self.0.initial_scale);
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], memory: &mut Memory<'_>) {
        let RmsProp { decay, eps, .. } = self.0;
        let mut mus = self.0.centered.then(|| memory.take("mu", leaves));
        let mut nus = memory.take("nu", leaves);
        let debias = |mean: &Array| match self.0.bias_correction {
            true => step.debias(mean, decay),
            false => mean.clone(),
        };
        for (at, (leaf, nu)) in leaves.iter_mut().zip(&mut nus).enumerate() {
            *nu = mix(&absolute_square(&leaf.update), nu, decay);
            let mut square = debias(nu);
            if let Some(mus) = &mut mus {
                mus[at] = mix(&leaf.update, &mus[at], decay);
                square = square - absolute_square(&debias(&mus[at]));
            }
            let scale = match self.0.eps_in_sqrt {
                true => rsqrt(&(square + eps)),
                false => 1.0 / (sqrt(&square) + eps),
            };
            leaf.update = &leaf.update * scale;
        }
        mus.into_iter().for_each(|mus| memory.keep(mus));
        memory.keep(nus);
    }
}

/// Adagrad: each coordinate in units of the root of the sum of its squares. The sum begins at 0.1, `eps` is
/// 1e-7.
///
/// # Reference
/// Duchi, Hazan, Singer: Adaptive subgradient methods for online learning and stochastic optimization (2011).
pub fn adagrad(learning_rate: impl Into<Schedule>) -> Optimizer {
    scale_by_rss(0.1, 1e-7).chain(scale_by_learning_rate(learning_rate))
}

/// Divides by the root of the sum of the squares, which begins at `initial_accumulator_value`.
pub fn scale_by_rss(initial_accumulator_value: f64, eps: f64) -> Optimizer {
    Optimizer::one(SumOfSquares { initial_accumulator_value, eps })
}

#[derive(Debug)]
struct SumOfSquares {
    initial_accumulator_value: f64,
    eps: f64,
}

impl Rule for SumOfSquares {
    fn init(&self, leaves: &[Leaf], memory: &mut Memory<'_>) {
        let first = self.initial_accumulator_value;
        memory.make("sum_of_squares", leaves, |leaf| empty_square(leaf, None) + first);
    }

    fn update(&self, _: &Step<'_>, leaves: &mut [Leaf], memory: &mut Memory<'_>) {
        let mut sums = memory.take("sum_of_squares", leaves);
        for (leaf, sum) in leaves.iter_mut().zip(&mut sums) {
            *sum = absolute_square(&leaf.update) + &*sum;
            let inverse = where_(&gt(&*sum, 0.0), rsqrt(&(&*sum + self.eps)), zeros_like(sum));
            leaf.update = &leaf.update * inverse;
        }
        memory.keep(sums);
    }
}

/// LAMB: AdamW whose step for each leaf is as long as the leaf. `b1` 0.9, `b2` 0.999, `eps` 1e-6; weight
/// decay on the leaves that `mask` picks.
///
/// ```
/// use oxidax::prelude::*;
/// let optimizer = optim::lamb(1e-3, 0.01, optim::Mask::min_rank(2));
/// ```
///
/// # Reference
/// You et al.: Large batch optimization for deep learning: training BERT in 76 minutes (2020), algorithm 2.
pub fn lamb(learning_rate: impl Into<Schedule>, weight_decay: f64, mask: Mask) -> Optimizer {
    chain([
        Adam { eps: 1e-6, ..Adam::new(1.0) }.transformation(),
        decay_where(weight_decay, mask),
        scale_by_trust_ratio(0.0, 1.0, 0.0),
        scale_by_learning_rate(learning_rate),
    ])
}

/// Multiplies each leaf's update by `trust_coefficient · |parameter| / (|update| + eps)`, or by 1 if either
/// norm is 0. Norms are at least `min_norm`.
///
/// # Reference
/// You, Gitman, Ginsburg: Large batch training of convolutional networks (2017), equation 6.
pub fn scale_by_trust_ratio(min_norm: f64, trust_coefficient: f64, eps: f64) -> Optimizer {
    stateless(move |_, update, parameter| {
        let length = |x: &Array| {
            let norm = norm(x);
            if min_norm == 0.0 { norm } else { maximum(&norm, min_norm) }
        };
        let (of_parameter, of_update) = (length(parameter), length(update));
        let ratio = &of_parameter * trust_coefficient / (&of_update + eps);
        let none = bitwise_or(eq(&of_parameter, 0.0), eq(&of_update, 0.0));
        update * where_(&none, full([], 1.0), &ratio).astype(update.dtype().real())
    })
}

/// Multiplies each leaf's update by the parameter's root mean square, or by `min_scale` if that is more.
pub fn scale_by_param_block_rms(min_scale: f64) -> Optimizer {
    stateless(move |_, update, parameter| {
        let scale = maximum(root_mean_square(parameter), min_scale);
        update * scale.astype(update.dtype().real())
    })
}
