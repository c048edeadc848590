//! Options of flash attention, and the layout of its operands.

use super::geometry::Geometry;
use crate::core::{Array, DType, RuleError, throw_operands};
use crate::primitives::{
    bitcast_convert_type, concatenate, convert_element_type, transpose, zeros,
};
use crate::random::Key;

/// Options of [`flash_attention_with`](super::flash_attention_with).
#[derive(Clone, Debug, Default)]
pub struct FlashAttentionOptions {
    /// Restricts query `i` to the keys `0..=i`.
    pub is_causal: bool,
    /// Numbers of keys before and after its own position that a query attends to.
    #[doc(alias = "sliding_window")]
    pub local_window: Option<(usize, usize)>,
    /// Factor of the scores; `1 / √h` if `None`.
    pub scale: Option<f64>,
    /// The segment of each query, integers `[b, t]`. A query attends to the keys of its segment.
    pub query_segments: Option<Array>,
    /// The segment of each key, integers `[b, s]`.
    pub key_segments: Option<Array>,
    /// The probability that a weight becomes zero, in `0..1`. The others are divided by
    /// `1 - dropout_rate`.
    pub dropout_rate: f64,
    /// The key of the random bits of dropout. Without a key, in evaluation, nothing is dropped. The
    /// backward pass computes the bits again.
    pub dropout_key: Option<Key>,
    /// The number of queries in a block, on all platforms; chosen if `None`. On a TPU a multiple of
    /// 128, or all queries.
    pub block_q: Option<usize>,
    /// The number of keys in a block, on all platforms; chosen if `None`.
    pub block_kv: Option<usize>,
}

/// The number of queries and keys in a block on accelerators, if the user does not choose.
const BLOCK: usize = 128;

impl FlashAttentionOptions {
    /// Returns the probability of dropout, if there is any.
    fn dropout(&self) -> Option<f64> {
        (self.dropout_key.is_some() && self.dropout_rate > 0.0).then_some(self.dropout_rate)
    }

    /// Returns the segment ids in the layout of the kernels.
    pub(in crate::kernels) fn segments(&self) -> Option<[Array; 2]> {
        let (of_queries, of_keys) = (self.query_segments.as_ref()?, self.key_segments.as_ref()?);
        let [b, t] = of_queries.dims();
        let [_, s] = of_keys.dims();
        let convert = |x: &Array| convert_element_type(x, DType::I32);
        Some([convert(of_queries).reshape([b, 1, t]), convert(of_keys).reshape([b, s, 1])])
    }

    /// Returns positions of 0 and the seed, `i32[4]`, if there is dropout.
    pub(super) fn scalars(&self) -> Option<Array> {
        self.dropout()?;
        Some(concatenate([&zeros(([2], DType::I32)), &self.seed()?], 0))
    }

    /// Returns the two words of the key as `i32[2]`.
    pub(in crate::kernels) fn seed(&self) -> Option<Array> {
        let words = self.dropout_key.as_ref()?.data();
        if words.rank() != 1 {
            let message = format!("takes one dropout key, got {}", words.aval());
            throw_operands("flash_attention", RuleError::shape(message), &[words]);
        }
        Some(bitcast_convert_type(words, DType::I32))
    }
}

/// The sizes of the operands in the layout of users.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct Layout {
    b: usize,
    t: usize,
    s: usize,
    n: usize,
    k: usize,
    h: usize,
    hv: usize,
    dtype: DType,
}

impl Layout {
    /// Checks the operands and options of the function `name`.
    #[track_caller]
    pub(in crate::kernels) fn of(
        name: &str,
        operands: [&Array; 3],
        options: &FlashAttentionOptions,
    ) -> Layout {
        let checked = layout(operands).and_then(|layout| {
            check_options(&layout, options)?;
            Ok(layout)
        });
        checked.unwrap_or_else(|error| throw_operands(name, error, &operands))
    }

    /// Returns the geometry of the kernels, whose operands are one of `n_shards` parts.
    pub(in crate::kernels) fn geometry(
        &self,
        options: &FlashAttentionOptions,
        n_shards: usize,
    ) -> Geometry {
        let (left, right) = match options.local_window {
            None => (None, None),
            Some((left, right)) => (Some(left), Some(right)),
        };
        // A limit that no distance reaches is dropped.
        let longest = self.t.max(self.s) * n_shards;
        let geometry = Geometry {
            heads: self.b * self.k,
            heads_per_example: self.k,
            group: self.n / self.k,
            t: self.t,
            s: self.s,
            h: self.h,
            hv: self.hv,
            dtype: self.dtype,
            out_dtype: self.dtype,
            scale: options.scale.unwrap_or(1.0 / (self.h as f64).sqrt()),
            left: left.filter(|&left| left < longest),
            right: match options.is_causal {
                true => Some(0),
                false => right.filter(|&right| right < longest),
            },
            has_segments: options.query_segments.is_some(),
            dropout: options.dropout(),
            has_scalars: options.dropout().is_some(),
            block_q: self.t,
            block_kv: self.s,
            chosen_blocks: [options.block_q, options.block_kv],
        };
        geometry.with_blocks(BLOCK)
    }

