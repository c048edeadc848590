//! Spectral normalization of a layer's weights.

use oxidax::core::{RuleError, throw_operands};
use oxidax::prelude::*;
use oxidax::random::{self, Key};
use std::collections::BTreeMap;

/// Spectral normalization: divides each weight of a layer by its largest singular value.
///
/// The singular value is approximated by a power iteration that continues from step to step. A
/// training step takes and returns its vectors as [`SpectralStats`], like the statistics of
/// [`BatchNorm`](nn::BatchNorm). Leaves with fewer than two axes are unchanged. The leading axes of
/// a leaf with more than two are flattened.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::SpectralNorm;
/// let [layer, vectors] = random::key(0).split();
/// let layer = nn::Linear::new(layer, 8, 4);
/// let norm = SpectralNorm { n_steps: 50, ..SpectralNorm::default() };
/// let stats = norm.init(vectors, &layer);
/// let (normalized, stats) = norm.normalize(&layer, &stats);
/// let largest = svd(&normalized.weight).1.max().item::<f32>()?;
/// assert!((largest - 1.0).abs() < 1e-3);
/// # drop(stats);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Miyato et al.: Spectral normalization for generative adversarial networks (2018), algorithm 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpectralNorm {
    /// The number of power iterations of each call. 0 leaves the weights unchanged.
    pub n_steps: usize,
    /// A constant added to squared norms.
    pub epsilon: f64,
}

impl Default for SpectralNorm {
    fn default() -> SpectralNorm {
        SpectralNorm { n_steps: 1, epsilon: 1e-12 }
    }
}

/// The state of the power iterations of a [`SpectralNorm`].
#[derive(Clone, Debug, Tree)]
pub struct SpectralStats {
    /// The right singular vector of each weight, `[1, out]`, by its path.
    #[doc(alias = "u")]
    pub vectors: BTreeMap<String, Array>,
    /// The largest singular value of each weight, by its path. 1 at first.
    #[doc(alias = "sigma")]
    pub values: BTreeMap<String, Array>,
}

impl SpectralNorm {
    /// Draws the first vectors for the weights of a layer from a normal distribution.
    #[track_caller]
    pub fn init<T: Tree>(&self, key: Key, layer: &T) -> SpectralStats {
        let mut stats = SpectralStats { vectors: BTreeMap::new(), values: BTreeMap::new() };
        let leaves = tree::paths(layer).into_iter().zip(tree::leaves(layer));
        let matrices: Vec<(String, Array)> =
            leaves.filter(|(_, leaf)| leaf.rank() > 1 && leaf.dtype().is_float()).collect();
        let keys = random::split(key, matrices.len());
        for ((path, leaf), key) in matrices.into_iter().zip(keys) {
            let n_out = leaf.shape()[leaf.rank() - 1];
            stats.vectors.insert(path.clone(), random::normal(key, ([1, n_out], leaf.dtype())));
            stats.values.insert(path, ones(([], leaf.dtype())));
        }
        stats
    }

    /// Returns the layer with normalized weights, and the statistics after the power iterations.
    ///
    /// Derivatives flow through the weights and the singular values, and not through the vectors.
    /// Evaluation drops the second result.
    ///
    /// Throws `Op` (value) if the statistics are those of another layer.
    #[track_caller]
    pub fn normalize<T: Tree>(&self, layer: &T, stats: &SpectralStats) -> (T, SpectralStats) {
        let mut next = stats.clone();
        let layer = tree::map_with_path(layer, |path, leaf| {
            if self.n_steps == 0 || leaf.rank() < 2 || !leaf.dtype().is_float() {
                return leaf.clone();
            }
            let Some(first) = stats.vectors.get(path) else {
                let message = format!("the statistics do not have `{path}` {}", leaf.aval());
                let error = RuleError::value(message).help("call `init` with this layer");
                throw_operands("SpectralNorm", error, &[leaf]);
            };
            let (weight, vector, value) = self.normalize_leaf(leaf, first);
            next.vectors.insert(path.to_owned(), vector);
            next.values.insert(path.to_owned(), value);
            weight
        });
        (layer, next)
    }

    /// Returns the normalized weight, the vector and the singular value.
    #[track_caller]
    fn normalize_leaf(&self, leaf: &Array, first: &Array) -> (Array, Array, Array) {
        let n_out = leaf.shape()[leaf.rank() - 1];
        let matrix = leaf.reshape([leaf.size() / n_out.max(1), n_out]);
        let (mut u, mut v) = (first.clone(), first.clone());
        for _ in 0..self.n_steps {
            v = self.unit(&matmul(&u, &matrix.t()));
            u = self.unit(&matmul(&v, &matrix));
        }
        let (u, v) = (stop_gradient(&u), stop_gradient(&v));
        let sigma = matmul(&matmul(&v, &matrix), &u.t()).index(i![0, 0]);
        let divisor = where_(ne(&sigma, 0), &sigma, ones_like(&sigma));
        ((matrix / divisor).reshape(leaf.shape()), u, stop_gradient(&sigma))
    }

    /// Divides by the Euclidean norm.
    #[track_caller]
    fn unit(&self, x: &Array) -> Array {
        x * rsqrt(&((x * x).sum() + self.epsilon))
    }
}
