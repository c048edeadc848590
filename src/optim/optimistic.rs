//! Optimistic gradients, noise, sign momentum and Polyak's step size.

use super::adam::{AdamOptions, scale_by_adam_with};
use super::gradient_transformation::{GradientTransformation, UpdateArgs};
use super::leaves::Leaves;
use super::optimizer::{Optimizer, chain};
use super::schedule::Schedule;
use super::sgd::{scale_by_learning_rate, scale_by_sign, sgd};
use super::wrappers::{EmaOptions, ema_with};
use crate::core::{Array, DType};
use crate::primitives::{
    convert_element_type, eq, full_like, le, maximum, minimum, pow, sqrt, where_, zeros_like,
};
use crate::random::{self, Key};
use crate::tree::{self, Tree};

/// Options of [`scale_by_optimistic_gradient_with`] and [`optimistic_gradient_descent_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptimisticGradientOptions {
    /// The factor of the gradient. 1 by default.
    pub alpha: f64,
    /// The factor of the change of the gradient since the last step. 1 by default.
    pub beta: f64,
}

impl Default for OptimisticGradientOptions {
    fn default() -> OptimisticGradientOptions {
        OptimisticGradientOptions { alpha: 1.0, beta: 1.0 }
    }
}

/// Adds to updates their change since the last step: `(alpha + beta) · g - beta · last`.
pub fn scale_by_optimistic_gradient() -> Optimizer {
    scale_by_optimistic_gradient_with(OptimisticGradientOptions::default())
}

/// Adds to updates their change since the last step, with options.
pub fn scale_by_optimistic_gradient_with(options: OptimisticGradientOptions) -> Optimizer {
    Optimizer::new(ScaleByOptimisticGradient(options))
}

struct ScaleByOptimisticGradient(OptimisticGradientOptions);

#[derive(Tree)]
struct OptimisticState {
    previous_gradient: Leaves,
}

impl GradientTransformation for ScaleByOptimisticGradient {
    type State = OptimisticState;

    fn init(&self, parameters: &Leaves) -> OptimisticState {
        OptimisticState { previous_gradient: tree::zeros_like(parameters) }
    }

    fn update(
        &self,
        updates: Leaves,
        state: OptimisticState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, OptimisticState) {
        let OptimisticGradientOptions { alpha, beta } = self.0;
        let is_first = eq(args.count(), 1);
        let next = updates.zip_map([&state.previous_gradient], |g, [last]| {
            let last = where_(&is_first, g, last);
            g * (alpha + beta) - last * beta
        });
        (next, OptimisticState { previous_gradient: updates })
    }
}

/// Creates optimistic gradient descent. Use it for games and other saddle points.
///
/// # Reference
/// Mokhtari, Ozdaglar, Pattathil: A unified analysis of extra-gradient and optimistic gradient
/// methods for saddle point problems (2020), equation 9.
pub fn optimistic_gradient_descent(learning_rate: impl Into<Schedule>) -> Optimizer {
    optimistic_gradient_descent_with(learning_rate, OptimisticGradientOptions::default())
}

/// Creates optimistic gradient descent with options.
pub fn optimistic_gradient_descent_with(
    learning_rate: impl Into<Schedule>,
    options: OptimisticGradientOptions,
) -> Optimizer {
    scale_by_optimistic_gradient_with(options).chain(scale_by_learning_rate(learning_rate))
}

/// Options of [`optimistic_adam_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptimisticAdamOptions {
    /// The options of Adam, with Nesterov's momentum by default.
    pub adam: AdamOptions,
    /// The factors of the optimistic gradient.
    pub optimistic: OptimisticGradientOptions,
}

impl Default for OptimisticAdamOptions {
    fn default() -> OptimisticAdamOptions {
        let adam = AdamOptions { nesterov: true, ..AdamOptions::default() };
        OptimisticAdamOptions { adam, optimistic: OptimisticGradientOptions::default() }
    }
}

