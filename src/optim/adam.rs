//! Adam, AdamW and NAdam.

use super::basic::{decay_where, empty, scale_by_learning_rate};
use super::leaves::Leaf;
use super::mask::Mask;
use super::memory::{Memory, Rule, Step, following};
use super::optimizer::{Optimizer, chain};
use super::schedule::Schedule;
use crate::core::{Array, DType};
use crate::primitives::{imag, real, sqrt, zeros};

/// The numbers of Adam and AdamW.
///
/// ```
/// use oxidax::prelude::*;
/// let numbers = optim::Adam { b2: 0.95, weight_decay: 0.1, ..optim::Adam::new(3e-4) };
/// let optimizer = numbers.decay_only(|path| path.ends_with("weight"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Adam {
    /// Length of a step, per step.
    pub learning_rate: Schedule,
    /// Decay of the mean of past gradients, per step.
    pub b1: f64,
    /// Decay of the mean of their squares, per step.
    pub b2: f64,
    /// Added to the root of the mean square, in units of the gradient.
    pub eps: f64,
    /// Added to the mean square under the root, in units of the gradient squared: for derivatives
    /// through the optimizer, which the root at 0 has none of.
    pub eps_root: f64,
    /// How much of a parameter is taken away at each step, times the learning rate.
    pub weight_decay: f64,
    /// Looks one step ahead, as NAdam does.
    pub nesterov: bool,
    /// In which dtype the mean is kept; the parameter's if `None`.
    pub mu_dtype: Option<DType>,
    /// In which dtype the mean square is kept; the parameter's if `None`. Say `f32` for `bf16` parameters:
    /// a decay of 0.999 does nothing to a `bf16` number.
    pub nu_dtype: Option<DType>,
}

/// Adam: steps along the mean gradient, each coordinate in units of its root mean square.
///
/// `b1` 0.9, `b2` 0.999, `eps` 1e-8. For other numbers use [`Adam`].
///
/// # Reference
/// Kingma, Ba: Adam: a method for stochastic optimization (2015), algorithm 1.
pub fn adam(learning_rate: impl Into<Schedule>) -> Optimizer {
    Adam::new(learning_rate).optimizer()
}

/// Adam with decoupled weight decay of 1e-4 on every trained leaf, times the learning rate.
///
/// `b1` 0.9, `b2` 0.999, `eps` 1e-8. For other numbers, and to spare some leaves, use [`Adam`].
///
/// # Reference
/// Loshchilov, Hutter: Decoupled weight decay regularization (2019), algorithm 2.
pub fn adamw(learning_rate: impl Into<Schedule>) -> Optimizer {
    Adam { weight_decay: 1e-4, ..Adam::new(learning_rate) }.optimizer()
}

/// Adam with Nesterov's momentum; for other numbers use [`Adam`] with `nesterov`.
///
/// # Reference
/// Dozat: Incorporating Nesterov momentum into Adam (2016), algorithm 2, without its second factor `b2`.
pub fn nadam(learning_rate: impl Into<Schedule>) -> Optimizer {
    Adam { nesterov: true, ..Adam::new(learning_rate) }.optimizer()
}

/// [`nadam`] with decoupled weight decay of 1e-4.
pub fn nadamw(learning_rate: impl Into<Schedule>) -> Optimizer {
    Adam { nesterov: true, weight_decay: 1e-4, ..Adam::new(learning_rate) }.optimizer()
}

/// Adam's step of about unit length, without weight decay and learning rate. For more numbers use
/// [`Adam::transformation`].
pub fn scale_by_adam(b1: f64, b2: f64, eps: f64) -> Optimizer {
    Adam { b1, b2, eps, ..Adam::new(1.0) }.transformation()
}

impl Adam {
    /// The usual numbers: `b1` 0.9, `b2` 0.999, `eps` 1e-8, no `eps_root`, no weight decay.
    pub fn new(learning_rate: impl Into<Schedule>) -> Adam {
        Adam {
            learning_rate: learning_rate.into(),
            b1: 0.9,
            b2: 0.999,
            eps: 1e-8,
            eps_root: 0.0,
            weight_decay: 0.0,
            nesterov: false,
            mu_dtype: None,
            nu_dtype: None,
        }
    }

    /// The optimizer; weight decay acts on every trained leaf.
    pub fn optimizer(self) -> Optimizer {
        self.decay_where(Mask::all())
    }

