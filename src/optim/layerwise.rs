//! LARS, Fromage and scalings by norms of leaves.

use super::clip::norm;
use super::mask::{Mask, masked};
use super::moments::{mean_of_rows, safe_norm};
use super::optimizer::{Optimizer, chain};
use super::rms::{TrustRatioOptions, scale_by_trust_ratio_with};
use super::schedule::Schedule;
use super::sgd::{
    AddDecayedWeightsOptions, TraceOptions, add_decayed_weights, add_decayed_weights_with,
    scale_by_learning_rate, stateless, trace_with,
};
use super::{GradientTransformation, Leaves, UpdateArgs};
use crate::core::Array;
use crate::primitives::{convert_element_type, maximum, rsqrt, sqrt, square, zeros};
use crate::tree::{self, Tree};

/// Options of [`lars_with`].
#[derive(Clone, Debug)]
pub struct LarsOptions {
    /// The part of a parameter that is added to its gradient. 0 by default.
    pub weight_decay: f64,
    /// The leaves that decay. All trained leaves by default.
    pub weight_decay_mask: Mask,
    /// The factor of the ratio of norms. 0.001 by default.
    pub trust_coefficient: f64,
    /// A constant added to the norm of the update. 0 by default.
    pub eps: f64,
    /// The leaves whose updates are scaled. All trained leaves by default.
    pub trust_ratio_mask: Mask,
    /// The decay of the momentum, per step. 0.9 by default.
    pub momentum: f64,
    /// Uses Nesterov's momentum.
    pub nesterov: bool,
}

impl Default for LarsOptions {
    fn default() -> LarsOptions {
        LarsOptions {
            weight_decay: 0.0,
            weight_decay_mask: Mask::all(),
            trust_coefficient: 1e-3,
            eps: 0.0,
            trust_ratio_mask: Mask::all(),
            momentum: 0.9,
            nesterov: false,
        }
    }
}

/// Creates LARS: momentum of gradients that are scaled to the norm of their leaf. Use it for large
/// batches.
///
/// ```
/// use oxidax::optim::{LarsOptions, Mask};
/// use oxidax::prelude::*;
/// let matrices = Mask::min_rank(2);
/// let options = LarsOptions {
///     weight_decay: 1e-4,
///     weight_decay_mask: matrices.clone(),
///     trust_ratio_mask: matrices,
///     ..LarsOptions::default()
/// };
/// let optimizer = optim::lars_with(optim::cosine_decay_schedule(3.2, 1000, 0.0), options);
/// ```
///
/// # Reference
/// You, Gitman, Ginsburg: Large batch training of convolutional networks (2017), algorithm 1.
pub fn lars(learning_rate: impl Into<Schedule>) -> Optimizer {
    lars_with(learning_rate, LarsOptions::default())
}

/// Creates LARS with options.
pub fn lars_with(learning_rate: impl Into<Schedule>, options: LarsOptions) -> Optimizer {
    let LarsOptions { trust_coefficient, eps, nesterov, .. } = options;
    let ratio = TrustRatioOptions { trust_coefficient, eps, ..TrustRatioOptions::default() };
    let decay = AddDecayedWeightsOptions { mask: options.weight_decay_mask };
    chain([
        add_decayed_weights_with(options.weight_decay, decay),
        masked(scale_by_trust_ratio_with(ratio), options.trust_ratio_mask),
        scale_by_learning_rate(learning_rate),
        trace_with(options.momentum, TraceOptions { nesterov, ..TraceOptions::default() }),
    ])
}

/// Options of [`fromage_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FromageOptions {
    /// The least norm of a parameter and of an update. 1e-6 by default.
    pub min_norm: f64,
}

impl Default for FromageOptions {
    fn default() -> FromageOptions {
        FromageOptions { min_norm: 1e-6 }
    }
}

/// Creates Fromage: steps of the norm of each leaf, followed by a contraction by
/// `1 / sqrt(1 + learning_rate²)`.
///
/// # Reference
/// Bernstein, Vahdat, Yue, Liu: On the distance between two neural networks and the stability of
/// learning (2020), algorithm 1.
pub fn fromage(learning_rate: impl Into<Schedule>) -> Optimizer {
    fromage_with(learning_rate, FromageOptions::default())
}

/// Creates Fromage with options.
pub fn fromage_with(learning_rate: impl Into<Schedule>, options: FromageOptions) -> Optimizer {
    let rate: Schedule = learning_rate.into();
    let ratio = TrustRatioOptions { min_norm: options.min_norm, ..TrustRatioOptions::default() };
    let (step, contraction) = match rate.constant() {
        Some(rate) => {
            let factor = 1.0 / (1.0 + rate * rate).sqrt();
            (Schedule::from(rate * factor), Schedule::from(factor - 1.0))
        }
        None => {
            let factor = |rate: &Array| rsqrt(&(square(rate) + 1.0));
            let step = rate.clone().map(move |rate| rate * factor(rate));
            (step, rate.map(move |rate| factor(rate) - 1.0))
        }
    };
    chain([
        scale_by_trust_ratio_with(ratio),
        scale_by_learning_rate(step),
        add_decayed_weights(contraction),
    ])
}

