//! The plain transformations: scales, traces, decay, and gradient descent made of them.

use super::leaves::Leaf;
use super::mask::Mask;
use super::memory::{Memory, Rule, Step};
use super::optimizer::{Optimizer, chain};
use super::schedule::Schedule;
use crate::core::{Array, DType};
use crate::primitives::{sign, zeros, zeros_like};
use std::fmt;
use std::sync::Arc;

/// Stochastic gradient descent: `update = -learning_rate · gradient`.
///
/// `learning_rate` is per step.
pub fn sgd(learning_rate: impl Into<Schedule>) -> Optimizer {
    scale_by_learning_rate(learning_rate)
}

/// Gradient descent with momentum: `trace = gradient + decay · trace`,
/// `update = -learning_rate · trace`.
///
/// # Reference
/// Polyak: Some methods of speeding up the convergence of iteration methods (1964).
pub fn momentum(learning_rate: impl Into<Schedule>, decay: f64) -> Optimizer {
    Trace::new(decay).transformation().chain(scale_by_learning_rate(learning_rate))
}

/// Gradient descent with Nesterov's momentum: `trace = gradient + decay · trace`,
/// `update = -learning_rate · (gradient + decay · trace)`.
///
/// # Reference
/// Sutskever, Martens, Dahl, Hinton: On the importance of initialization and momentum in deep
/// learning (2013), section 2.
pub fn nesterov(learning_rate: impl Into<Schedule>, decay: f64) -> Optimizer {
    let trace = Trace { nesterov: true, ..Trace::new(decay) };
    trace.transformation().chain(scale_by_learning_rate(learning_rate))
}

/// Gradient descent by signs: `update = -learning_rate · sign(gradient)`.
///
/// # Reference
/// Bernstein, Wang, Azizzadenesheli, Anandkumar: signSGD (2018), algorithm 1.
pub fn sign_sgd(learning_rate: impl Into<Schedule>) -> Optimizer {
    scale_by_sign().chain(scale_by_learning_rate(learning_rate))
}

/// Multiplies updates: `update = factor · update`. The factor may be a [`Schedule`].
#[doc(alias = "scale_by_schedule")]
pub fn scale(factor: impl Into<Schedule>) -> Optimizer {
    Optimizer::one(Scale { factor: factor.into(), down: false })
}

/// `update = -learning_rate · update`: what ends most chains.
pub fn scale_by_learning_rate(learning_rate: impl Into<Schedule>) -> Optimizer {
    Optimizer::one(Scale { factor: learning_rate.into(), down: true })
}

/// Adds a part of each parameter to its update: `update = update + rate · parameter`. In front of
/// [`sgd`] it is weight decay; between [`scale_by_adam`](super::scale_by_adam) and the learning rate it is
/// AdamW's. Use [`masked`](super::masked()) to spare some leaves.
pub fn add_decayed_weights(rate: impl Into<Schedule>) -> Optimizer {
    decay_where(rate, Mask::all())
}

/// As `add_decayed_weights`, for some leaves.
pub(super) fn decay_where(rate: impl Into<Schedule>, mask: Mask) -> Optimizer {
    Optimizer::one(Decay { rate: rate.into(), mask })
}

/// No change.
pub fn identity() -> Optimizer {
    chain([])
}

/// Updates of zero: with [`masked`](super::masked()) or [`partition`](super::partition()), for leaves that stay
/// as they are.
pub fn set_to_zero() -> Optimizer {
    stateless(|_, update, _| zeros_like(update))
}

/// The sign of every element.
pub fn scale_by_sign() -> Optimizer {
    stateless(|_, update, _| sign(update))
}

/// A transformation of your own that remembers nothing: `f(path, update, parameter)` gives each leaf's update.
///
/// ```
/// use oxidax::prelude::*;
/// let centered = optim::stateless(|_, update, _| match update.rank() {
///     0 | 1 => update.clone(),
///     _ => update - update.mean_axes(axes(0).keepdims()),
/// });
/// let optimizer = centered.chain(optim::sgd(0.1));
/// ```
pub fn stateless(f: impl Fn(&str, &Array, &Array) -> Array + Send + Sync + 'static) -> Optimizer {
    Optimizer::one(Stateless(Arc::new(f)))
}

/// The numbers of a trace of past updates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trace {
    /// How much of the trace stays, per step.
    pub decay: f64,
    /// Looks one step ahead: `update + decay · trace`.
    pub nesterov: bool,
    /// In which dtype the trace is kept; the parameter's if `None`.
    pub accumulator_dtype: Option<DType>,
}

impl Trace {
    /// Neither Nesterov's, nor of another dtype.
    pub fn new(decay: f64) -> Trace {
        Trace { decay, nesterov: false, accumulator_dtype: None }
    }

    /// `trace = update + decay · trace`, and the update is the trace.
    pub fn transformation(self) -> Optimizer {
        Optimizer::one(self)
    }
}

/// `trace = update + decay · trace`, and the update is the trace. For Nesterov's use [`Trace`].
pub fn trace(decay: f64) -> Optimizer {
    Trace::new(decay).transformation()
}

impl Rule for Trace {
    fn init(&self, leaves: &[Leaf], memory: &mut Memory<'_>) {
        memory.make("trace", leaves, |leaf| empty(leaf, self.accumulator_dtype));
    }

    fn update(&self, _: &Step<'_>, leaves: &mut [Leaf], memory: &mut Memory<'_>) {
        let mut traces = memory.take("trace", leaves);
        for (leaf, trace) in leaves.iter_mut().zip(&mut traces) {
            let next = &leaf.update + &*trace * self.decay;
            leaf.update = match self.nesterov {
                true => &leaf.update + &next * self.decay,
                false => next.clone(),
            };
            *trace = next;
        }
        memory.keep(traces);
    }
}

/// Zeros like a parameter, in its dtype or another.
pub(super) fn empty(leaf: &Leaf, dtype: Option<DType>) -> Array {
    zeros(leaf.parameter.shape(), dtype.unwrap_or(leaf.parameter.dtype()))
}

#[derive(Debug)]
struct Scale {
    factor: Schedule,
    down: bool,
}

impl Rule for Scale {
    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], _: &mut Memory<'_>) {
        let rate = step.rate(&self.factor);
        let rate = if self.down { rate.negated() } else { rate };
        for leaf in leaves {
            leaf.update = rate.times(&leaf.update);
        }
    }

    fn schedules(&self, visit: &mut dyn FnMut(&Schedule)) {
        visit(&self.factor);
    }
}

#[derive(Debug)]
struct Decay {
    rate: Schedule,
    mask: Mask,
}

impl Rule for Decay {
    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], _: &mut Memory<'_>) {
        let rate = step.rate(&self.rate);
        for leaf in leaves.iter_mut().filter(|leaf| self.mask.picks(leaf)) {
            leaf.update = &leaf.update + rate.times(&leaf.parameter);
        }
    }

    fn schedules(&self, visit: &mut dyn FnMut(&Schedule)) {
        visit(&self.rate);
    }
}

struct Stateless(Arc<Change>);

/// From a leaf's path, update and parameter to its next update.
type Change = dyn Fn(&str, &Array, &Array) -> Array + Send + Sync;

impl fmt::Debug for Stateless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stateless(..)")
    }
}

impl Rule for Stateless {
    fn update(&self, _: &Step<'_>, leaves: &mut [Leaf], _: &mut Memory<'_>) {
        for leaf in leaves {
            leaf.update = (self.0)(&leaf.path, &leaf.update, &leaf.parameter);
        }
    }
}
