//! The optimizer as a chain of transformations, and the plain ones.

use super::adam::Adam;
use super::leaves::{Leaf, accumulator, pair, rebuild};
use super::state::{Accumulator, Paths, State};
use crate::core::DType;
use crate::primitives::{convert_element_type, minimum, zeros, zeros_like};
use crate::tree::{self, Tree};
use std::fmt;
use std::sync::Arc;

/// One link of a chain.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    /// `update := update + decay·trace`, kept as the next trace.
    Trace { decay: f64, nesterov: bool },
    /// Adam's step of unit length.
    Adam(Adam),
    /// `update := update + rate·parameter`, for the leaves that the filter picks.
    Decay { rate: f64, filter: Filter },
    /// `update := factor·update`.
    Scale(f64),
}

/// Which leaves a rule is for, by path.
#[derive(Clone)]
pub(super) struct Filter(pub(super) Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Filter(..)")
    }
}

/// Turns gradients into updates. Made by [`sgd`], [`momentum`], [`nesterov`],
/// [`adam`](super::adam), [`adamw`](super::adamw), or by [`chain`](Optimizer::chain).
///
/// Holds numbers only, so a training step may capture it.
#[derive(Clone, Debug)]
#[doc(alias = "GradientTransformation")]
pub struct Optimizer {
    pub(super) rules: Vec<Rule>,
}

/// Stochastic gradient descent: `update = -learning_rate · gradient`.
///
/// `learning_rate` is per step.
pub fn sgd(learning_rate: f64) -> Optimizer {
    Optimizer { rules: vec![Rule::Scale(-learning_rate)] }
}

/// Gradient descent with momentum: `trace = gradient + decay · trace`,
/// `update = -learning_rate · trace`.
///
/// # Reference
/// Polyak: Some methods of speeding up the convergence of iteration methods (1964).
pub fn momentum(learning_rate: f64, decay: f64) -> Optimizer {
    let trace = Rule::Trace { decay, nesterov: false };
    Optimizer { rules: vec![trace, Rule::Scale(-learning_rate)] }
}

/// Gradient descent with Nesterov's momentum: `trace = gradient + decay · trace`,
/// `update = -learning_rate · (gradient + decay · trace)`.
///
/// # Reference
/// Sutskever, Martens, Dahl, Hinton: On the importance of initialization and momentum in deep
/// learning (2013), section 2.
pub fn nesterov(learning_rate: f64, decay: f64) -> Optimizer {
    let trace = Rule::Trace { decay, nesterov: true };
    Optimizer { rules: vec![trace, Rule::Scale(-learning_rate)] }
}

/// Multiplies updates: `update = factor · update`.
pub fn scale(factor: f64) -> Optimizer {
    Optimizer { rules: vec![Rule::Scale(factor)] }
}

/// Adds a part of each parameter to its update: `update = update + rate · parameter`. In front of
/// [`sgd`] it is weight decay.
pub fn add_decayed_weights(rate: f64) -> Optimizer {
    Optimizer { rules: vec![Rule::Decay { rate, filter: Filter(Arc::new(|_| true)) }] }
}

impl Optimizer {
    /// This optimizer, then another on its updates.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let decayed = optim::add_decayed_weights(1e-4).chain(optim::momentum(0.1, 0.9));
    /// ```
    pub fn chain(mut self, next: Optimizer) -> Optimizer {
        self.rules.extend(next.rules);
        self
    }

    /// The state before the first update: zeros, and a count of 0.
    #[track_caller]
    pub fn init<T: Tree>(&self, parameters: &T) -> State {
        let (leaves, _) = pair(parameters, parameters);
        let paths = Paths::of(&leaves);
        let mut accumulators = Vec::new();
        for rule in &self.rules {
            match rule {
                Rule::Trace { .. } => accumulators.push(empty("trace", &paths, &leaves, false)),
                Rule::Adam(_) => {
                    accumulators.push(empty("mu", &paths, &leaves, false));
                    // Squares of complex numbers are taken of their absolute value.
                    accumulators.push(empty("nu", &paths, &leaves, true));
                }
                Rule::Decay { .. } | Rule::Scale(_) => {}
            }
        }
        State { count: zeros([], DType::I32), accumulators }
    }

