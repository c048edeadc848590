//! Batch normalization, whose running statistics are a tree of their own.

use super::Number;
use super::fits::{expect_features, wide};
use super::norm::{affine, checked, finished};
use crate::core::{Array, Loc};
use crate::ops::{axes, pmean};
use crate::primitives::{convert_element_type, rsqrt};
use crate::tree::Tree;

/// Each channel shifted to mean 0 and scaled to variance 1 over the whole batch and all of space, then by a
/// trained scale and offset.
///
/// The running statistics are no parameters: they live in a [`BatchStats`], which a training step takes and
/// gives back like the optimizer's state.
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
    /// The offset, `[channels]`.
    pub bias: Option<Array>,
    /// How much of the running statistics a step keeps; 0.99 at first.
    #[tree(static)]
    pub momentum: Number,
    /// Added to the variance; 1e-5 at first.
    #[tree(static)]
    pub epsilon: Number,
    /// The named axis of a `vmap` over which the batch is spread, if it is.
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
    /// Mean 0 and variance 1 of so many channels, in `f32`.
    #[track_caller]
    pub fn new(n_channels: usize) -> BatchStats {
        let (var, mean) = affine(n_channels);
        BatchStats { mean, var }
    }
}

impl BatchNorm {
    /// A layer for so many channels in `f32`: scale one, offset zero.
    #[track_caller]
    pub fn new(n_channels: usize) -> BatchNorm {
        let (scale, bias) = affine(n_channels);
        let (momentum, epsilon) = (0.99.into(), 1e-5.into());
        BatchNorm { scale: Some(scale), bias: Some(bias), momentum, epsilon, axis_name: None }
    }

    /// `x`, `[…, channels]`, normalized by its own statistics, and the running ones moved towards these.
    ///
    /// Statistics are computed in `f32` at least; the variance is that of the batch itself, not an estimate of
    /// another's. The result has the dtype that `x` and the leaves promote to.
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `channels`.
    #[track_caller]
    pub fn forward_train(&self, x: &Array, stats: &BatchStats) -> (Array, BatchStats) {
        self.expect(x, stats);
        let dtype = checked("BatchNorm", x, &self.scale, &self.bias);
        let x = convert_element_type(x, wide(dtype));
        let over: Vec<isize> = (0..x.rank() as isize - 1).collect();
        let mean_of = |x: &Array| {
            let mean = x.mean_axes(axes(over.clone()));
            match &self.axis_name {
                Some(name) => pmean(&mean, name),
                None => mean,
            }
        };
        let mean = mean_of(&x);
        let centred = &x - &mean;
        let var = mean_of(&(&centred * &centred));
        let inverse = rsqrt(&(&var + self.epsilon.get()));
        let y = finished(&centred, &inverse, &self.scale, &self.bias, dtype);
        (y, BatchStats { mean: self.moved(&stats.mean, &mean), var: self.moved(&stats.var, &var) })
    }

    /// `x`, `[…, channels]`, normalized by the running statistics.
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `channels`.
    #[track_caller]
    pub fn forward_eval(&self, x: &Array, stats: &BatchStats) -> Array {
        self.expect(x, stats);
        let dtype = checked("BatchNorm", x, &self.scale, &self.bias);
        let x = convert_element_type(x, wide(dtype));
        let centred = &x - convert_element_type(&stats.mean, x.dtype());
        let var = convert_element_type(&stats.var, x.dtype());
        let inverse = rsqrt(&(var + self.epsilon.get()));
        finished(&centred, &inverse, &self.scale, &self.bias, dtype)
    }

    #[track_caller]
    fn expect(&self, x: &Array, stats: &BatchStats) {
        for (name, leaf) in [("stats.mean", &stats.mean), ("stats.var", &stats.var)] {
            let [n_channels] = leaf.dims();
            expect_features("BatchNorm", x, name, leaf, n_channels);
        }
    }

    /// The running statistic after a batch, in its own dtype.
    #[track_caller]
    fn moved(&self, running: &Array, batch: &Array) -> Array {
        Loc::caller().scope(|| {
            let momentum = self.momentum.get();
            let batch = convert_element_type(batch, running.dtype());
            running * momentum + batch * (1.0 - momentum)
        })
    }
}
