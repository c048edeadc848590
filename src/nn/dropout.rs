//! Dropout.

use super::Number;
use crate::core::{Array, RuleError, throw_operands};
use crate::primitives::{div, full_like, where_};
use crate::random::{self, Key};
use crate::tree::Tree;

/// Sets random elements to zero and scales the others so that the expected value stays the same.
///
/// Pass a key in training. Without a key, in evaluation, `x` is returned unchanged.
///
/// ```
/// use oxidax::prelude::*;
/// let dropout = nn::Dropout::new(0.1);
/// let y = eval_shape(
///     move |x: Array, key: random::Key| dropout.forward(&x, Some(key)),
///     (Aval::new(DType::BF16, [8, 768]), random::Key::of_type()),
/// )?;
/// assert_eq!(y.aval().to_string(), "bf16[8,768]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting" (2014).
#[derive(Clone, Debug, Tree)]
pub struct Dropout {
    /// The probability that an element becomes zero, in `0..=1`.
    #[tree(static)]
    pub rate: Number,
    /// Axes along which one random decision is shared. Negative axes count from the end.
    #[tree(static)]
    pub broadcast_axes: Vec<isize>,
}

impl Dropout {
    /// Creates a layer that drops each element independently.
    ///
    /// Throws `Op` (value) unless the rate is in `0..=1`.
    #[track_caller]
    pub fn new(rate: f64) -> Dropout {
        let layer = Dropout { rate: rate.into(), broadcast_axes: Vec::new() };
        layer.expect_rate();
        layer
    }

    /// Returns `x` with random elements set to zero and the others divided by `1 - rate`. Without a
    /// key it returns `x`.
    ///
    /// Throws `Op` if a broadcast axis is out of range, or the rate is not in `0..=1`.
    #[track_caller]
    pub fn forward(&self, x: &Array, key: Option<Key>) -> Array {
        let rate = self.expect_rate();
        let Some(key) = key else { return x.clone() };
        if rate == 0.0 {
            return x.clone();
        }
        let zero = full_like(x, 0);
        if rate == 1.0 {
            return zero;
        }
        let mut dims = x.shape().to_vec();
        for &axis in &self.broadcast_axes {
            let resolved = if axis < 0 { axis + dims.len() as isize } else { axis };
            match usize::try_from(resolved).ok().and_then(|axis| dims.get_mut(axis)) {
                Some(size) => *size = 1,
                None => {
                    let message =
                        format!("broadcast_axes has {axis}, x {} {} axes", x.aval(), x.rank());
                    throw_operands("Dropout", RuleError::shape(message), &[x]);
                }
            }
        }
        let keep = random::bernoulli(key, dims, 1.0 - rate);
        where_(&keep, div(x, 1.0 - rate), zero)
    }

    #[track_caller]
    fn expect_rate(&self) -> f64 {
        let rate = self.rate.get();
        if !(0.0..=1.0).contains(&rate) {
            let error = RuleError::value(format!("rate must lie in 0..=1, got {rate}"));
            throw_operands("Dropout", error, &[]);
        }
        rate
    }
}
