//! Rotary position embeddings.

use super::Number;
use super::fits::wide;
use crate::core::{Array, DType, RuleError, throw_operands};
use crate::ops::stack;
use crate::primitives::{
    broadcasted_iota, concatenate, convert_element_type, cos, exp, reshape, sin, slice_in_dim,
};

/// Turns pairs of features by angles that grow with the position, so that the product of a query and a key
/// depends on their distance: `angle = position · base^(-2i / h)` for pair `i` of `h` features.
///
/// ```
/// use oxidax::prelude::*;
/// let rotary = nn::Rotary::new(10_000.0);
/// let turned = eval_shape(
///     move |x: Array| rotary.forward(&x, &arange(128)),
///     Aval::new(DType::BF16, [8, 128, 12, 64]),
/// )?;
/// assert_eq!(turned.aval().to_string(), "bf16[8,128,12,64]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Su et al., "RoFormer: enhanced transformer with rotary position embedding" (2021), equation 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "RoPE")]
pub struct Rotary {
    /// The base of the angles; 10000 in the paper.
    pub base: Number,
    /// Whether neighbours are a pair, as in the paper; else feature `i` and feature `i + h / 2`, as in most
    /// published weights.
    pub interleaved: bool,
}

impl Rotary {
    /// Angles of this base, for pairs half the features apart.
    pub fn new(base: f64) -> Rotary {
        Rotary { base: base.into(), interleaved: false }
    }

    /// `x`, `[b, t, heads, h]`, turned to its `positions`, integers `[t]` or `[b, t]`. Computed in `f32` at
    /// least, then given the dtype of `x`.
    ///
    /// Throws `Op` (shape) if `h` is odd or the positions do not fit.
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
        let [first, second] = match self.interleaved {
            true => {
                let pairs = wide.reshape([b, t, x.shape()[2], half, 2]);
                [0isize, 1].map(|at| {
                    slice_in_dim(&pairs, at, at + 1, 1, -1).reshape([b, t, x.shape()[2], half])
                })
            }
            false => {
                let (half, h) = (half as isize, h as isize);
                [slice_in_dim(&wide, 0, half, 1, -1), slice_in_dim(&wide, half, h, 1, -1)]
            }
        };
        let turned = [&first * &cosine - &second * &sine, &second * &cosine + &first * &sine];
        let turned = match self.interleaved {
            true => reshape(&stack([&turned[0], &turned[1]], -1), x.shape()),
            false => concatenate(&turned, -1),
        };
        convert_element_type(&turned, x.dtype())
    }
}

/// `0..t` plus `start`, a scalar.
#[track_caller]
pub(super) fn positions_from(start: &Array, t: usize) -> Array {
    broadcasted_iota(DType::I32, [t], 0) + start
}
