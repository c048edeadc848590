//! Scaled dot-product attention.

use super::Dropout;
use crate::core::{Array, DType, RuleError, throw_operands};
use crate::kernels::{FlashAttentionOptions, flash_attention_with};
use crate::ops::{einsum, logsumexp, softmax};
use crate::primitives::{
    add, broadcasted_iota as iota, convert_element_type, expand_dims, full_like, ge, le, lt,
    moveaxis, mul, ones, reshape, stop_gradient, sub, where_,
};
use crate::random::Key;

/// The algorithm of [`dot_product_attention_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AttentionImplementation {
    /// Chooses by the types of the operands: [`Flash`](Self::Flash) if `t · s` is at least 2²⁰ (two
    /// sequences of 1,024), there is neither a bias, nor a mask, nor key lengths, every query has
    /// an allowed key, and no operand has a sharding in its type. [`Plain`](Self::Plain) otherwise.
    ///
    /// The kernel has a gradient, and no derivative in forward mode or of the gradient: set `Plain`
    /// where a long sequence needs one.
    #[default]
    Auto,
    /// Operations on the array of all scores. All masks, all derivatives.
    #[doc(alias = "xla")]
    Plain,
    /// The kernel [`flash_attention_with`], which never stores the scores. It knows causal masks,
    /// windows and lengths. A query without unmasked keys gets 0. In a program that the compiler
    /// partitions over devices, it is replaced by operations on the scores.
    #[doc(alias = "cudnn")]
    Flash,
}

/// Options of [`dot_product_attention_with`].
///
/// ```
/// use oxidax::prelude::*;
/// let (q, k) = (Aval::new(DType::BF16, [2, 16, 8, 64]), Aval::new(DType::BF16, [2, 16, 2, 64]));
/// let options = AttentionOptions { is_causal: true, ..AttentionOptions::default() };
/// let y = eval_shape(
///     move |q: Array, k: Array, v: Array| dot_product_attention_with(&q, &k, &v, &options),
///     (q, k.clone(), k),
/// )?;
/// assert_eq!(y.aval().to_string(), "bf16[2,16,8,64]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AttentionOptions {
    /// Added to the scaled scores. Broadcasts to `[b, n, t, s]`.
    pub bias: Option<Array>,
    /// True where a query attends to a key. Booleans that broadcast to `[b, n, t, s]`.
    pub mask: Option<Array>,
    /// Factor of the scores; `1 / √h` if `None`.
    pub scale: Option<f64>,
    /// Restricts query `i` to the keys `0..=i`.
    pub is_causal: bool,
    /// Number of valid queries of each example, integers `[b]`. The results of other queries are 0.
    #[doc(alias = "query_seq_lengths")]
    pub query_lengths: Option<Array>,
    /// Number of valid keys of each example, integers `[b]`.
    #[doc(alias = "key_value_seq_lengths")]
    pub key_lengths: Option<Array>,
    /// Numbers of keys before and after its own position that a query attends to.
    #[doc(alias = "local_window_size")]
    pub local_window: Option<(usize, usize)>,
    /// The probability with which a weight becomes 0. Without a key there is no dropout.
    pub dropout_rate: f64,
    /// The key of the dropout.
    pub dropout_key: Option<Key>,
    /// The algorithm.
    pub implementation: AttentionImplementation,
}

impl AttentionOptions {
    /// Returns true if [`dot_product_attention_with`] computes these operands by the kernel.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let options = AttentionOptions { is_causal: true, ..AttentionOptions::default() };
    /// for (length, is_flash) in [(512, false), (2048, true)] {
    ///     let x = Array::of_type(Aval::new(DType::F32, [1, length, 12, 64]));
    ///     assert_eq!(options.uses_flash(&x, &x, &x), is_flash);
    /// }
    /// ```
    pub fn uses_flash(&self, query: &Array, key: &Array, value: &Array) -> bool {
        match self.implementation {
            AttentionImplementation::Plain => false,
            AttentionImplementation::Auto => pays(&[query, key, value], self),
            AttentionImplementation::Flash => true,
        }
    }
}

/// The least product of the lengths of queries and keys for which `Auto` chooses the kernel.
const LEAST_FLASH_SCORES: usize = 1 << 20;

/// Sizes of the operands: batch, queries, keys, heads of queries, heads of keys, features.
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
    if k > 0 && n.is_multiple_of(k) {
        Ok(Sizes { b, t, s, n, k, h })
    } else {
        Err(RuleError::shape(format!("{n} query heads are not a multiple of {k} key heads")))
    }
}

fn dims(x: &Array) -> Result<[usize; 4], RuleError> {
    <[usize; 4]>::try_from(x.shape().dims()).map_err(|_| {
        RuleError::shape(format!("needs axes batch, time, head, feature, got {}", x.shape()))
    })
}

/// Returns scaled dot-product attention, [`dot_product_attention_with`] without options: every
/// query attends to all keys.
#[track_caller]
pub fn dot_product_attention(query: &Array, key: &Array, value: &Array) -> Array {
    dot_product_attention_with(query, key, value, &AttentionOptions::default())
}

