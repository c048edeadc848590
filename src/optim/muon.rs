//! Muon: updates replaced by the nearest orthogonal matrix.

use super::adam::{AdamWOptions, adamw_with, debiased_mean, decayed_mean};
use super::clip::norm;
use super::leaves::{Leaf, throw_tree};
use super::mask::{Mask, partition};
use super::optimizer::{Optimizer, chain};
use super::schedule::Schedule;
use super::sgd::{
    AddDecayedWeightsOptions, add_decayed_weights_with, scale_by_learning_rate, stateless,
    zero_slot,
};
use super::slots::{Slots, Step, Transformation};
use crate::core::trace::throw_operands;
use crate::core::{Array, DType, Loc, RuleError};
use crate::ops::axes;
use crate::ops::linalg::{MatrixNorm, matrix_norm};
use crate::primitives::{
    abs, conj, convert_element_type, expand_dims, maximum, reshape, rsqrt, transpose,
};

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
    /// The matrices that decay. All of them by default.
    pub weight_decay_mask: Mask,
    /// Multiplies steps by `consistent_rms · sqrt(max(in, out))`, so that their root mean square
    /// does not depend on the shape; 0.2 is that of AdamW. Otherwise, by default, steps of matrices
    /// with more outputs than inputs are longer by `sqrt(out / in)`.
    pub consistent_rms: Option<f64>,
    /// The decay of the mean gradient of the other leaves. 0.9 by default.
    pub adam_b1: f64,
    /// The decay of the mean square of the other leaves. 0.999 by default.
    pub adam_b2: f64,
    /// A constant added to the mean square of the other leaves, inside of the root. 0 by default.
    pub adam_eps_root: f64,
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
            weight_decay_mask: Mask::all(),
            consistent_rms: None,
            adam_b1: 0.9,
            adam_b2: 0.999,
            adam_eps_root: 0.0,
            adam_weight_decay: 0.0,
            adam_learning_rate: None,
        }
    }
}

/// The factor by which a matrix is divided before the first iteration of Newton and Schulz, so that
/// its singular values are at most 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MuonPreconditioning {
    /// The square root of the sum of squares. The default.
    #[default]
    Frobenius,
    /// The largest singular value: exact, and expensive.
    Spectral,
    /// One factor per row of the shorter side, of almost orthogonal layers. It saves an iteration.
    Aol,
    /// The Schatten norm of order 4.
    Schatten,
}

/// The axes of a leaf that are the rows and the columns of its matrix. Other axes are a batch.
///
/// ```
/// use oxidax::optim::{Mask, MuonDimensionNumbers, MuonOptions, ScaleByMuonOptions};
/// use oxidax::prelude::*;
/// // Projections to heads, `[in, heads, head_size]`.
/// let heads = MuonDimensionNumbers { reduction_axes: vec![0], output_axes: vec![1, 2] };
/// let dimension_numbers = vec![(Mask::paths(["query"]), heads)];
/// let scaling = ScaleByMuonOptions { dimension_numbers, ..ScaleByMuonOptions::default() };
/// let matrices = Mask::paths(["query"]);
/// let optimizer = optim::muon_with(0.02, MuonOptions { matrices, scaling, ..Default::default() });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MuonDimensionNumbers {
    /// The axes of the inputs. `[0]` by default.
    pub reduction_axes: Vec<isize>,
    /// The axes of the outputs. `[1]` by default.
    pub output_axes: Vec<isize>,
}

impl Default for MuonDimensionNumbers {
    fn default() -> MuonDimensionNumbers {
        MuonDimensionNumbers { reduction_axes: vec![0], output_axes: vec![1] }
    }
}

