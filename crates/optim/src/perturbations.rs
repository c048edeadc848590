//! Smoothed functions: means over random perturbations of the argument, with gradients.

use oxidax::prelude::*;
use oxidax::random::{self, Key};

/// A distribution of perturbations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Noise {
    /// The standard Gumbel distribution.
    #[default]
    Gumbel,
    /// The standard normal distribution.
    Normal,
}

impl Noise {
    /// Returns samples.
    pub fn sample(self, key: Key, aval: impl IntoAval) -> Array {
        match self {
            Noise::Gumbel => random::gumbel(key, aval),
            Noise::Normal => random::normal(key, aval),
        }
    }

    /// Returns the logarithm of the density, up to a constant, element-wise.
    pub fn log_prob(self, x: &Array) -> Array {
        match self {
            Noise::Gumbel => -x - exp(-x),
            Noise::Normal => x.square() * -0.5,
        }
    }
}

/// Options of [`make_perturbed_fun_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerturbedOptions {
    /// The number of samples of the mean. 1000 by default.
    pub num_samples: usize,
    /// The scale of the perturbations. 0.1 by default.
    pub sigma: f64,
    /// The distribution of the perturbations. Gumbel's by default.
    pub noise: Noise,
    /// The reduction of the variance of the gradient.
    pub baseline: Baseline,
}

/// The reduction of the variance of the gradient in [`make_perturbed_fun_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "use_baseline")]
pub enum Baseline {
    /// The value at the unperturbed argument is subtracted.
    #[default]
    Value,
    /// Nothing is subtracted.
    None,
}

impl Default for PerturbedOptions {
    fn default() -> PerturbedOptions {
        PerturbedOptions {
            num_samples: 1000,
            sigma: 0.1,
            noise: Noise::Gumbel,
            baseline: Baseline::Value,
        }
    }
}

/// Returns the function `(key, x) ↦ mean f(x + sigma · noise)`, which has gradients even if `f`
/// does not: those of the density of the noise (the score function).
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_optim::perturbations::make_perturbed_fun;
/// // The perturbed arg max is a softmax.
/// let hard = |x: &Array| one_hot(&argmax(x, 0), 3);
/// let soft = make_perturbed_fun(hard);
/// let x = array![0f32, 0.1, 0.0];
/// let mean = soft(random::key(0), &x);
/// assert!((mean.sum() - 1.0).abs().item::<f32>()? < 1e-5);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Berthet et al.: Learning with differentiable perturbed optimizers (2020), proposition 3.1.
pub fn make_perturbed_fun<T: Tree, O: Tree>(f: impl Fn(&T) -> O) -> impl Fn(Key, &T) -> O {
    make_perturbed_fun_with(f, PerturbedOptions::default())
}

/// Returns the mean of a function over perturbations of its argument, with options.
pub fn make_perturbed_fun_with<T: Tree, O: Tree>(
    f: impl Fn(&T) -> O,
    options: PerturbedOptions,
) -> impl Fn(Key, &T) -> O {
    move |key, x| {
        let PerturbedOptions { num_samples, sigma, noise, baseline } = options;
        let fixed = tree::map(x, |x| stop_gradient(x));
        let value = (baseline == Baseline::Value).then(|| f(&fixed));
        let sample = |key: Key| {
            let noise_sample = random::tree_like(key, x, |key, aval| noise.sample(key, aval));
            let shifted = tree::zip_map(&fixed, &noise_sample, |x, z| x + z * sigma);
            let shifted = tree::map(&shifted, |x| stop_gradient(x));
            let back = tree::zip_map(x, &shifted, |x, y| (y - x) / sigma);
            let density = tree::sum(&tree::map(&back, |z| noise.log_prob(z)));
            // It is 1, with the derivative of the density.
            let weight = exp(&density - stop_gradient(&density));
            let output = f(&shifted);
            let weighted = tree::map(&output, |y| y * weight.astype(y.dtype()));
            match &value {
                None => weighted,
                Some(value) => tree::zip_map(&weighted, value, |y, value| {
                    y + (1.0 - &weight).astype(y.dtype()) * value
                }),
            }
        };
        let outputs = vmap(sample).apply(random::split(key, num_samples));
        tree::map(&outputs, |y| y.mean_axes(0))
    }
}