/// Returns scaled dot-product attention: means of the values, weighted by
/// `softmax(scale * query · key + bias)` over the unmasked keys. Queries are `[b, t, n, h]`, keys
/// `[b, s, k, h]`, values `[b, s, k, v]`, and the result is `[b, t, n, v]`. All may be without the
/// axis of the batch.
///
/// If there are fewer key heads `k` than query heads `n`, each key head serves `n / k` neighbouring
/// query heads. Scores and weights are computed in `f32` for narrower floats. A query without
/// unmasked keys gets the unweighted mean. [`AttentionOptions::implementation`] chooses between
/// operations on the array of scores and a kernel that does not store it.
///
/// Throws `Op` (shape) if sizes do not fit, `Op` (dtype) if the dtypes differ, and `Op` (value) for
/// a bias or mask with [`AttentionImplementation::Flash`].
///
/// # Reference
/// Vaswani et al., "Attention is all you need", 2017, equation 1; Ainslie et al., "GQA", 2023, for
/// grouped heads.
#[track_caller]
pub fn dot_product_attention_with(
    query: &Array,
    key: &Array,
    value: &Array,
    options: &AttentionOptions,
) -> Array {
    if [query, key, value].iter().all(|x| x.rank() == 3) {
        let [query, key, value] = [query, key, value].map(|x| expand_dims(x, &[0]));
        let means = dot_product_attention_with(&query, &key, &value, options);
        return reshape(&means, means.shape().remove(0));
    }
    let Sizes { b, t, s, n, k, h } = checked_sizes(query, key, value);
    if options.implementation == AttentionImplementation::Flash {
        expect_known_masks(&[query, key, value], options);
    }
    let means = if options.uses_flash(query, key, value) {
        flash(query, key, value, options)
    } else {
        plain(query, key, value, options, &Sizes { b, t, s, n, k, h }).0
    };
    without_padding(means, options, [b, t])
}

/// Sets the results of queries that are not valid to 0.
#[track_caller]
fn without_padding(means: Array, options: &AttentionOptions, [b, t]: [usize; 2]) -> Array {
    match &options.query_lengths {
        None => means,
        Some(lengths) => {
            let position = iota(DType::I32, [1, t, 1, 1], 1);
            let valid = lt(position, per_example(lengths, b));
            where_(&valid, &means, full_like(&means, 0))
        }
    }
}

/// Returns attention, as [`dot_product_attention_with`], and for each query and head the logarithm
/// of the sum of the exponentials of its scores, `[b, t, n]`, in the dtype of the keys and without
/// a derivative. Means over parts of the keys are combined with these.
///
/// Computes the array of all scores. Throws `Op` (value) for [`AttentionImplementation::Flash`].
///
/// ```
/// use oxidax::nn::dot_product_attention_with_residual;
/// use oxidax::prelude::*;
/// let x = zeros([1, 4, 2, 8]);
/// let (_, residual) =
///     dot_product_attention_with_residual(&x, &x, &x, &AttentionOptions::default());
/// assert_eq!(residual.shape().dims(), [1, 4, 2]);
/// assert!((residual.max().item::<f32>()? - 4f32.ln()).abs() < 1e-6);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "return_residual")]
#[track_caller]
pub fn dot_product_attention_with_residual(
    query: &Array,
    key: &Array,
    value: &Array,
    options: &AttentionOptions,
) -> (Array, Array) {
    if options.implementation == AttentionImplementation::Flash {
        let error = RuleError::value("the kernel does not return the sums of the scores")
            .help("set `implementation: AttentionImplementation::Plain`");
        throw_operands("dot_product_attention", error, &[query, key, value]);
    }
    if [query, key, value].iter().all(|x| x.rank() == 3) {
        let [query, key, value] = [query, key, value].map(|x| expand_dims(x, &[0]));
        let (means, sums) = dot_product_attention_with_residual(&query, &key, &value, options);
        let first = |x: &Array| reshape(x, x.shape().remove(0));
        return (first(&means), first(&sums));
    }
    let sizes = checked_sizes(query, key, value);
    let (means, scores) = plain(query, key, value, options, &sizes);
    let sums = convert_element_type(&logsumexp(&scores, -1), key.dtype());
    let means = without_padding(means, options, [sizes.b, sizes.t]);
    (means, stop_gradient(moveaxis(&sums, 1, 2)))
}

/// Returns the sizes of operands of one dtype that fit.
#[track_caller]
fn checked_sizes(query: &Array, key: &Array, value: &Array) -> Sizes {
    let checked = if query.dtype() == key.dtype() && key.dtype() == value.dtype() {
        sizes(query, key, value)
    } else {
        Err(RuleError::dtype(format!(
            "query, key and value must have one dtype, got {}, {} and {}",
            query.dtype(),
            key.dtype(),
            value.dtype()
        )))
    };
    match checked {
        Ok(sizes) => sizes,
        Err(error) => throw_operands("dot_product_attention", error, &[query, key, value]),
    }
}