/// Options of [`scale_by_muon_with`].
#[derive(Clone, Debug)]
pub struct ScaleByMuonOptions {
    /// The coefficients `[a, b, c]` of the iteration `a·x + b·(x·xᵀ)·x + c·(x·xᵀ)²·x`: those of all
    /// iterations, or those of each iteration, of which the last `ns_steps` are used.
    /// `[3.4445, -4.775, 2.0315]` by default.
    pub ns_coeffs: Vec<[f64; 3]>,
    /// The number of iterations. 5 by default.
    pub ns_steps: usize,
    /// The division before the first iteration.
    pub preconditioning: MuonPreconditioning,
    /// Multiplies updates by their inner product with the mean gradient, the dual norm. False by
    /// default.
    pub adaptive: bool,
    /// The axes of leaves as matrices: the first mask that contains a leaf counts. Leaves without
    /// an entry have two axes.
    #[doc(alias = "weight_dimension_numbers")]
    pub dimension_numbers: Vec<(Mask, MuonDimensionNumbers)>,
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
            ns_coeffs: vec![[3.4445, -4.775, 2.0315]],
            ns_steps: 5,
            preconditioning: MuonPreconditioning::Frobenius,
            adaptive: false,
            dimension_numbers: Vec::new(),
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
        eps_root: options.adam_eps_root,
        weight_decay: options.adam_weight_decay,
        nesterov: options.scaling.nesterov,
        mu_dtype: options.scaling.mu_dtype,
        ..AdamWOptions::default()
    };
    let adam = adamw_with(options.adam_learning_rate.unwrap_or(rate.clone()), adam);
    let decay = AddDecayedWeightsOptions { mask: options.weight_decay_mask };
    let muon = chain([
        scale_by_muon_with(options.scaling.clone()),
        stateless(move |path, update, _| {
            let matrix = MatrixAxes::of(&options.scaling, path, update);
            let [_, n_in, n_out] = matrix.sizes(update).map(|size| size as f64);
            update
                * match options.consistent_rms {
                    Some(rms) => n_in.max(n_out).sqrt() * rms,
                    None => (n_out / n_in).max(1.0).sqrt(),
                }
        }),
        add_decayed_weights_with(options.weight_decay, decay),
        scale_by_learning_rate(rate),
    ]);
    partition([("muon", options.matrices, muon), ("adam", Mask::all(), adam)])
}

/// Replaces updates by the orthogonalized mean gradient. Throws `Tree` if a leaf is not a matrix.
pub fn scale_by_muon() -> Optimizer {
    scale_by_muon_with(ScaleByMuonOptions::default())
}

/// Replaces updates by the orthogonalized mean gradient, with options.
///
/// Throws `Tree` if a leaf is not a matrix and has no dimension numbers, and `Op` (value) if there
/// are neither one nor `ns_steps` coefficients.
pub fn scale_by_muon_with(options: ScaleByMuonOptions) -> Optimizer {
    Optimizer::one(ScaleByMuon(options))
}

#[derive(Debug)]
struct ScaleByMuon(ScaleByMuonOptions);

impl Transformation for ScaleByMuon {
    fn init(&self, leaves: &[Leaf], slots: &mut Slots<'_>) {
        for leaf in leaves {
            MatrixAxes::expect(&self.0, &leaf.path, &leaf.parameter, slots.loc);
        }
        slots.create("mu", leaves, |leaf| zero_slot(leaf, self.0.mu_dtype));
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], slots: &mut Slots<'_>) {
        let ScaleByMuonOptions { beta, nesterov, ns_steps, eps, adaptive, .. } = self.0;
        let iteration = NewtonSchulz {
            coefficients: step_coefficients(&self.0.ns_coeffs, ns_steps),
            preconditioning: self.0.preconditioning,
            eps,
        };
        let mut mus = slots.take("mu", leaves);
        for (leaf, mu) in leaves.iter_mut().zip(&mut mus) {
            *mu = decayed_mean(&leaf.update, mu, beta);
            let mean = debiased_mean(step, mu, &leaf.update, beta, nesterov);
            let matrix = MatrixAxes::of(&self.0, &leaf.path, &mean);
            let orthogonal = matrix.apply(&mean, |x| iteration.orthogonalize(x));
            leaf.update = match adaptive {
                true => (conj(&mean) * &orthogonal).sum() * &orthogonal,
                false => orthogonal,
            };
        }
        slots.put(mus);
    }
}

/// Returns the coefficients of each iteration.
fn step_coefficients(all: &[[f64; 3]], n_steps: usize) -> Vec<[f64; 3]> {
    match all {
        [same] => vec![*same; n_steps],
        _ if all.len() >= n_steps => all[all.len() - n_steps..].to_vec(),
        _ => {
            let message = format!("{n_steps} iterations have {} coefficients", all.len());
            throw_operands("scale_by_muon", RuleError::value(message), &[])
        }
    }
}

/// The order of a leaf's axes as a batch of matrices, and the number of axes of each part.
struct MatrixAxes {
    order: Vec<usize>,
    counts: [usize; 3],
}

impl MatrixAxes {
    fn of(options: &ScaleByMuonOptions, path: &str, x: &Array) -> MatrixAxes {
        let entry =
            options.dimension_numbers.iter().find(|(mask, _)| mask.contains(path, x.aval()));
        let numbers = entry.map(|(_, numbers)| numbers.clone()).unwrap_or_default();
        let rank = x.rank() as isize;
        let positive = |axes: &[isize]| -> Vec<usize> {
            let axes = axes.iter().map(|axis| if *axis < 0 { axis + rank } else { *axis });
            axes.map(|axis| axis as usize).collect()
        };
        let rows = positive(&numbers.reduction_axes);
        let columns = positive(&numbers.output_axes);
        let is_batch = |axis: &usize| !rows.contains(axis) && !columns.contains(axis);
        let batch: Vec<usize> = (0..x.rank()).filter(is_batch).collect();
        let counts = [batch.len(), rows.len(), columns.len()];
        MatrixAxes { order: [batch, rows, columns].concat(), counts }
    }

