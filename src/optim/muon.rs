//! Muon: updates replaced by the nearest orthogonal matrix.

use super::adam::{AdamWOptions, adamw_with, debiased_mean, decayed_mean};
use super::clip::norm;
use super::leaves::{Leaf, throw_tree};
use super::mask::{Mask, partition};
use super::optimizer::{Optimizer, chain};
use super::schedule::Schedule;
use super::sgd::{add_decayed_weights, scale_by_learning_rate, stateless, zero_slot};
use super::slots::{Slots, Step, Transformation};
use crate::core::{Array, DType};
use crate::primitives::{convert_element_type, transpose};

/// Options of [`muon_with`].
///
/// ```
/// use oxidax::optim::{Mask, MuonOptions};
/// use oxidax::prelude::*;
/// // Embeddings, the head and all leaves that are not matrices are trained by AdamW.
/// let matrices = Mask::paths(["blocks[*].weight"]);
/// let optimizer = optim::muon_with(0.02, MuonOptions { matrices, ..MuonOptions::default() });
/// ```
#[derive(Clone, Debug)]
pub struct MuonOptions {
    /// The leaves that are orthogonalized, `[in, out]`. All leaves with two axes by default.
    pub matrices: Mask,
    /// The options of the orthogonalization.
    pub scaling: ScaleByMuonOptions,
    /// The part of a matrix that a step subtracts, times the learning rate. 0 by default.
    pub weight_decay: f64,
    /// The decay of the mean gradient of the other leaves. 0.9 by default.
    pub adam_b1: f64,
    /// The decay of the mean square of the other leaves. 0.999 by default.
    pub adam_b2: f64,
    /// The weight decay of the other leaves. 0 by default.
    pub adam_weight_decay: f64,
    /// The learning rate of the other leaves. That of the matrices by default.
    pub adam_learning_rate: Option<Schedule>,
}

impl Default for MuonOptions {
    fn default() -> MuonOptions {
        MuonOptions {
            matrices: Mask::new(|_, aval| aval.rank() == 2),
            scaling: ScaleByMuonOptions::default(),
            weight_decay: 0.0,
            adam_b1: 0.9,
            adam_b2: 0.999,
            adam_weight_decay: 0.0,
            adam_learning_rate: None,
        }
    }
}

/// Options of [`scale_by_muon_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleByMuonOptions {
    /// The coefficients `[a, b, c]` of the iteration `a·x + b·(x·xᵀ)·x + c·(x·xᵀ)²·x`.
    /// `[3.4445, -4.775, 2.0315]` by default.
    pub ns_coeffs: [f64; 3],
    /// The number of iterations. 5 by default.
    pub ns_steps: usize,
    /// The decay of the mean gradient, per step. 0.95 by default.
    pub beta: f64,
    /// A constant added to the norm by which a matrix is divided. 1e-8 by default.
    pub eps: f64,
    /// Uses Nesterov's momentum. True by default.
    pub nesterov: bool,
    /// The dtype of the mean. The dtype of the parameter by default.
    pub mu_dtype: Option<DType>,
}

impl Default for ScaleByMuonOptions {
    fn default() -> ScaleByMuonOptions {
        ScaleByMuonOptions {
            ns_coeffs: [3.4445, -4.775, 2.0315],
            ns_steps: 5,
            beta: 0.95,
            eps: 1e-8,
            nesterov: true,
            mu_dtype: None,
        }
    }
}

/// Creates Muon for matrices and NAdamW for all other leaves.
///
/// # Reference
/// Jordan et al.: Muon: an optimizer for hidden layers in neural networks (2024).
pub fn muon(learning_rate: impl Into<Schedule>) -> Optimizer {
    muon_with(learning_rate, MuonOptions::default())
}

/// Creates Muon with options.
///
/// AdamW shares `eps`, `nesterov` and `mu_dtype`. The accumulators are `muon.mu`, `adam.mu` and
/// `adam.nu`.
pub fn muon_with(learning_rate: impl Into<Schedule>, options: MuonOptions) -> Optimizer {
    let rate = learning_rate.into();
    let adam = AdamWOptions {
        b1: options.adam_b1,
        b2: options.adam_b2,
        eps: options.scaling.eps,
        weight_decay: options.adam_weight_decay,
        nesterov: options.scaling.nesterov,
        mu_dtype: options.scaling.mu_dtype,
        ..AdamWOptions::default()
    };
    let adam = adamw_with(options.adam_learning_rate.unwrap_or(rate.clone()), adam);
    let muon = chain([
        scale_by_muon_with(options.scaling),
        // Matrices with more outputs than inputs take longer steps.
        stateless(|_, update, _| {
            let [n_in, n_out] = update.dims();
            update * (n_out as f64 / n_in as f64).max(1.0).sqrt()
        }),
        add_decayed_weights(options.weight_decay),
        scale_by_learning_rate(rate),
    ]);
    partition([("muon", options.matrices, muon), ("adam", Mask::all(), adam)])
}

/// Replaces updates by the orthogonalized mean gradient. Throws `Tree` if a leaf is not a matrix.
pub fn scale_by_muon() -> Optimizer {
    scale_by_muon_with(ScaleByMuonOptions::default())
}

/// Replaces updates by the orthogonalized mean gradient, with options. Throws `Tree` if a leaf is
/// not a matrix.
pub fn scale_by_muon_with(options: ScaleByMuonOptions) -> Optimizer {
    Optimizer::one(ScaleByMuon(options))
}

#[derive(Debug)]
struct ScaleByMuon(ScaleByMuonOptions);

impl Transformation for ScaleByMuon {
    fn init(&self, leaves: &[Leaf], slots: &mut Slots<'_>) {
        if let Some(leaf) = leaves.iter().find(|leaf| leaf.parameter.rank() != 2) {
            let message = format!("it is {}, not a matrix", leaf.parameter.aval());
            let help = "leave it out of `matrices`";
            throw_tree(&leaf.path, message, help, slots.loc);
        }
        slots.create("mu", leaves, |leaf| zero_slot(leaf, self.0.mu_dtype));
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], slots: &mut Slots<'_>) {
        let ScaleByMuonOptions { beta, nesterov, ns_coeffs, ns_steps, eps, .. } = self.0;
        let mut mus = slots.take("mu", leaves);
        for (leaf, mu) in leaves.iter_mut().zip(&mut mus) {
            *mu = decayed_mean(&leaf.update, mu, beta);
            let mean = debiased_mean(step, mu, &leaf.update, beta, nesterov);
            leaf.update = orthogonalize_via_newton_schulz(&mean, ns_coeffs, ns_steps, eps);
        }
        slots.put(mus);
    }
}

/// Returns a matrix with the singular vectors of `x` and singular values near 1.
///
/// It divides `x` by its norm and iterates `x ← a·x + b·(x·xᵀ)·x + c·(x·xᵀ)²·x`.
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
    // The product of `x` with its transpose is smaller if `x` is wide.
    let is_tall = rows > columns;
    let mut y = if is_tall { transpose(x, &[1, 0]) } else { x.clone() };
    y = &y / convert_element_type(&(norm(x) + eps), x.dtype());
    for _ in 0..steps {
        let square = y.matmul(&transpose(&y, &[1, 0]));
        let polynomial = &square * b + square.matmul(&square) * c;
        y = &y * a + polynomial.matmul(&y);
    }
    if is_tall { transpose(&y, &[1, 0]) } else { y }
}