/// Returns true if [`AttentionImplementation::Auto`] chooses the kernel.
fn pays(operands: &[&Array; 3], options: &AttentionOptions) -> bool {
    let length = |x: &Array| x.shape().get(1).copied().unwrap_or(0);
    let (t, s) = (length(operands[0]), length(operands[1]));
    let is_known = options.bias.is_none() && options.mask.is_none();
    // Query `i` has the key `i`, or the last one that its window reaches.
    let has_keys = match options.local_window {
        None => true,
        Some((before, _)) => t <= s.saturating_add(before),
    };
    let is_float = operands[0].dtype().is_float();
    let is_sharded = operands.iter().any(|x| x.aval().sharding.is_some());
    is_known
        && options.key_lengths.is_none()
        && has_keys
        && is_float
        && !is_sharded
        && t.saturating_mul(s) >= LEAST_FLASH_SCORES
}

#[track_caller]
fn expect_known_masks(operands: &[&Array; 3], options: &AttentionOptions) {
    let unknown = match (&options.bias, &options.mask) {
        (Some(_), _) => "bias",
        (_, Some(_)) => "mask",
        _ => return,
    };
    let message = format!("the kernel does not take a {unknown}");
    let help = "set `implementation: AttentionImplementation::Plain`";
    throw_operands("dot_product_attention", RuleError::value(message).help(help), operands);
}

/// Computes attention by the kernel. Invalid keys are a segment without queries.
#[track_caller]
fn flash(query: &Array, key: &Array, value: &Array, options: &AttentionOptions) -> Array {
    let ([b, t, ..], [_, s, ..]) = (query.dims::<4>(), key.dims::<4>());
    let key_segments = options.key_lengths.as_ref().map(|lengths| {
        let lengths = reshape(&convert_element_type(lengths, DType::I32), [b, 1]);
        let is_valid = lt(iota(DType::I32, [b, s], 1), lengths);
        convert_element_type(&is_valid, DType::I32)
    });
    let options = FlashAttentionOptions {
        is_causal: options.is_causal,
        local_window: options.local_window,
        scale: options.scale,
        dropout_rate: options.dropout_rate,
        dropout_key: options.dropout_key.clone(),
        query_segments: key_segments.as_ref().map(|_| ones(([b, t], DType::I32))),
        key_segments,
        ..FlashAttentionOptions::default()
    };
    flash_attention_with(query, key, value, &options)
}

/// Computes attention by operations on the array of all scores, `[b, n, t, s]`, which is returned
/// too.
#[track_caller]
fn plain(
    query: &Array,
    key: &Array,
    value: &Array,
    options: &AttentionOptions,
    &Sizes { b, t, s, n, k, h }: &Sizes,
) -> (Array, Array) {
    let wide = if query.dtype().bits() < 32 { DType::F32 } else { query.dtype() };
    // Query heads are grouped by the key head that they share.
    let grouped = reshape(&convert_element_type(query, wide), [b, t, k, n / k, h]);
    let scores = einsum("btkgh,bskh->bkgts", [&grouped, &convert_element_type(key, wide)]);
    let scale = options.scale.unwrap_or(1.0 / (h as f64).sqrt());
    let mut scores = reshape(&mul(&scores, scale), [b, n, t, s]);
    if let Some(bias) = &options.bias {
        scores = add(&scores, convert_element_type(bias, wide));
    }
    // A finite value, so that a query without unmasked keys does not become NaN.
    let masked = full_like(&scores, -0.7 * wide.float_max());
    for mask in masks(options, b, t, s) {
        scores = where_(&mask, &scores, &masked);
    }
    let weights = convert_element_type(&softmax(&scores, -1), value.dtype());
    let dropout = Dropout::new(options.dropout_rate);
    let weights = dropout.forward(&weights, options.dropout_key.clone());
    let weights = reshape(&weights, [b, k, n / k, t, s]);
    let means = einsum("bkgts,bskh->btkgh", [&weights, value]);
    (reshape(&means, [b, t, n, value.shape()[3]]), scores)
}

#[track_caller]
fn per_example(lengths: &Array, b: usize) -> Array {
    reshape(&convert_element_type(lengths, DType::I32), [b, 1, 1, 1])
}

/// Returns the masks of the scores. Each broadcasts to `[b, n, t, s]`.
#[track_caller]
fn masks(options: &AttentionOptions, b: usize, t: usize, s: usize) -> Vec<Array> {
    let (query, key) = (iota(DType::I32, [1, 1, t, s], 2), iota(DType::I32, [1, 1, t, s], 3));
    let mut masks: Vec<Array> = options.mask.iter().cloned().collect();
    if options.is_causal {
        masks.push(le(&key, &query));
    }
    if let Some((before, after)) = options.local_window {
        let distance = sub(&key, &query);
        masks.push(ge(&distance, -(before as i64)) & le(&distance, after as i64));
    }
    if let Some(lengths) = &options.key_lengths {
        masks.push(lt(&key, per_example(lengths, b)));
    }
    if let Some(lengths) = &options.query_lengths {
        masks.push(lt(&query, per_example(lengths, b)));
    }
    masks
}