/// Creates optimistic Adam: Adam whose updates are followed by an optimistic gradient.
///
/// These are the factors of `optax.optimistic_adam_v2`. The argument `optimism` of
/// `optax.optimistic_adam` is `beta` times the learning rate.
///
/// # Reference
/// Daskalakis, Ilyas, Syrgkanis, Zeng: Training GANs with optimism (2018), algorithm 1.
#[doc(alias = "optimistic_adam_v2")]
pub fn optimistic_adam(learning_rate: impl Into<Schedule>) -> Optimizer {
    optimistic_adam_with(learning_rate, OptimisticAdamOptions::default())
}

/// Creates optimistic Adam with options.
pub fn optimistic_adam_with(
    learning_rate: impl Into<Schedule>,
    options: OptimisticAdamOptions,
) -> Optimizer {
    chain([
        scale_by_adam_with(options.adam),
        scale_by_optimistic_gradient_with(options.optimistic),
        scale_by_learning_rate(learning_rate),
    ])
}

/// Adds Gaussian noise of variance `eta / countᵞ` to updates, with the key in the state.
///
/// # Reference
/// Neelakantan et al.: Adding gradient noise improves learning for very deep networks (2015),
/// equation 1.
///
/// ```
/// use oxidax::prelude::*;
/// let noisy = optim::add_noise(0.01, 0.55, random::key(0)).chain(optim::adam(1e-3));
/// let state = noisy.init(&ones([2]));
/// assert_eq!(tree::paths(&state), ["count", "rng_key", "mu", "nu"]);
/// ```
pub fn add_noise(eta: f64, gamma: f64, key: Key) -> Optimizer {
    Optimizer::new(AddNoise { eta, gamma, key })
}

struct AddNoise {
    eta: f64,
    gamma: f64,
    key: Key,
}

#[derive(Tree)]
struct NoiseState {
    rng_key: Array,
}

impl GradientTransformation for AddNoise {
    type State = NoiseState;

    fn init(&self, _: &Leaves) -> NoiseState {
        // A copy: the step may take the buffer of the state by donation.
        NoiseState { rng_key: self.key.data() + zeros_like(self.key.data()) }
    }

    fn update(
        &self,
        updates: Leaves,
        state: NoiseState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, NoiseState) {
        let [next, sample] = Key::from_data(state.rng_key).split();
        let count = convert_element_type(args.count(), DType::F32);
        let deviation = sqrt(&(self.eta / pow(&count, self.gamma)));
        let noise = random::tree_like(sample, &updates, random::normal);
        let updates = updates.zip_map([&noise], |g, [noise]| {
            g + noise * convert_element_type(&deviation, noise.dtype())
        });
        (updates, NoiseState { rng_key: next.data().clone() })
    }
}

/// Options of [`noisy_sgd_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoisySgdOptions {
    /// The variance of the noise at the first step. 0.01 by default.
    pub eta: f64,
    /// The exponent with which the variance decays. 0.55 by default.
    pub gamma: f64,
}

impl Default for NoisySgdOptions {
    fn default() -> NoisySgdOptions {
        NoisySgdOptions { eta: 0.01, gamma: 0.55 }
    }
}

/// Creates gradient descent with decaying Gaussian noise; see [`add_noise`].
pub fn noisy_sgd(learning_rate: impl Into<Schedule>, key: Key) -> Optimizer {
    noisy_sgd_with(learning_rate, key, NoisySgdOptions::default())
}

/// Creates gradient descent with decaying Gaussian noise, with options.
pub fn noisy_sgd_with(
    learning_rate: impl Into<Schedule>,
    key: Key,
    options: NoisySgdOptions,
) -> Optimizer {
    let NoisySgdOptions { eta, gamma } = options;
    add_noise(eta, gamma, key).chain(scale_by_learning_rate(learning_rate))
}

/// Options of [`signum_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignumOptions {
    /// The decay of the mean gradient, per step. 0.9 by default.
    pub beta: f64,
    /// The dtype of the mean. The dtype of the parameter by default.
    pub accumulator_dtype: Option<DType>,
}