    /// Returns results `[heads, group, hv, t]` as `[b, t, n, hv]`.
    #[track_caller]
    pub(in crate::kernels) fn from_kernel_layout(self, out: &Array) -> Array {
        transpose(&out.reshape([self.b, self.n, self.hv, self.t]), &[0, 3, 1, 2])
    }
}

/// Returns queries `[b, t, n, h]` as `[heads, group, t, h]`.
#[track_caller]
pub(in crate::kernels) fn to_query_layout(x: &Array, layout: &Layout) -> Array {
    let heads = layout.b * layout.k;
    let by_head = transpose(x, &[0, 2, 1, 3]);
    by_head.reshape([heads, layout.n / layout.k, layout.t, layout.h])
}

/// Returns keys or values `[b, s, k, h]` as `[heads, s, h]`.
#[track_caller]
pub(in crate::kernels) fn to_key_layout(x: &Array) -> Array {
    let [b, s, k, h] = x.dims();
    transpose(x, &[0, 2, 1, 3]).reshape([b * k, s, h])
}

fn dims(x: &Array) -> Result<[usize; 4], RuleError> {
    <[usize; 4]>::try_from(x.shape().dims()).map_err(|_| {
        RuleError::shape(format!("needs axes batch, time, head, feature, got {}", x.shape()))
    })
}

fn layout([query, key, value]: [&Array; 3]) -> Result<Layout, RuleError> {
    let dtype = query.dtype();
    if [key.dtype(), value.dtype()] != [dtype; 2] || !dtype.is_float() {
        return Err(RuleError::dtype(format!(
            "query, key and value must be floats of one dtype, got {dtype}, {} and {}",
            key.dtype(),
            value.dtype()
        )));
    }
    let ([b, t, n, h], [kb, s, k, kh]) = (dims(query)?, dims(key)?);
    let [vb, vs, vk, hv] = dims(value)?;
    if [b, h] != [kb, kh] || [kb, s, k] != [vb, vs, vk] {
        return Err(RuleError::shape(format!(
            "query {}, key {} and value {} do not fit [b, t, n, h], [b, s, k, h] and [b, s, k, v]",
            query.shape(),
            key.shape(),
            value.shape()
        )));
    }
    if k == 0 || !n.is_multiple_of(k) {
        let message = format!("{n} query heads are not a multiple of {k} key heads");
        return Err(RuleError::shape(message));
    }
    if [b, t, s, h, hv].contains(&0) {
        return Err(RuleError::shape("an axis has the size 0".to_string()));
    }
    Ok(Layout { b, t, s, n, k, h, hv, dtype })
}

fn check_options(layout: &Layout, options: &FlashAttentionOptions) -> Result<(), RuleError> {
    let rate = options.dropout_rate;
    if !(0.0..1.0).contains(&rate) {
        return Err(RuleError::value(format!("the dropout rate {rate} is not in 0..1")));
    }
    if [options.block_q, options.block_kv].contains(&Some(0)) {
        return Err(RuleError::value("a block of size 0".to_string()));
    }
    let (of_queries, of_keys) = (&options.query_segments, &options.key_segments);
    let (of_queries, of_keys) = match (of_queries, of_keys) {
        (None, None) => return Ok(()),
        (Some(of_queries), Some(of_keys)) => (of_queries, of_keys),
        _ => {
            let message = "there are segments of only one of queries and keys".to_string();
            let help = "set `query_segments` and `key_segments`";
            return Err(RuleError::value(message).help(help));
        }
    };
    for (role, segments, length) in [("query", of_queries, layout.t), ("key", of_keys, layout.s)] {
        if segments.shape().dims() != [layout.b, length] || !segments.dtype().is_integer() {
            let message = format!(
                "the {role} segments must be integers [{}, {length}], got {}",
                layout.b,
                segments.aval()
            );
            return Err(RuleError::shape(message));
        }
    }
    Ok(())
}