    /// The updates for these gradients, and the next state. Apply them with [`apply_updates`].
    ///
    /// Throws `Tree` if `gradients` or `state` do not belong to `parameters`, naming the leaf.
    #[track_caller]
    pub fn update<T: Tree>(&self, gradients: &T, state: &State, parameters: &T) -> (T, State) {
        let (mut leaves, trained) = pair(parameters, gradients);
        // Saturates, so that the bias correction of a very long run stays 1.
        let count = minimum(&state.count, i32::MAX - 1) + 1;
        let mut accumulators = Vec::with_capacity(state.accumulators.len());
        for rule in &self.rules {
            match rule {
                Rule::Trace { decay, nesterov } => {
                    let trace = accumulator(state, accumulators.len(), "trace", &leaves);
                    accumulators.push(add_trace(&mut leaves, trace, *decay, *nesterov));
                }
                Rule::Adam(adam) => {
                    let at = accumulators.len();
                    let mu = accumulator(state, at, "mu", &leaves);
                    let nu = accumulator(state, at + 1, "nu", &leaves);
                    accumulators.extend(adam.step(&mut leaves, mu, nu, &count));
                }
                Rule::Decay { rate, filter } => {
                    for leaf in leaves.iter_mut().filter(|leaf| (filter.0)(&leaf.path)) {
                        leaf.update = &leaf.update + &leaf.parameter * *rate;
                    }
                }
                Rule::Scale(factor) => {
                    for leaf in &mut leaves {
                        leaf.update = &leaf.update * *factor;
                    }
                }
            }
        }
        let mut updates = leaves.into_iter().map(|leaf| leaf.update);
        let mut all = Vec::with_capacity(trained.len());
        for (gradient, trained) in tree::leaves(gradients).iter().zip(trained) {
            all.push(match trained {
                true => updates.next().expect("one update for every trained leaf"),
                false => zeros_like(gradient),
            });
        }
        (rebuild(gradients, all), State { count, accumulators })
    }
}

/// An accumulator that nothing was added to.
#[track_caller]
fn empty(name: &'static str, paths: &Paths, leaves: &[Leaf], is_real: bool) -> Accumulator {
    let mut values = Vec::with_capacity(leaves.len());
    // Loops rather than closures, here and below: an operation in a closure does not know the
    // user's line.
    for leaf in leaves {
        let dtype = leaf.parameter.dtype();
        let dtype = if is_real { dtype.real() } else { dtype };
        values.push(zeros(leaf.parameter.shape(), dtype));
    }
    Accumulator { name, paths: paths.clone(), values }
}

#[track_caller]
fn add_trace(leaves: &mut [Leaf], trace: &Accumulator, decay: f64, nesterov: bool) -> Accumulator {
    let mut values = Vec::with_capacity(leaves.len());
    for (leaf, trace) in leaves.iter_mut().zip(&trace.values) {
        let next = &leaf.update + trace * decay;
        leaf.update = match nesterov {
            true => &leaf.update + &next * decay,
            false => next.clone(),
        };
        values.push(next);
    }
    Accumulator { name: trace.name, paths: trace.paths.clone(), values }
}

/// The parameters plus the updates, in the parameters' dtypes.
///
/// Throws `Tree`, naming the leaf, if `updates` do not fit `parameters`.
#[track_caller]
pub fn apply_updates<T: Tree>(parameters: &T, updates: &T) -> T {
    let (leaves, trained) = pair(parameters, updates);
    let mut leaves = leaves.iter();
    let mut all = Vec::with_capacity(trained.len());
    for (parameter, trained) in tree::leaves(parameters).into_iter().zip(trained) {
        all.push(match trained {
            true => {
                let leaf = leaves.next().expect("one for every trained leaf");
                convert_element_type(&(&leaf.parameter + &leaf.update), parameter.dtype())
            }
            false => parameter,
        });
    }
    rebuild(parameters, all)
}
