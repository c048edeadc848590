//! Batch normalization.

use super::Number;
use super::check::{expect_features, wide};
use super::norm::{normalized, ones_and_zeros, result_dtype};
use super::statistics::{BatchNormOptions, Moments, expect_mask};
use crate::core::{Array, Loc};
use crate::ops::{axes, pmean};
use crate::primitives::{convert_element_type, rsqrt};
use crate::tree::Tree;

/// Normalizes each channel to mean 0 and variance 1 over the batch and the spatial axes, then
/// applies a trained scale and bias.
///
/// The running statistics are not parameters. A training step takes and returns them as
/// [`BatchStats`], like the state of the optimizer.
///
/// ```
/// use oxidax::prelude::*;
/// let layer = || nn::BatchNorm::new(64);
/// let train = |x: Array, stats: nn::BatchStats| layer().forward_train(&x, &stats);
/// let x = Aval::new(DType::F32, [8, 28, 28, 64]);
/// let zeros = eval_shape(|_: ()| nn::BatchStats::new(64), ())?;
/// let (y, stats) = eval_shape(train, (x.clone(), zeros))?;
/// let y = eval_shape(
///     |x: Array, stats: nn::BatchStats| layer().forward_eval(&x, &stats),
///     (y, stats),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[8,28,28,64]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Ioffe, Szegedy: Batch normalization (2015).
#[derive(Clone, Debug, Tree)]
pub struct BatchNorm {
    /// The scale, `[channels]`.
    pub scale: Option<Array>,
    /// The bias, `[channels]`.
    pub bias: Option<Array>,
    /// The factor by which a step decays the running statistics. 0.99 by default.
    #[tree(static)]
    pub momentum: Number,
    /// A constant added to the variance. 1e-5 by default.
    #[tree(static)]
    pub epsilon: Number,
    /// The axis name of the mapped batch axis, if the batch is mapped over.
    #[tree(static)]
    pub axis_name: Option<String>,
}

/// The running statistics of a [`BatchNorm`].
#[derive(Clone, Debug, Tree)]
pub struct BatchStats {
    /// The mean of each channel, `[channels]`.
    pub mean: Array,
    /// The variance of each channel, `[channels]`.
    pub var: Array,
}

impl BatchStats {
    /// Creates statistics of mean 0 and variance 1 for `n_channels` channels, in `f32`.
    #[track_caller]
    pub fn new(n_channels: usize) -> BatchStats {
        let (var, mean) = ones_and_zeros(n_channels);
        BatchStats { mean, var }
    }
}

impl BatchNorm {
    /// Creates a layer for `n_channels` channels in `f32`, with scale 1 and bias 0.
    #[track_caller]
    pub fn new(n_channels: usize) -> BatchNorm {
        let (scale, bias) = ones_and_zeros(n_channels);
        let (momentum, epsilon) = (0.99.into(), 1e-5.into());
        BatchNorm { scale: Some(scale), bias: Some(bias), momentum, epsilon, axis_name: None }
    }

    /// Normalizes `x`, `[…, channels]`, by the statistics of the batch, and updates the running
    /// ones.
    ///
    /// Statistics are computed in `f32` at least. The variance is that of the batch, without
    /// Bessel's correction. The result has the dtype that `x` and the leaves promote to.
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `channels`.
    #[track_caller]
    pub fn forward_train(&self, x: &Array, stats: &BatchStats) -> (Array, BatchStats) {
        self.forward_train_with(x, stats, &BatchNormOptions::default())
    }

    /// As [`forward_train`](Self::forward_train), with options.
    ///
    /// Throws as `forward_train` does, and `Op` (shape) if the mask does not broadcast to `x`.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// // The last example is padding.
    /// let x = array![[1f32], [3.0], [100.0]];
    /// let mask = Some(array![[true], [true], [false]]);
    /// let options = nn::BatchNormOptions { mask, ..Default::default() };
    /// let layer = nn::BatchNorm { epsilon: 0.0.into(), ..nn::BatchNorm::new(1) };
    /// let (y, _) = layer.forward_train_with(&x, &nn::BatchStats::new(1), &options);
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, 1.0, 98.0]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn forward_train_with(
        &self,
        x: &Array,
        stats: &BatchStats,
        options: &BatchNormOptions,
    ) -> (Array, BatchStats) {
        self.expect_channels(x, stats);
        let mask = options.mask.as_ref();
        expect_mask("BatchNorm", x, mask);
        let dtype = result_dtype("BatchNorm", x, &self.scale, &self.bias);
        let x = convert_element_type(x, wide(dtype));
        let reduced: Vec<isize> = (0..x.rank() as isize - 1).collect();
        let mean_of = |x: &Array| {
            let over = axes(reduced.clone());
            let mean = match mask {
                Some(mask) => x.mean_axes(over.where_(mask)),
                None => x.mean_axes(over),
            };
            match &self.axis_name {
                Some(name) => pmean(&mean, name),
                None => mean,
            }
        };
        let Moments { mean, centred, variance: var } = Moments::of(&x, options.variance, mean_of);
        let inverse = rsqrt(&(&var + self.epsilon.get()));
        let y = normalized(&centred, &inverse, &self.scale, &self.bias, dtype);
        let (mean, var) = (self.decayed(&stats.mean, &mean), self.decayed(&stats.var, &var));
        (y, BatchStats { mean, var })
    }

    /// Normalizes `x`, `[…, channels]`, by the running statistics.
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `channels`.
    #[track_caller]
    pub fn forward_eval(&self, x: &Array, stats: &BatchStats) -> Array {
        self.expect_channels(x, stats);
        let dtype = result_dtype("BatchNorm", x, &self.scale, &self.bias);
        let x = convert_element_type(x, wide(dtype));
        let mean = convert_element_type(&stats.mean, x.dtype());
        let centred = Loc::caller().scope(|| &x - mean);
        let var = convert_element_type(&stats.var, x.dtype());
        let inverse = rsqrt(&(var + self.epsilon.get()));
        normalized(&centred, &inverse, &self.scale, &self.bias, dtype)
    }

    #[track_caller]
    fn expect_channels(&self, x: &Array, stats: &BatchStats) {
        for (name, leaf) in [("stats.mean", &stats.mean), ("stats.var", &stats.var)] {
            let [n_channels] = leaf.dims();
            expect_features("BatchNorm", x, name, leaf, n_channels);
        }
    }

    /// Returns the running statistic after a batch, in the dtype of the running statistic.
    #[track_caller]
    fn decayed(&self, running: &Array, batch: &Array) -> Array {
        Loc::caller().scope(|| {
            let momentum = self.momentum.get();
            let batch = convert_element_type(batch, running.dtype());
            running * momentum + batch * (1.0 - momentum)
        })
    }
}
