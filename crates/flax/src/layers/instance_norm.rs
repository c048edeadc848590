//! Instance normalization.

use oxidax::core::{RuleError, throw_operands};
use oxidax::nn::Number;
use oxidax::prelude::*;

/// Normalizes each channel of each example to mean 0 and variance 1 over the spatial axes, then
/// applies a trained scale and bias per channel.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::InstanceNorm;
/// let y = eval_shape(
///     |x: Array| InstanceNorm::new(16).forward(&x),
///     Aval::new(DType::F32, [8, 28, 28, 16]),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[8,28,28,16]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Ulyanov, Vedaldi, Lempitsky: Instance normalization (2016).
#[derive(Clone, Debug, Tree)]
pub struct InstanceNorm {
    /// The scale, `[channels]`.
    pub scale: Option<Array>,
    /// The bias, `[channels]`.
    pub bias: Option<Array>,
    /// A constant added to the variance. 1e-6 by default.
    #[tree(static)]
    pub epsilon: Number,
}

impl InstanceNorm {
    /// Creates a layer for `n_channels` channels in `f32`, with scale 1 and bias 0.
    #[track_caller]
    pub fn new(n_channels: usize) -> InstanceNorm {
        let (scale, bias) = (Some(ones([n_channels])), Some(zeros([n_channels])));
        InstanceNorm { scale, bias, epsilon: 1e-6.into() }
    }

    /// Normalizes `x`, `[b, space…, channels]`. Statistics are computed in `f32` at least.
    ///
    /// Throws `Op` (shape) if the last axis of `x` is not `channels`, or `x` has fewer than two
    /// axes.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        if x.rank() < 2 {
            let message = format!("x {} needs axes [b, space…, channels]", x.aval());
            throw_operands("InstanceNorm", RuleError::shape(message), &[x]);
        }
        let (scale, bias, epsilon) = (self.scale.clone(), self.bias.clone(), self.epsilon);
        nn::GroupNorm { scale, bias, groups: x.shape()[x.rank() - 1], epsilon }.forward(x)
    }
}
