//! Adam and AdamW.

use super::leaves::Leaf;
use super::rules::{Filter, Optimizer, Rule};
use super::state::Accumulator;
use crate::core::{Array, Aval, DType, Scalar, Shape};
use crate::primitives::{convert_element_type, fill_of, imag, pow, real, sqrt};
use std::sync::Arc;

/// The numbers of Adam and AdamW.
///
/// ```
/// use oxidax::prelude::*;
/// let numbers = optim::Adam { b2: 0.95, weight_decay: 0.1, ..optim::Adam::new(3e-4) };
/// let optimizer = numbers.decay_only(|path| path.ends_with("weight"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// Length of a step, per step.
    pub learning_rate: f64,
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
}

/// Adam: steps along the mean gradient, each coordinate in units of its root mean square.
///
/// `b1` 0.9, `b2` 0.999, `eps` 1e-8. For other numbers use [`Adam`].
///
/// # Reference
/// Kingma, Ba: Adam: a method for stochastic optimization (2015), algorithm 1.
pub fn adam(learning_rate: f64) -> Optimizer {
    Adam::new(learning_rate).optimizer()
}

/// Adam with decoupled weight decay of 1e-4 on every trained leaf, times the learning rate.
///
/// `b1` 0.9, `b2` 0.999, `eps` 1e-8. For other numbers, and to spare some leaves, use [`Adam`].
///
/// # Reference
/// Loshchilov, Hutter: Decoupled weight decay regularization (2019), algorithm 2.
pub fn adamw(learning_rate: f64) -> Optimizer {
    Adam { weight_decay: 1e-4, ..Adam::new(learning_rate) }.optimizer()
}

impl Adam {
    /// The usual numbers: `b1` 0.9, `b2` 0.999, `eps` 1e-8, no `eps_root`, no weight decay.
    pub fn new(learning_rate: f64) -> Adam {
        Adam { learning_rate, b1: 0.9, b2: 0.999, eps: 1e-8, eps_root: 0.0, weight_decay: 0.0 }
    }

    /// The optimizer; weight decay acts on every trained leaf.
    pub fn optimizer(self) -> Optimizer {
        self.decay_only(|_| true)
    }

    /// The optimizer, with weight decay on the leaves whose paths `filter` picks and no others.
    pub fn decay_only(self, filter: impl Fn(&str) -> bool + Send + Sync + 'static) -> Optimizer {
        let mut rules = vec![Rule::Adam(self)];
        if self.weight_decay != 0.0 {
            rules.push(Rule::Decay { rate: self.weight_decay, filter: Filter(Arc::new(filter)) });
        }
        rules.push(Rule::Scale(-self.learning_rate));
        Optimizer { rules }
    }

    /// Replaces gradients by steps of about unit length, and gives the next means.
    #[track_caller]
    pub(super) fn step(
        &self,
        leaves: &mut [Leaf],
        mu: &Accumulator,
        nu: &Accumulator,
        count: &Array,
    ) -> [Accumulator; 2] {
        let (mut means, mut squares) = (Vec::new(), Vec::new());
        let mut corrections: Vec<(DType, [Array; 2])> = Vec::new();
        for ((leaf, mu), nu) in leaves.iter_mut().zip(&mu.values).zip(&nu.values) {
            let mean = &leaf.update * (1.0 - self.b1) + mu * self.b1;
            let square = absolute_square(&leaf.update) * (1.0 - self.b2) + nu * self.b2;
            // The powers of the decays need more digits than the moments: in bf16 0.999 is 1.
            let dtype = if nu.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
            if corrections.iter().all(|(known, _)| *known != dtype) {
                let for_mean = correction(self.b1, count, dtype);
                let for_square = correction(self.b2, count, dtype);
                corrections.push((dtype, [for_mean, for_square]));
            }
            let found = corrections.iter().find(|(known, _)| *known == dtype);
            let [for_mean, for_square] = &found.expect("it was just added").1;
            let mean_hat = &mean / convert_element_type(for_mean, mean.dtype());
            let mut square_hat = &square / convert_element_type(for_square, square.dtype());
            if self.eps_root != 0.0 {
                square_hat = square_hat + self.eps_root;
            }
            leaf.update = mean_hat / (sqrt(&square_hat) + self.eps);
            means.push(mean);
            squares.push(square);
        }
        let next = |before: &Accumulator, values| Accumulator {
            name: before.name,
            paths: before.paths.clone(),
            values,
        };
        [next(mu, means), next(nu, squares)]
    }
}

/// `1 - decay^count`: how much of a mean that began at zero has been filled.
#[track_caller]
fn correction(decay: f64, count: &Array, dtype: DType) -> Array {
    let decay = fill_of(Scalar::Float(decay), &Aval::new(dtype, Shape::scalar()));
    1.0 - pow(&decay, convert_element_type(count, dtype))
}

#[track_caller]
fn absolute_square(x: &Array) -> Array {
    match x.dtype().is_complex() {
        true => {
            let (re, im) = (real(x), imag(x));
            &re * &re + &im * &im
        }
        false => x * x,
    }
}
