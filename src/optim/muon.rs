//! Muon: steps along the nearest orthogonal matrix.

use super::adam::{Adam, mean_hat, mix};
use super::basic::{add_decayed_weights, empty, scale_by_learning_rate, stateless};
use super::clip::norm;
use super::leaves::{Leaf, throw_tree};
use super::mask::{Mask, partition};
use super::memory::{Memory, Rule, Step};
use super::optimizer::{Optimizer, chain};
use super::schedule::Schedule;
use crate::core::{Array, DType};
use crate::primitives::{convert_element_type, transpose};

/// The numbers of Muon.
///
/// ```
/// use oxidax::prelude::*;
/// // Embeddings and the head go to AdamW, with everything that is no matrix.
/// let matrices = optim::Mask::paths(["blocks[*].weight"]);
/// let optimizer = optim::Muon { matrices, ..optim::Muon::new(0.02) }.optimizer();
/// ```
#[derive(Clone, Debug)]
pub struct Muon {
    /// Length of a step, per step: of a matrix, and of the other leaves.
    pub learning_rate: Schedule,
    /// Which leaves are orthogonalized; each must have two axes, `[in, out]`.
    pub matrices: Mask,
    /// The coefficients of `a·x + b·(x·xᵀ)·x + c·(x·xᵀ)²·x`.
    pub ns_coeffs: [f64; 3],
    /// How often that is applied.
    pub ns_steps: usize,
    /// Decay of the mean of past gradients, per step.
    pub beta: f64,
    /// Added to the norm that a matrix is divided by; also AdamW's.
    pub eps: f64,
    /// How much of a matrix is taken away at each step, times the learning rate.
    pub weight_decay: f64,
    /// Looks one step ahead.
    pub nesterov: bool,
    /// In which dtype means are kept; the parameter's if `None`.
    pub mu_dtype: Option<DType>,
    /// The decays of the AdamW that the other leaves go to.
    pub adam_b1: f64,
    /// As `adam_b1`, of the mean square.
    pub adam_b2: f64,
    /// As `weight_decay`, of the other leaves.
    pub adam_weight_decay: f64,
    /// The learning rate of the other leaves, if it is another.
    pub adam_learning_rate: Option<Schedule>,
}

/// Muon for every matrix, NAdamW for all other leaves. For other numbers, and to say which leaves are
/// matrices, use [`Muon`].
///
/// # Reference
/// Jordan et al.: Muon: an optimizer for hidden layers in neural networks (2024).
pub fn muon(learning_rate: impl Into<Schedule>) -> Optimizer {
    Muon::new(learning_rate).optimizer()
}

impl Muon {
    /// The usual numbers: coefficients (3.4445, -4.775, 2.0315) five times, `beta` 0.95 with Nesterov's
    /// look ahead, no weight decay; every leaf of two axes is a matrix.
    pub fn new(learning_rate: impl Into<Schedule>) -> Muon {
        Muon {
            learning_rate: learning_rate.into(),
            matrices: Mask::new(|_, aval| aval.rank() == 2),
            ns_coeffs: [3.4445, -4.775, 2.0315],
            ns_steps: 5,
            beta: 0.95,
            eps: 1e-8,
            weight_decay: 0.0,
            nesterov: true,
            mu_dtype: None,
            adam_b1: 0.9,
            adam_b2: 0.999,
            adam_weight_decay: 0.0,
            adam_learning_rate: None,
        }
    }

    /// The optimizer. Its accumulators are called `muon.mu`, `adam.mu` and `adam.nu`.
    pub fn optimizer(self) -> Optimizer {
        let rate = self.learning_rate.clone();
        let adam = Adam {
            b1: self.adam_b1,
            b2: self.adam_b2,
            eps: self.eps,
            weight_decay: self.adam_weight_decay,
            nesterov: self.nesterov,
            mu_dtype: self.mu_dtype,
            ..Adam::new(self.adam_learning_rate.clone().unwrap_or(rate.clone()))
        };
        let (matrices, decay) = (self.matrices.clone(), self.weight_decay);
        let muon = chain([
            self.transformation(),
            // An orthogonal matrix that widens is longer, by this, than one that does not.
            stateless(|_, update, _| {
                let [n_in, n_out] = update.dims();
                update * (n_out as f64 / n_in as f64).max(1.0).sqrt()
            }),
            add_decayed_weights(decay),
            scale_by_learning_rate(rate),
        ]);
        partition([("muon", matrices, muon), ("adam", Mask::all(), adam.optimizer())])
    }

    /// The orthogonalized mean gradient alone. Throws `Tree` if a leaf has not two axes.
    #[doc(alias = "scale_by_muon")]
    pub fn transformation(self) -> Optimizer {
        Optimizer::one(Orthogonal(self))
    }
}

#[derive(Debug)]
struct Orthogonal(Muon);

impl Rule for Orthogonal {
    fn init(&self, leaves: &[Leaf], memory: &mut Memory<'_>) {
        if let Some(leaf) = leaves.iter().find(|leaf| leaf.parameter.rank() != 2) {
            let message = format!("it is {}, no matrix", leaf.parameter.aval());
            let help = "leave it out of `matrices`";
            throw_tree(&leaf.path, message, help, memory.place);
        }
        memory.make("mu", leaves, |leaf| empty(leaf, self.0.mu_dtype));
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], memory: &mut Memory<'_>) {
        let Muon { beta, nesterov, ns_coeffs, ns_steps, eps, .. } = self.0;
        let mut mus = memory.take("mu", leaves);
        for (leaf, mu) in leaves.iter_mut().zip(&mut mus) {
            *mu = mix(&leaf.update, mu, beta);
            let mean = mean_hat(step, mu, &leaf.update, beta, nesterov);
            leaf.update = orthogonalize_via_newton_schulz(&mean, ns_coeffs, ns_steps, eps);
        }
        memory.keep(mus);
    }
}

/// A matrix with the singular vectors of `x` and singular values near 1, by `steps` of
/// `x ← a·x + b·(x·xᵀ)·x + c·(x·xᵀ)²·x` from `x` divided by its norm.
///
/// Throws `Op` (shape) unless `x` is a matrix.
///
/// # Reference
/// Bernstein, Newhouse: Old optimizer, new norm: an anthology (2024), appendix A.
#[track_caller]
pub fn orthogonalize_via_newton_schulz(
    x: &Array,
    coefficients: [f64; 3],
    steps: usize,
    eps: f64,
) -> Array {
    let [rows, columns] = x.dims();
    let [a, b, c] = coefficients;
    // The product of `x` with its transpose is smallest if `x` is wide.
    let tall = rows > columns;
    let mut y = if tall { transpose(x, &[1, 0]) } else { x.clone() };
    y = &y / convert_element_type(&(norm(x) + eps), x.dtype());
    for _ in 0..steps {
        let square = y.matmul(&transpose(&y, &[1, 0]));
        let polynomial = &square * b + square.matmul(&square) * c;
        y = &y * a + polynomial.matmul(&y);
    }
    if tall { transpose(&y, &[1, 0]) } else { y }
}
