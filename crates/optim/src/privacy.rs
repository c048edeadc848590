//! Differentially private gradients.

use oxidax::optim::{Optimizer, Schedule, TraceOptions};
use oxidax::prelude::*;
use oxidax::random::{self, Key};

/// Clips the gradient of every example to a norm and adds them. Axis 0 of every leaf is that of the
/// examples.
///
/// Returns the sum and the number of gradients that were clipped: `i32[]`.
///
/// ```
/// use oxidax::prelude::*;
/// let gradients = array![[3f32, 4.0], [0.3, 0.4]];
/// let (sum, clipped) = oxidax_optim::per_example_global_norm_clip(&gradients, 1.0);
/// assert_eq!(clipped.item::<i32>()?, 1);
/// assert!((sum - array![0.9f32, 1.2]).abs().max().item::<f32>()? < 1e-6);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Abadi et al.: Deep learning with differential privacy (2016), algorithm 1.
#[track_caller]
pub fn per_example_global_norm_clip<T: Tree>(gradients: &T, l2_norm_clip: f64) -> (T, Array) {
    let squares = tree::leaves(gradients).into_iter().map(|leaf| {
        let others: Vec<isize> = (1..leaf.rank() as isize).collect();
        reduce_sum(&leaf.square(), &others)
    });
    let Some(squares) = squares.reduce(|a, b| a + b) else {
        return (tree::map(gradients, Array::clone), zeros(([], DType::I32)));
    };
    let ratio = l2_norm_clip / sqrt(&squares);
    let factors = minimum(&ratio, ones_like(&ratio));
    let factors = where_(isnan(&factors), ones_like(&factors), &factors);
    let n_clipped = lt(&factors, 1.0).astype(DType::I32).sum();
    let sum = tree::map(gradients, |leaf| tensordot(&factors.astype(leaf.dtype()), leaf, 1));
    (sum, n_clipped)
}

/// The share of each leaf in the norm of [`per_example_layer_norm_clip`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "uniform")]
pub enum LayerShare {
    /// All leaves have equal shares.
    #[default]
    Uniform,
    /// Shares are proportional to the roots of the sizes.
    BySize,
}

/// Clips the gradient of every example and leaf to a share of a norm and adds them. Axis 0 of every
/// leaf is that of the examples.
///
/// Returns the sums and, for each leaf, the number of gradients that were clipped: `i32[]`.
///
/// # Reference
/// McMahan, Andrew et al.: A general approach to adding differential privacy to iterative training
/// procedures (2018), section 3.
#[track_caller]
pub fn per_example_layer_norm_clip<T: Tree>(
    gradients: &T,
    global_l2_norm_clip: f64,
    share: LayerShare,
) -> (T, T) {
    let leaves = tree::leaves(gradients);
    let sizes: Vec<usize> =
        leaves.iter().map(|leaf| leaf.shape().dims()[1..].iter().product()).collect();
    let total: usize = sizes.iter().sum();
    let clipped = leaves.iter().zip(&sizes).map(|(leaf, size)| {
        let part = match share {
            LayerShare::Uniform => 1.0 / leaves.len() as f64,
            LayerShare::BySize => *size as f64 / total as f64,
        };
        per_example_global_norm_clip(leaf, global_l2_norm_clip * part.sqrt())
    });
    let (sums, counts): (Vec<Array>, Vec<Array>) = clipped.unzip();
    (tree::unflatten(gradients, sums), tree::unflatten(gradients, counts))
}

/// Returns the mean of clipped gradients of examples, with Gaussian noise. Axis 0 of the leaves of
/// `gradients` is that of the examples.
///
/// The standard deviation of the noise of the sum is `l2_norm_clip · noise_multiplier`. Optimizers
/// take gradients in the shapes of the parameters, so this is a function, and [`dpsgd`] takes its
/// result. Optax has a transformation.
///
/// # Reference
/// Abadi et al.: Deep learning with differential privacy (2016), algorithm 1.
#[track_caller]
pub fn differentially_private_aggregate<T: Tree>(
    gradients: &T,
    l2_norm_clip: f64,
    noise_multiplier: f64,
    key: Key,
) -> T {
    let leaves = tree::leaves(gradients);
    let Some(first) = leaves.first() else { return tree::map(gradients, Array::clone) };
    let n_examples = first.shape().dims()[0] as f64;
    let deviation = l2_norm_clip * noise_multiplier;
    let (sum, _) = per_example_global_norm_clip(gradients, l2_norm_clip);
    let noise = random::tree_like(key, &sum, random::normal);
    tree::zip_map(&sum, &noise, |sum, noise| (sum + noise * deviation) / n_examples)
}

/// Options of [`dpsgd_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DpsgdOptions {
    /// The decay of the momentum, per step. Without momentum by default.
    pub momentum: Option<f64>,
    /// Uses Nesterov's momentum.
    pub nesterov: bool,
}

/// Creates gradient descent on aggregates of [`differentially_private_aggregate`].
pub fn dpsgd(learning_rate: impl Into<Schedule>) -> Optimizer {
    dpsgd_with(learning_rate, DpsgdOptions::default())
}

/// Creates gradient descent on private aggregates, with options.
pub fn dpsgd_with(learning_rate: impl Into<Schedule>, options: DpsgdOptions) -> Optimizer {
    let DpsgdOptions { momentum, nesterov } = options;
    let trace = momentum.map(|decay| {
        optim::trace_with(decay, TraceOptions { nesterov, ..TraceOptions::default() })
    });
    let rate = optim::scale_by_learning_rate(learning_rate);
    optim::chain(trace.into_iter().chain([rate]))
}
