//! Masks of attention.

use crate::core::{Array, DType, Loc, RuleError, throw_operands};
use crate::primitives::{bitwise_and, broadcast_to, broadcasted_iota, ge, ne};

/// Returns the mask with which each token attends to its own and earlier positions, for sequences
/// `x`, `[b…, t]`, of any dtype: `bool[b…, 1, t, t]`.
///
/// Only the shape of `x` is used. [`AttentionOptions::is_causal`](super::AttentionOptions) has the
/// same effect without an array.
///
/// Throws `Op` (shape) if `x` does not have an axis.
///
/// ```
/// use oxidax::prelude::*;
/// let mask = nn::make_causal_mask(&array![7, 8, 9]);
/// assert_eq!(mask.shape().dims(), [1, 3, 3]);
/// assert_eq!(mask.index(i![0, 1]).to_vec::<bool>()?, [true, true, false]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn make_causal_mask(x: &Array) -> Array {
    expect_time("make_causal_mask", x);
    let (batch, t) = (&x.shape().dims()[..x.rank() - 1], x.shape()[x.rank() - 1]);
    Loc::caller().scope(|| {
        let [query, key] = [0, 1].map(|axis| broadcasted_iota(DType::I32, [t, t], axis));
        broadcast_to(&ge(&query, &key), [batch, &[1, t, t]].concat())
    })
}

/// Returns the mask with which a query attends to a key if both are valid: `bool[b…, 1, t, s]` for
/// `queries`, `[b…, t]`, and `keys`, `[b…, s]`.
///
/// A token is valid if it is not zero or false. With tokens whose padding is 0, the tokens are
/// `queries` and `keys`.
///
/// Throws `Op` (shape) if an operand does not have an axis, or the batch axes do not broadcast.
///
/// ```
/// use oxidax::prelude::*;
/// let tokens = array![5, 6, 0]; // one token of padding
/// let mask = nn::make_attention_mask(&tokens, &tokens);
/// let rows = [true, true, false, true, true, false, false, false, false];
/// assert_eq!(mask.to_vec::<bool>()?, rows);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn make_attention_mask(queries: &Array, keys: &Array) -> Array {
    let valid = |x: &Array| if x.dtype() == DType::Bool { x.clone() } else { ne(x, 0) };
    let (queries, keys) = Loc::caller().scope(|| (valid(queries), valid(keys)));
    make_attention_mask_with(&queries, &keys, |query, key| bitwise_and(query, key))
}

/// Returns a mask `[b…, 1, t, s]` from a function of each query and key. Equality keeps tokens
/// within their segment, `ge` of positions is a causal mask.
///
/// The function gets `[b…, 1, t, 1]` and `[b…, 1, 1, s]`.
///
/// Throws `Op` (shape) if an operand does not have an axis.
///
/// ```
/// use oxidax::prelude::*;
/// let segments = array![1, 1, 2];
/// let mask = nn::make_attention_mask_with(&segments, &segments, |a, b| eq(a, b));
/// assert_eq!(mask.index(i![0, 2]).to_vec::<bool>()?, [false, false, true]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "pairwise_fn")]
#[track_caller]
pub fn make_attention_mask_with(
    queries: &Array,
    keys: &Array,
    f: impl FnOnce(&Array, &Array) -> Array,
) -> Array {
    expect_time("make_attention_mask", queries);
    expect_time("make_attention_mask", keys);
    let loc = Loc::caller();
    let (queries, keys) = loc.scope(|| {
        let queries = queries.expand_dims(-1);
        (queries.expand_dims(-3), keys.expand_dims(-2).expand_dims(-3))
    });
    loc.scope(|| f(&queries, &keys))
}

/// Returns a mask that is true where all masks are, or `None` without masks.
///
/// Masks broadcast against each other and must have equal numbers of axes.
///
/// Throws `Op`: (dtype) unless masks are booleans, (shape) if the numbers of axes differ.
///
/// ```
/// use oxidax::prelude::*;
/// let tokens = array![5, 6, 0];
/// let padding = nn::make_attention_mask(&tokens, &tokens);
/// let causal = nn::make_causal_mask(&tokens);
/// let mask = nn::combine_masks([Some(&padding), Some(&causal), None]).expect("two masks");
/// assert_eq!(mask.index(i![0, 0]).to_vec::<bool>()?, [true, false, false]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn combine_masks<'a>(masks: impl IntoIterator<Item = Option<&'a Array>>) -> Option<Array> {
    let mut combined: Option<Array> = None;
    for mask in masks.into_iter().flatten() {
        if mask.dtype() != DType::Bool {
            let error = RuleError::dtype(format!("masks are booleans, got {}", mask.aval()));
            throw_operands(
                "combine_masks",
                error.help("compare it with 0: `ne(mask, 0)`"),
                &[mask],
            );
        }
        combined = Some(match combined {
            None => mask.clone(),
            Some(earlier) if earlier.rank() != mask.rank() => {
                let message =
                    format!("masks {} and {} differ in rank", earlier.aval(), mask.aval());
                throw_operands("combine_masks", RuleError::shape(message), &[&earlier, mask])
            }
            Some(earlier) => earlier & mask,
        });
    }
    combined
}

#[track_caller]
fn expect_time(name: &str, x: &Array) {
    if x.rank() == 0 {
        let message = format!("{} needs axes [b…, t]", x.aval());
        throw_operands(name, RuleError::shape(message), &[x]);
    }
}