impl Default for SignumOptions {
    fn default() -> SignumOptions {
        SignumOptions { beta: 0.9, accumulator_dtype: None }
    }
}

/// Creates Signum: steps along the sign of the mean gradient.
///
/// # Reference
/// Bernstein, Wang, Azizzadenesheli, Anandkumar: signSGD (2018), algorithm 2.
pub fn signum(learning_rate: impl Into<Schedule>) -> Optimizer {
    signum_with(learning_rate, SignumOptions::default())
}

/// Creates Signum with options.
pub fn signum_with(learning_rate: impl Into<Schedule>, options: SignumOptions) -> Optimizer {
    let SignumOptions { beta, accumulator_dtype } = options;
    chain([
        ema_with(beta, EmaOptions { debias: false, accumulator_dtype }),
        scale_by_sign(),
        scale_by_learning_rate(learning_rate),
    ])
}

/// The treatment of values below the assumed minimum by Polyak's step size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolyakVariant {
    /// The step is negative there: `sps` in Optax.
    #[default]
    Sps,
    /// The step is zero there: `sps+` in Optax.
    SpsPlus,
}

/// Options of [`polyak_sgd_with`] and [`scale_by_polyak_with`].
#[derive(Clone, Debug)]
pub struct PolyakOptions {
    /// The largest step size. 1 by default.
    pub max_learning_rate: f64,
    /// A factor of the step, which [`scale_by_polyak_with`] does not use. 1 by default.
    pub scaling: Schedule,
    /// The least value of the loss. 0 by default.
    pub f_min: f64,
    /// A constant added to the squared norm of the gradient. 0 by default.
    pub eps: f64,
    /// The treatment of values below `f_min`.
    pub variant: PolyakVariant,
}

impl Default for PolyakOptions {
    fn default() -> PolyakOptions {
        PolyakOptions {
            max_learning_rate: 1.0,
            scaling: Schedule::from(1.0),
            f_min: 0.0,
            eps: 0.0,
            variant: PolyakVariant::Sps,
        }
    }
}

/// Creates gradient descent with Polyak's step size,
/// `min((value - f_min) / (|gradient|² + eps), max_learning_rate)`.
///
/// Call [`Optimizer::update_with`] with [`UpdateOptions::value`](super::UpdateOptions::value).
///
/// # Reference
/// Loizou, Vaswani, Laradji, Lacoste-Julien: Stochastic Polyak step-size for SGD (2021),
/// equation 1. Berrada, Zisserman, Kumar: Training neural networks for and by interpolation
/// (2020), algorithm 1.
pub fn polyak_sgd() -> Optimizer {
    polyak_sgd_with(PolyakOptions::default())
}

/// Creates gradient descent with Polyak's step size, with options.
pub fn polyak_sgd_with(options: PolyakOptions) -> Optimizer {
    sgd(options.scaling.clone()).chain(scale_by_polyak_with(options))
}

/// Scales updates by Polyak's step size.
pub fn scale_by_polyak() -> Optimizer {
    scale_by_polyak_with(PolyakOptions::default())
}

/// Scales updates by Polyak's step size, with options.
pub fn scale_by_polyak_with(options: PolyakOptions) -> Optimizer {
    let PolyakOptions { max_learning_rate, f_min, eps, variant, .. } = options;
    super::transformation(
        |_| (),
        move |updates, (), args| {
            let square = tree::sum(&updates.map(super::adam::absolute_square));
            let gap = convert_element_type(&(args.value() - f_min), square.dtype());
            let gap = if variant == PolyakVariant::Sps { gap } else { maximum(gap, 0.0) };
            let denominator = &square + eps;
            let rate = minimum(gap / &denominator, full_like(&denominator, max_learning_rate));
            // Optax compares with the spacing of f64.
            let is_flat = le(&denominator, f64::EPSILON);
            let rate = where_(is_flat, zeros_like(&rate), &rate);
            (updates.map(|update| update * convert_element_type(&rate, update.dtype())), ())
        },
    )
}
