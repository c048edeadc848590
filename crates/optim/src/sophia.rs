//! Sophia and its estimator of the curvature.

use crate::leaf_arithmetic::mean;
use oxidax::optim::{
    AddDecayedWeightsOptions, GradientTransformation, Leaves, Mask, Optimizer, Schedule, State,
    UpdateArgs,
};
use oxidax::prelude::*;
use oxidax::random::{self, Key};

/// Replaces updates by an estimate of the diagonal of the Hessian: the product of the Hessian with
/// random signs, times the signs.
///
/// Call [`Optimizer::update_with`] with the function.
///
/// # Reference
/// Hutchinson: A stochastic estimator of the trace of the influence matrix for Laplacian smoothing
/// splines (1989).
pub fn hutchinson_estimator_diag_hessian(key: Key) -> Optimizer {
    Optimizer::new(Hutchinson { key })
}

struct Hutchinson {
    key: Key,
}

#[derive(Tree)]
struct KeyState {
    key: Array,
}

/// Returns a copy of a key's words, because a step may take the buffer by donation.
fn copy_of(key: &Key) -> Array {
    key.data() + zeros_like(key.data())
}

impl GradientTransformation for Hutchinson {
    type State = KeyState;

    fn init(&self, _: &Leaves) -> KeyState {
        KeyState { key: copy_of(&self.key) }
    }

    fn update(&self, _: Leaves, state: KeyState, args: &UpdateArgs<'_>) -> (Leaves, KeyState) {
        let [key, sample] = Key::from_data(state.key).split();
        let parameters = args.parameters();
        let signs = random::tree_like(sample, parameters, random::rademacher);
        let gradient = grad(|parameters: &Leaves| args.value_at(parameters));
        let (_, product) = jvp(|parameters: &Leaves| gradient(parameters), parameters, &signs);
        let diagonal = product.zip_map([&signs], |product, [sign]| product * sign);
        (diagonal, KeyState { key: key.data().clone() })
    }
}

/// Options of [`sophia_with`].
#[derive(Clone, Debug)]
pub struct SophiaOptions {
    /// The options of the scaling.
    pub scaling: ScaleBySophiaOptions,
    /// The part of a parameter that a step subtracts, times the learning rate. 1e-4 by default.
    pub weight_decay: f64,
    /// The leaves that decay. All trained leaves by default.
    pub mask: Mask,
}

impl Default for SophiaOptions {
    fn default() -> SophiaOptions {
        let scaling = ScaleBySophiaOptions::default();
        SophiaOptions { scaling, weight_decay: 1e-4, mask: Mask::all() }
    }
}

/// Options of [`scale_by_sophia_with`].
#[derive(Clone, Debug)]
pub struct ScaleBySophiaOptions {
    /// The decay of the mean gradient, per step. 0.965 by default.
    pub b1: f64,
    /// The decay of the mean diagonal of the Hessian, per estimate. 0.99 by default.
    pub b2: f64,
    /// The least curvature. 1e-8 by default.
    pub eps: f64,
    /// A factor of the curvature. 0.01 by default.
    pub gamma: f64,
    /// The largest element of a step, or `None`. 1 by default.
    pub clip_threshold: Option<f64>,
    /// The number of steps per estimate of the curvature. 10 by default.
    pub update_interval: u32,
    /// The estimator, which replaces gradients by the diagonal of the Hessian.
    /// [`hutchinson_estimator_diag_hessian`] with key 0 by default.
    pub hessian_diagonal: Optimizer,
    /// The dtype of the mean. The dtype of the parameter by default.
    pub mu_dtype: Option<DType>,
}

impl Default for ScaleBySophiaOptions {
    fn default() -> ScaleBySophiaOptions {
        ScaleBySophiaOptions {
            b1: 0.965,
            b2: 0.99,
            eps: 1e-8,
            gamma: 0.01,
            clip_threshold: Some(1.0),
            update_interval: 10,
            hessian_diagonal: hutchinson_estimator_diag_hessian(random::key(0)),
            mu_dtype: None,
        }
    }
}

/// Creates Sophia: the mean gradient divided by an estimate of the curvature, and clipped.
///
/// Call [`Optimizer::update_with`] with the function.
///
/// # Reference
/// Liu et al.: Sophia: a scalable stochastic second-order optimizer for language model pre-training
/// (2023), algorithm 3.
pub fn sophia(learning_rate: impl Into<Schedule>) -> Optimizer {
    sophia_with(learning_rate, SophiaOptions::default())
}

/// Creates Sophia with options.
pub fn sophia_with(learning_rate: impl Into<Schedule>, options: SophiaOptions) -> Optimizer {
    let SophiaOptions { scaling, weight_decay, mask } = options;
    optim::chain([
        scale_by_sophia_with(scaling),
        optim::add_decayed_weights_with(weight_decay, AddDecayedWeightsOptions { mask }),
        optim::scale_by_learning_rate(learning_rate),
    ])
}

/// Scales updates as Sophia does, with options.
pub fn scale_by_sophia_with(options: ScaleBySophiaOptions) -> Optimizer {
    Optimizer::new(ScaleBySophia(options))
}

struct ScaleBySophia(ScaleBySophiaOptions);

#[derive(Tree)]
struct SophiaState {
    mu: Leaves,
    nu: Leaves,
    hessian: State,
}

impl GradientTransformation for ScaleBySophia {
    type State = SophiaState;

    fn init(&self, parameters: &Leaves) -> SophiaState {
        SophiaState {
            mu: parameters.map(|p| zeros((p.shape(), self.0.mu_dtype.unwrap_or(p.dtype())))),
            nu: tree::zeros_like(parameters),
            hessian: self.0.hessian_diagonal.init(parameters),
        }
    }

    fn update(
        &self,
        updates: Leaves,
        state: SophiaState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, SophiaState) {
        let ScaleBySophiaOptions { b1, b2, eps, gamma, clip_threshold, .. } = self.0;
        let mu = updates.zip_map([&state.mu], |g, [m]| mean(g, m, b1));
        let debiased = args.bias_correction(&mu, b1);
        let steps = debiased.zip_map([&state.nu], |m, [h]| {
            let step = m / maximum(h * gamma, eps);
            match clip_threshold {
                None => step,
                Some(limit) => maximum(minimum(step, limit), -limit),
            }
        });
        let before = args.count() - 1;
        let is_due = eq(remainder(&before, self.0.update_interval.max(1) as i32), 0);
        let estimate = |(nu, hessian): (Leaves, State)| {
            let (diagonal, hessian) =
                args.update_inner(&self.0.hessian_diagonal, &updates, &hessian);
            let next = diagonal.zip_map([&nu], |h, [nu]| mean(h, nu, b2).astype(nu.dtype()));
            (next, hessian)
        };
        let (nu, hessian) = cond(&is_due, estimate, |state| state, (state.nu, state.hessian));
        (steps, SophiaState { mu, nu, hessian })
    }
}
