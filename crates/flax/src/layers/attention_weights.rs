//! The weights of dot-product attention.

use oxidax::core::{RuleError, throw_operands};
use oxidax::prelude::*;
use oxidax::random::Key;

/// Options of [`dot_product_attention_weights`].
#[derive(Clone, Debug)]
pub struct AttentionWeightsOptions {
    /// Added to the scaled scores. Broadcasts to `[b…, n, t, s]`.
    pub bias: Option<Array>,
    /// True where a query attends to a key. Booleans that broadcast to `[b…, n, t, s]`.
    pub mask: Option<Array>,
    /// Dropout of the weights. It is off without a key.
    pub dropout: nn::Dropout,
    /// The key of the dropout.
    pub key: Option<Key>,
}

impl Default for AttentionWeightsOptions {
    fn default() -> AttentionWeightsOptions {
        let dropout = nn::Dropout::new(0.0);
        AttentionWeightsOptions { bias: None, mask: None, dropout, key: None }
    }
}

/// Returns the weights of attention, `softmax(query · key / √h + bias)` over the unmasked keys, for
/// queries `[b…, t, n, h]` and keys `[b…, s, n, h]`: `[b…, n, t, s]`.
///
/// Scores and weights are computed in `f32` at least and rounded to the dtype of the operands.
///
/// Throws `Op` (shape) if sizes do not fit, and (dtype) if the dtypes differ.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::{AttentionWeightsOptions, dot_product_attention_weights};
/// let mask = Some(nn::make_causal_mask(&ones([1, 3])));
/// let options = AttentionWeightsOptions { mask, ..AttentionWeightsOptions::default() };
/// let x = ones([1, 3, 2, 4]);
/// let weights = dot_product_attention_weights(&x, &x, &options);
/// assert_eq!(weights.index(i![0, 0, 1]).to_vec::<f32>()?, [0.5, 0.5, 0.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Vaswani et al.: Attention is all you need (2017), equation 1.
#[track_caller]
pub fn dot_product_attention_weights(
    query: &Array,
    key: &Array,
    options: &AttentionWeightsOptions,
) -> Array {
    expect_sizes(query, key);
    let dtype = query.dtype();
    let wide = if dtype.bits() < 32 { DType::F32 } else { dtype };
    let h = query.shape()[query.rank() - 1] as f64;
    let scaled = query.astype(wide) / h.sqrt();
    let mut scores = einsum("...tnh,...snh->...nts", [&scaled, &key.astype(wide)]);
    if let Some(bias) = &options.bias {
        scores += bias.astype(wide);
    }
    if let Some(mask) = &options.mask {
        // A finite value, so that a query without unmasked keys does not become NaN.
        scores = where_(mask, &scores, full_like(&scores, -wide.float_max()));
    }
    let weights = softmax(&scores, -1).astype(dtype);
    options.dropout.forward(&weights, options.key.clone())
}

#[track_caller]
fn expect_sizes(query: &Array, key: &Array) {
    let name = "dot_product_attention_weights";
    if query.dtype() != key.dtype() {
        let message = format!("query {} and key {} differ in dtype", query.aval(), key.aval());
        throw_operands(name, RuleError::dtype(message), &[query, key]);
    }
    let outer = |x: &Array| x.shape().dims()[..x.rank().saturating_sub(3)].to_vec();
    let inner = |x: &Array| x.shape().dims()[x.rank().saturating_sub(2)..].to_vec();
    if query.rank() < 3 || outer(query) != outer(key) || inner(query) != inner(key) {
        let message = format!(
            "query {} and key {} do not fit [b…, t, n, h] and [b…, s, n, h]",
            query.aval(),
            key.aval()
        );
        throw_operands(name, RuleError::shape(message), &[query, key]);
    }
}