/// Multiplies the update of each leaf by the norm of the parameter, or by `min_scale` if that is
/// larger.
pub fn scale_by_param_block_norm(min_scale: f64) -> Optimizer {
    stateless(move |_, update, parameter| {
        update * safe_norm(parameter, min_scale).astype(update.dtype().real())
    })
}

/// Options of [`normalize_by_update_norm_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormalizeOptions {
    /// The norm of the normalized updates. 1 by default.
    pub scale_factor: f64,
    /// A constant added to the norm. 1e-6 by default.
    pub eps: f64,
}

impl Default for NormalizeOptions {
    fn default() -> NormalizeOptions {
        NormalizeOptions { scale_factor: 1.0, eps: 1e-6 }
    }
}

/// Divides updates by the norm of all leaves together.
pub fn normalize_by_update_norm() -> Optimizer {
    normalize_by_update_norm_with(NormalizeOptions::default())
}

/// Divides updates by the norm of all leaves together, with options.
pub fn normalize_by_update_norm_with(options: NormalizeOptions) -> Optimizer {
    let NormalizeOptions { scale_factor, eps } = options;
    super::transformation(
        |_| (),
        move |updates, (), _| {
            let norm = (tree::norm(&updates) + eps) / scale_factor;
            (updates.map(|update| update / convert_element_type(&norm, update.dtype())), ())
        },
    )
}

/// Subtracts from the update of each leaf with two or more axes its mean over all axes but the
/// first.
///
/// # Reference
/// Yong et al.: Gradient centralization: a new optimization technique for deep neural networks
/// (2020), equation 1. Its axes of outputs are the last; weights are transposed there.
pub fn centralize() -> Optimizer {
    stateless(|_, update, _| match update.rank() {
        0 | 1 => update.clone(),
        _ => update - mean_of_rows(update),
    })
}

/// Options of [`scale_by_distance_over_gradients_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistanceOverGradientsOptions {
    /// The first distance, relative to one plus the norm of the leaf. 1e-6 by default.
    pub reps_rel: f64,
    /// A constant added to the sum of squares. 1e-8 by default.
    pub eps: f64,
    /// A factor of the updates. 1 by default.
    pub global_scale: f64,
}

impl Default for DistanceOverGradientsOptions {
    fn default() -> DistanceOverGradientsOptions {
        DistanceOverGradientsOptions { reps_rel: 1e-6, eps: 1e-8, global_scale: 1.0 }
    }
}

/// Scales the update of each leaf by the largest distance from its first value, divided by the root
/// of the sum of squared norms of its gradients.
///
/// # Reference
/// Ivgi, Hinder, Carmon: DoG is SGD's best friend (2023), the layer-wise variant.
pub fn scale_by_distance_over_gradients() -> Optimizer {
    scale_by_distance_over_gradients_with(DistanceOverGradientsOptions::default())
}

/// Scales updates by distances over gradients, with options.
pub fn scale_by_distance_over_gradients_with(options: DistanceOverGradientsOptions) -> Optimizer {
    Optimizer::new(ScaleByDistance(options))
}

struct ScaleByDistance(DistanceOverGradientsOptions);

#[derive(Tree)]
struct DistanceState {
    max_dist: Leaves,
    grad_sum_of_squares: Leaves,
    init_params: Leaves,
}

impl GradientTransformation for ScaleByDistance {
    type State = DistanceState;

    fn init(&self, parameters: &Leaves) -> DistanceState {
        DistanceState {
            max_dist: parameters.map(|p| (norm(p) + 1.0) * self.0.reps_rel),
            grad_sum_of_squares: parameters.map(|p| zeros(([], norm(p).dtype()))),
            // A copy: the step may take the buffer of the parameter by donation.
            init_params: parameters.map(|p| p + zeros(([], p.dtype()))),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: DistanceState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, DistanceState) {
        let max_dist = args
            .parameters()
            .zip_map([&state.init_params, &state.max_dist], |p, [first, distance]| {
                maximum(distance, norm(&(p - first)))
            });
        let sums = updates.zip_map([&state.grad_sum_of_squares], |g, [sum]| {
            let norm = norm(g);
            sum + &norm * &norm
        });
        let updates = updates.zip_map([&max_dist, &sums], |g, [distance, sum]| {
            let rate = distance / sqrt(&(sum + self.0.eps)) * self.0.global_scale;
            g * convert_element_type(&rate, g.dtype())
        });
        let init_params = state.init_params;
        (updates, DistanceState { max_dist, grad_sum_of_squares: sums, init_params })
    }
}
