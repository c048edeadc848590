//! Attention by scaled dot products.

use super::{einsum, softmax};
use crate::core::{Array, DType, RuleError, trace};
use crate::primitives::{
    add, broadcasted_iota as iota, convert_element_type, full_like, ge, le, lt, mul, reshape, sub,
    where_,
};

/// What [`dot_product_attention`] adds to and leaves out of the scores.
///
/// ```
/// use oxidax::prelude::*;
/// let (q, k) = (Aval::new(DType::BF16, [2, 16, 8, 64]), Aval::new(DType::BF16, [2, 16, 2, 64]));
/// let how = Attention { is_causal: true, ..Attention::default() };
/// let y = eval_shape(
///     move |q: Array, k: Array, v: Array| dot_product_attention(&q, &k, &v, &how),
///     (q, k.clone(), k),
/// )?;
/// assert_eq!(y.aval().to_string(), "bf16[2,16,8,64]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Attention {
    /// Added to the scaled scores; broadcasts to `[b, n, t, s]`.
    pub bias: Option<Array>,
    /// False where a query does not see a key; booleans that broadcast to `[b, n, t, s]`.
    pub mask: Option<Array>,
    /// What scores are multiplied by; `1 / √h` if `None`.
    pub scale: Option<f64>,
    /// Whether query `i` sees the keys up to `i` alone.
    pub is_causal: bool,
    /// How many queries of each example count, integers `[b]`; the results of the others are 0.
    pub query_lengths: Option<Array>,
    /// How many keys of each example are seen, integers `[b]`.
    pub key_lengths: Option<Array>,
    /// How far before and behind itself a query sees keys.
    pub local_window: Option<(usize, usize)>,
}

/// The axes of all three operands: batch, queries, keys, heads, groups, features.
struct Sizes {
    b: usize,
    t: usize,
    s: usize,
    n: usize,
    k: usize,
    h: usize,
}

fn sizes(query: &Array, key: &Array, value: &Array) -> Result<Sizes, RuleError> {
    let ([b, t, n, h], [kb, s, k, kh]) = (dims(query)?, dims(key)?);
    let [vb, vs, vk, _] = dims(value)?;
    if [b, h] != [kb, kh] || [kb, s, k] != [vb, vs, vk] {
        return Err(RuleError::shape(format!(
            "query {}, key {} and value {} do not fit [b, t, n, h], [b, s, k, h] and [b, s, k, v]",
            query.shape(),
            key.shape(),
            value.shape()
        )));
    }
    match k > 0 && n.is_multiple_of(k) {
        true => Ok(Sizes { b, t, s, n, k, h }),
        false => Err(RuleError::shape(format!(
            "{n} heads of queries are no multiple of {k} heads of keys"
        ))),
    }
}

fn dims(x: &Array) -> Result<[usize; 4], RuleError> {
    <[usize; 4]>::try_from(x.shape().dims()).map_err(|_| {
        RuleError::shape(format!("needs axes batch, time, head, feature, got {}", x.shape()))
    })
}

/// Softmax-weighted means of values: for queries `[b, t, n, h]`, keys `[b, s, k, h]` and values `[b, s,
/// k, v]` the means `[b, t, n, v]`, weighted by `softmax(scale * query · key + bias)` over the keys
/// that are seen.
///
/// With fewer heads `k` of keys than `n` of queries each head of keys serves `n / k` neighbours. Scores
/// and weights are `f32` for narrower floats. A query that sees nothing gets the plain mean. Throws `Op`
/// (shape) if sizes do not fit, `Op` (dtype) if the dtypes differ.
///
/// # Reference
/// Vaswani et al., "Attention is all you need", 2017, equation 1; Ainslie et al., "GQA", 2023, for
/// grouped heads.
#[track_caller]
pub fn dot_product_attention(query: &Array, key: &Array, value: &Array, how: &Attention) -> Array {
    let checked = match query.dtype() == key.dtype() && key.dtype() == value.dtype() {
        true => sizes(query, key, value),
        false => Err(RuleError::dtype(format!(
            "query, key and value must be of one dtype, got {}, {} and {}",
            query.dtype(),
            key.dtype(),
            value.dtype()
        ))),
    };
    let Sizes { b, t, s, n, k, h } = match checked {
        Ok(sizes) => sizes,
        Err(error) => trace::throw_operands("dot_product_attention", error, &[query, key, value]),
    };
    let wide = if query.dtype().bits() < 32 { DType::F32 } else { query.dtype() };
    // Heads of queries in groups that share a head of keys.
    let grouped = reshape(&convert_element_type(query, wide), [b, t, k, n / k, h]);
    let scores = einsum("btkgh,bskh->bkgts", [&grouped, &convert_element_type(key, wide)]);
    let scale = how.scale.unwrap_or(1.0 / (h as f64).sqrt());
    let mut scores = reshape(&mul(&scores, scale), [b, n, t, s]);
    if let Some(bias) = &how.bias {
        scores = add(&scores, convert_element_type(bias, wide));
    }
    // Not an infinity, so that a query that sees nothing does not become NaN.
    let unseen = full_like(&scores, -0.7 * wide.float_max());
    for seen in masks(how, b, t, s) {
        scores = where_(&seen, &scores, &unseen);
    }
    let weights = convert_element_type(&softmax(&scores, -1), value.dtype());
    let weights = reshape(&weights, [b, k, n / k, t, s]);
    let means = einsum("bkgts,bskh->btkgh", [&weights, value]);
    let means = reshape(&means, [b, t, n, value.shape()[3]]);
    match &how.query_lengths {
        None => means,
        Some(lengths) => {
            let position = iota(DType::I32, [1, t, 1, 1], 1);
            let counts = lt(position, per_example(lengths, b));
            where_(&counts, &means, full_like(&means, 0))
        }
    }
}

#[track_caller]
fn per_example(lengths: &Array, b: usize) -> Array {
    reshape(&convert_element_type(lengths, DType::I32), [b, 1, 1, 1])
}

/// Who sees whom, each mask broadcasting to `[b, n, t, s]`.
#[track_caller]
fn masks(how: &Attention, b: usize, t: usize, s: usize) -> Vec<Array> {
    let (query, key) = (iota(DType::I32, [1, 1, t, s], 2), iota(DType::I32, [1, 1, t, s], 3));
    let mut all: Vec<Array> = how.mask.iter().cloned().collect();
    if how.is_causal {
        all.push(le(&key, &query));
    }
    if let Some((before, behind)) = how.local_window {
        let distance = sub(&key, &query);
        all.push(ge(&distance, -(before as i64)) & le(&distance, behind as i64));
    }
    if let Some(lengths) = &how.key_lengths {
        all.push(lt(&key, per_example(lengths, b)));
    }
    if let Some(lengths) = &how.query_lengths {
        all.push(lt(&query, per_example(lengths, b)));
    }
    all
}