    /// The optimizer, with weight decay on the leaves whose paths `filter` picks and no others.
    pub fn decay_only(self, filter: impl Fn(&str) -> bool + Send + Sync + 'static) -> Optimizer {
        self.decay_where(Mask::new(move |path, _| filter(path)))
    }

    /// The optimizer, with weight decay on the leaves that `mask` picks and no others.
    pub fn decay_where(self, mask: Mask) -> Optimizer {
        let (rate, decay) = (self.learning_rate.clone(), self.weight_decay);
        let decayed = (decay != 0.0).then(|| decay_where(decay, mask));
        let links = [Some(self.transformation()), decayed, Some(scale_by_learning_rate(rate))];
        chain(links.into_iter().flatten())
    }

    /// The step of about unit length alone, without weight decay and learning rate.
    pub fn transformation(self) -> Optimizer {
        Optimizer::one(Moments(self))
    }
}

#[derive(Debug)]
struct Moments(Adam);

impl Rule for Moments {
    fn init(&self, leaves: &[Leaf], memory: &mut Memory<'_>) {
        make_moments(leaves, memory, self.0.mu_dtype, self.0.nu_dtype);
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], memory: &mut Memory<'_>) {
        let Adam { b1, b2, eps, eps_root, nesterov, .. } = self.0;
        with_moments(leaves, memory, |leaf, mu, nu| {
            *mu = mix(&leaf.update, mu, b1);
            *nu = mix(&absolute_square(&leaf.update), nu, b2);
            let mean = mean_hat(step, mu, &leaf.update, b1, nesterov);
            leaf.update = mean / root(&step.debias(nu, b2), eps_root, eps);
        });
    }
}

/// Memory for the mean of a leaf's updates, `mu`, and of their squares, `nu`.
pub(super) fn make_moments(
    leaves: &[Leaf],
    memory: &mut Memory<'_>,
    mu_dtype: Option<DType>,
    nu_dtype: Option<DType>,
) {
    memory.make("mu", leaves, |leaf| empty(leaf, mu_dtype));
    memory.make("nu", leaves, |leaf| empty_square(leaf, nu_dtype));
}

/// Changes each leaf together with what [`make_moments`] made for it.
pub(super) fn with_moments(
    leaves: &mut [Leaf],
    memory: &mut Memory<'_>,
    change: impl Fn(&mut Leaf, &mut Array, &mut Array),
) {
    let (mut mus, mut nus) = (memory.take("mu", leaves), memory.take("nu", leaves));
    for ((leaf, mu), nu) in leaves.iter_mut().zip(&mut mus).zip(&mut nus) {
        change(leaf, mu, nu);
    }
    memory.keep(mus);
    memory.keep(nus);
}

/// `(1 - decay)·x + decay·mean`.
pub(super) fn mix(x: &Array, mean: &Array, decay: f64) -> Array {
    x * (1.0 - decay) + mean * decay
}

/// The mean of what has been filled of it; Nesterov's looks one step ahead.
pub(super) fn mean_hat(
    step: &Step<'_>,
    mu: &Array,
    update: &Array,
    b1: f64,
    nesterov: bool,
) -> Array {
    match nesterov {
        false => step.debias(mu, b1),
        true => {
            let ahead = step.debias_at(mu, b1, &following(&step.count));
            ahead * b1 + step.debias(update, b1) * (1.0 - b1)
        }
    }
}

/// `sqrt(square + eps_root) + eps`.
pub(super) fn root(square: &Array, eps_root: f64, eps: f64) -> Array {
    match eps_root == 0.0 {
        true => sqrt(square) + eps,
        false => sqrt(&(square + eps_root)) + eps,
    }
}

/// Zeros for squares: of complex numbers they are taken of the absolute value.
pub(super) fn empty_square(leaf: &Leaf, dtype: Option<DType>) -> Array {
    zeros(leaf.parameter.shape(), dtype.unwrap_or(leaf.parameter.dtype()).real())
}

/// `x · conj(x)`, which is real.
pub(super) fn absolute_square(x: &Array) -> Array {
    match x.dtype().is_complex() {
        true => {
            let (re, im) = (real(x), imag(x));
            &re * &re + &im * &im
        }
        false => x * x,
    }
}
