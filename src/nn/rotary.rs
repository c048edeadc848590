//! Rotary position embeddings.

use super::Number;
use super::check::wide;
use crate::core::{Array, DType, RuleError, throw_operands};
use crate::ops::stack;
use crate::primitives::{
    broadcasted_iota, concatenate, convert_element_type, cos, exp, reshape, sin, slice_in_dim,
};

/// Rotates pairs of features by angles proportional to the position.
///
/// The product of a query and a key then depends on their distance. Pair `i` of `h` features is
/// rotated by the angle `position · base^(-2i / h)`.
///
/// ```
/// use oxidax::prelude::*;
/// let rotary = nn::Rotary::new(10_000.0);
/// let rotated = eval_shape(
///     move |x: Array| rotary.forward(&x, &arange(128)),
///     Aval::new(DType::BF16, [8, 128, 12, 64]),
/// )?;
/// assert_eq!(rotated.aval().to_string(), "bf16[8,128,12,64]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Su et al., "RoFormer: enhanced transformer with rotary position embedding" (2021), equation 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "RoPE")]
pub struct Rotary {
    /// The base of the angles. It is 10000 in the paper.
    pub base: Number,
    /// Pairs neighbouring features, as in the paper. If false, feature `i` is paired with feature
    /// `i + h / 2`, as in most published weights.
    pub interleaved: bool,
}

impl Rotary {
    /// Creates a rotation with this base that pairs feature `i` with feature `i + h / 2`.
    pub fn new(base: f64) -> Rotary {
        Rotary { base: base.into(), interleaved: false }
    }

    /// Rotates `x`, `[b, t, heads, h]`, by its `positions`, integers `[t]` or `[b, t]`.
    ///
    /// It computes in `f32` at least and returns the dtype of `x`.
    ///
    /// Throws `Op` (shape) if `h` is odd or the positions have another shape.
    #[track_caller]
    pub fn forward(&self, x: &Array, positions: &Array) -> Array {
        let [b, t, _, h] = x.dims();
        let rows = match *positions.shape().dims() {
            [n] if n == t => 1,
            [m, n] if [m, n] == [b, t] => b,
            _ => {
                let message = format!(
                    "x {} takes positions [{t}] or [{b},{t}], got {}",
                    x.aval(),
                    positions.aval()
                );
                throw_operands("Rotary", RuleError::shape(message), &[x, positions]);
            }
        };
        if !h.is_multiple_of(2) {
            let message = format!("x {} has {h} features per head, an odd number", x.aval());
            throw_operands("Rotary", RuleError::shape(message), &[x]);
        }
        let (half, dtype) = (h / 2, wide(x.dtype()));
        let pair = broadcasted_iota(dtype, [half], 0);
        let rates = exp(&(pair * (-2.0 * self.base.get().ln() / h as f64)));
        let positions = convert_element_type(&reshape(positions, [rows, t, 1, 1]), dtype);
        let angles = positions * rates;
        let (cosine, sine) = (cos(&angles), sin(&angles));
        let wide = convert_element_type(x, dtype);
        let [first, second] = if self.interleaved {
            let pairs = wide.reshape([b, t, x.shape()[2], half, 2]);
            let member = |i: isize| slice_in_dim(&pairs, i, i + 1, 1, -1);
            [0, 1].map(|i| member(i).reshape([b, t, x.shape()[2], half]))
        } else {
            let (half, h) = (half as isize, h as isize);
            [slice_in_dim(&wide, 0, half, 1, -1), slice_in_dim(&wide, half, h, 1, -1)]
        };
        let rotated = [&first * &cosine - &second * &sine, &second * &cosine + &first * &sine];
        let rotated = if self.interleaved {
            reshape(&stack([&rotated[0], &rotated[1]], -1), x.shape())
        } else {
            concatenate(&rotated, -1)
        };
        convert_element_type(&rotated, x.dtype())
    }
}

/// Returns `start..start + t` for a scalar `start`.
#[track_caller]
pub(super) fn positions_from(start: &Array, t: usize) -> Array {
    broadcasted_iota(DType::I32, [t], 0) + start
}