    /// Throws unless the leaf has the axes, and has entries for more than two.
    fn expect(options: &ScaleByMuonOptions, path: &str, x: &Array, loc: Loc) {
        let matrix = MatrixAxes::of(options, path, x);
        let mut sorted = matrix.order.clone();
        sorted.sort_unstable();
        let has_entry = options.dimension_numbers.iter().any(|(m, _)| m.contains(path, x.aval()));
        if sorted.iter().copied().ne(0..x.rank()) || (x.rank() != 2 && !has_entry) {
            let message = format!("it is {}, not a matrix", x.aval());
            let help = "leave it out of `matrices`, or give its `dimension_numbers`";
            throw_tree(path, message, help, loc);
        }
    }

    /// Returns the sizes of the batch, the rows and the columns.
    fn sizes(&self, x: &Array) -> [usize; 3] {
        let mut axes = self.order.iter();
        self.counts.map(|n| axes.by_ref().take(n).map(|axis| x.shape()[*axis]).product())
    }

    /// Applies a function to the matrices.
    fn apply(&self, x: &Array, f: impl FnOnce(&Array) -> Array) -> Array {
        if self.order == [0, 1] {
            return f(x);
        }
        let sorted = transpose(x, &self.order);
        let [batch, rows, columns] = self.sizes(x);
        let matrices = reshape(&sorted, [batch, rows, columns]);
        let result = reshape(&f(&matrices), sorted.shape());
        let mut inverse = vec![0; self.order.len()];
        for (at, axis) in self.order.iter().enumerate() {
            inverse[*axis] = at;
        }
        transpose(&result, &inverse)
    }
}

/// The iteration that orthogonalizes matrices.
struct NewtonSchulz {
    coefficients: Vec<[f64; 3]>,
    preconditioning: MuonPreconditioning,
    eps: f64,
}

impl NewtonSchulz {
    /// Orthogonalizes matrices `[…, rows, columns]`.
    fn orthogonalize(&self, x: &Array) -> Array {
        let [rows, columns] = [x.shape()[x.rank() - 2], x.shape()[x.rank() - 1]];
        // The product of `x` with its transpose is smaller if `x` is wide.
        let is_tall = rows > columns;
        let mut y = if is_tall { x.mt() } else { x.clone() };
        let divided = |norm: Array| {
            let norm = convert_element_type(&(norm + self.eps), x.dtype());
            if x.rank() == 2 { &y / norm } else { &y / expand_dims(&norm, &[-2, -1]) }
        };
        match self.preconditioning {
            MuonPreconditioning::Frobenius if x.rank() == 2 => y = divided(norm(x)),
            MuonPreconditioning::Frobenius => y = divided(matrix_norm(x, MatrixNorm::Frobenius)),
            MuonPreconditioning::Spectral => y = divided(matrix_norm(x, MatrixNorm::Spectral)),
            MuonPreconditioning::Aol | MuonPreconditioning::Schatten => {}
        }
        for (at, [a, b, c]) in self.coefficients.iter().enumerate() {
            let mut square = y.matmul(&conj(y.mt()));
            if let (0, Some(factor)) = (at, self.first_factor(&square)) {
                y = &y * &factor;
                square = square * &factor * factor.mt();
            }
            let polynomial = &square * *b + square.matmul(&square) * *c;
            y = &y * *a + polynomial.matmul(&y);
        }
        if is_tall { y.mt() } else { y }
    }

    /// Returns the factors of the rows before the first iteration, `[…, rows or 1, 1]`, from the
    /// product of a matrix with its transpose.
    fn first_factor(&self, square: &Array) -> Option<Array> {
        let sums = match self.preconditioning {
            MuonPreconditioning::Aol => abs(square).sum_axes(axes(-1).keepdims()),
            MuonPreconditioning::Schatten => {
                expand_dims(&matrix_norm(square, MatrixNorm::Frobenius), &[-2, -1])
            }
            _ => return None,
        };
        // The functions of Optax that are called here have their own `eps`.
        Some(rsqrt(maximum(sums, 1e-8)))
    }
}

/// Returns a matrix with the singular vectors of `x` and singular values near 1.
///
/// It divides `x` by its norm and iterates `x ← a·x + b·(x·xᵀ)·x + c·(x·xᵀ)²·x`.
/// [`scale_by_muon_with`] has other divisions, other coefficients for each iteration, and leaves
/// with more axes.
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
    let [_, _] = x.dims();
    let preconditioning = MuonPreconditioning::Frobenius;
    NewtonSchulz { coefficients: vec![coefficients; steps], preconditioning, eps }.orthogonalize(x)
}
