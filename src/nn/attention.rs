//! Attention with several heads, and the cache by which it decodes token by token.

use super::Linear;
use super::fits::expect_features;
use super::rotary::{Rotary, positions_from};
use crate::core::{Array, DType, RuleError, Scalar, Shape, throw_operands};
use crate::ops::{Attention, dot_product_attention, promote_types};
use crate::primitives::{
    broadcasted_iota, convert_element_type, dynamic_update_slice_in_dim, fill_of, full_like, le,
    reshape, where_, zeros,
};
use crate::random::Key;
use crate::tree::Tree;

/// Attention in several heads: queries, keys and values are linear maps of `x`, and the heads' results are
/// mapped back to its features.
///
/// Several neighbouring heads of queries may share one of keys and values ([`grouped`](Self::grouped)).
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(
///     |key: random::Key, x: Array| {
///         let layer = nn::MultiHeadAttention::grouped(key, 256, 8, 2);
///         let rotary = Some(nn::Rotary::new(10_000.0));
///         nn::MultiHeadAttention { is_causal: true, rotary, ..layer }.forward(&x)
///     },
///     (random::Key::of_type(), Aval::new(DType::F32, [4, 128, 256])),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[4,128,256]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Vaswani et al., "Attention is all you need" (2017), section 3.2.2; Ainslie et al., "GQA: training
/// generalized multi-query transformer models" (2023).
#[derive(Clone, Debug, Tree)]
#[doc(alias = "MultiHeadDotProductAttention")]
#[doc(alias = "SelfAttention")]
pub struct MultiHeadAttention {
    /// To the queries, `[features, n_heads · h]`.
    pub query: Linear,
    /// To the keys, `[features, n_kv_heads · h]`.
    pub key: Linear,
    /// To the values, `[features, n_kv_heads · h]`.
    pub value: Linear,
    /// From the heads' results, `[n_heads · h, features]`.
    pub out: Linear,
    /// How many heads of queries there are.
    #[tree(static)]
    pub n_heads: usize,
    /// How many heads of keys and values; divides `n_heads`.
    #[tree(static)]
    pub n_kv_heads: usize,
    /// Whether a query sees the keys up to itself alone.
    #[tree(static)]
    pub is_causal: bool,
    /// Turns queries and keys to their positions, if wanted.
    #[tree(static)]
    pub rotary: Option<Rotary>,
}

/// The keys and values of what a [`MultiHeadAttention`] has seen, and how much that is.
#[derive(Clone, Debug, Tree)]
#[doc(alias = "KeyValueCache")]
pub struct KvCache {
    /// Keys, `[b, length, n_kv_heads, h]`.
    pub keys: Array,
    /// Values, `[b, length, n_kv_heads, h]`.
    pub values: Array,
    /// How many tokens are in it, `i32[]`.
    pub position: Array,
}

impl MultiHeadAttention {
    /// A layer for `n_features` in `n_heads` heads, in `f32`: maps as [`Linear::new`] draws them, not causal,
    /// without positions.
    ///
    /// Throws `Op` (shape) if the heads do not divide the features.
    #[track_caller]
    pub fn new(key: Key, n_features: usize, n_heads: usize) -> MultiHeadAttention {
        MultiHeadAttention::grouped(key, n_features, n_heads, n_heads)
    }

    /// The same with fewer heads of keys and values: one for `n_heads / n_kv_heads` heads of queries.
    ///
    /// Throws `Op` (shape) if the heads do not divide the features, or those of keys not those of queries.
    #[track_caller]
    pub fn grouped(
        key: Key,
        n_features: usize,
        n_heads: usize,
        n_kv_heads: usize,
    ) -> MultiHeadAttention {
        if n_heads == 0 || !n_features.is_multiple_of(n_heads) {
            let message = format!("{n_features} features are not divisible into {n_heads} heads");
            throw_operands("MultiHeadAttention", RuleError::shape(message), &[]);
        }
        expect_groups(n_heads, n_kv_heads);
        let n_kv_features = n_features / n_heads * n_kv_heads;
        let [query, keys, value, out] = key.split();
        MultiHeadAttention {
            query: Linear::new(query, n_features, n_features),
            key: Linear::new(keys, n_features, n_kv_features),
            value: Linear::new(value, n_features, n_kv_features),
            out: Linear::new(out, n_features, n_features),
            n_heads,
            n_kv_heads,
            is_causal: false,
            rotary: None,
        }
    }

    /// The same layer without biases.
    pub fn without_bias(self) -> MultiHeadAttention {
        MultiHeadAttention {
            query: self.query.without_bias(),
            key: self.key.without_bias(),
            value: self.value.without_bias(),
            out: self.out.without_bias(),
            ..self
        }
    }

    /// What the tokens of `x`, `[b, t, features]`, find in each other: `[b, t, features]`.
    ///
    /// Throws `Op` (shape) if `x` does not fit.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        self.attend(x, x, None)
    }

    /// What the tokens of `x`, `[b, t, features]`, find in `memory`, `[b, s, features]`. Where `mask`, booleans
    /// that broadcast to `[b, n_heads, t, s]`, is false, a token does not look.
    ///
    /// Throws `Op` (shape) if an operand does not fit.
    #[track_caller]
    pub fn attend(&self, x: &Array, memory: &Array, mask: Option<&Array>) -> Array {
        let (mut query, mut key) = (self.queries(x), self.heads("key", &self.key, memory));
        let value = self.heads("value", &self.value, memory);
        if let Some(rotary) = self.rotary {
            let positions = |t| broadcasted_iota(DType::I32, [t], 0);
            query = rotary.forward(&query, &positions(query.shape()[1]));
            key = rotary.forward(&key, &positions(key.shape()[1]));
        }
        let how =
            Attention { mask: mask.cloned(), is_causal: self.is_causal, ..Attention::default() };
        self.joined(&query, &key, &value, &how)
    }

    /// An empty cache for `batch` sequences of up to `length` tokens, of this dtype.
    #[track_caller]
    pub fn cache(&self, batch: usize, length: usize, dtype: DType) -> KvCache {
        let shape = [batch, length, self.n_kv_heads, self.features_per_head()];
        let position =
            fill_of(Scalar::Int(0), &crate::core::Aval::new(DType::I32, Shape::scalar()));
        KvCache { keys: zeros(shape, dtype), values: zeros(shape, dtype), position }
    }

    /// What the next tokens `x`, `[b, t, features]`, find in all up to themselves, and the cache with them in it.
    ///
    /// Causal whatever [`is_causal`](Self::is_causal) says. The position is an array, so that one compiled
    /// program, or a step of a `scan`, serves every token. Tokens beyond the cache's length give NaN.
    ///
    /// Throws `Op` (shape) if `x` does not fit the cache.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let y = eval_shape(
    ///     |key: random::Key, tokens: Array| {
    ///         let layer = nn::MultiHeadAttention::new(key, 64, 4);
    ///         let cache = layer.cache(2, 128, DType::F32);
    ///         // One token after the other: `[t, b, 1, features]`.
    ///         let step = |cache, x: Array| {
    ///             let (y, cache) = layer.decode(&x, &cache);
    ///             (cache, y)
    ///         };
    ///         scan(step, cache, tokens).1
    ///     },
    ///     (random::Key::of_type(), Aval::new(DType::F32, [100, 2, 1, 64])),
    /// )?;
    /// assert_eq!(y.aval().to_string(), "f32[100,2,1,64]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn decode(&self, x: &Array, cache: &KvCache) -> (Array, KvCache) {
        let (mut query, mut key) = (self.queries(x), self.heads("key", &self.key, x));
        let value = self.heads("value", &self.value, x);
        let ([b, t, n, h], [rows, length, heads, width]) = (key.dims(), cache.keys.dims());
        if [b, n, h] != [rows, heads, width] || t > length {
            let message = format!(
                "x {} with {n} heads of {h} does not fit `keys` {}",
                x.aval(),
                cache.keys.aval()
            );
            throw_operands("MultiHeadAttention", RuleError::shape(message), &[x, &cache.keys]);
        }
        let positions = positions_from(&cache.position, t);
        if let Some(rotary) = self.rotary {
            query = rotary.forward(&query, &positions);
            key = rotary.forward(&key, &positions);
        }
        let written = |old: &Array, new: &Array| {
            let new = convert_element_type(new, old.dtype());
            dynamic_update_slice_in_dim(old, &new, &cache.position, 1)
        };
        let (keys, values) = (written(&cache.keys, &key), written(&cache.values, &value));
        let places = broadcasted_iota(DType::I32, [1, 1, t, length], 3);
        let how = Attention {
            mask: Some(le(places, reshape(&positions, [1, 1, t, 1]))),
            ..Attention::default()
        };
        let y = self.joined(&query, &keys, &values, &how);
        let next = &cache.position + t as i32;
        let y = where_(&le(&next, length as i32), &y, full_like(&y, f64::NAN));
        (y, KvCache { keys, values, position: next })
    }

    /// `h` of the heads.
    #[track_caller]
    fn features_per_head(&self) -> usize {
        let width = self.query.weight.shape()[1];
        if self.n_heads == 0 || !width.is_multiple_of(self.n_heads) {
            let message = format!(
                "`query.weight` {} is not divisible into {} heads",
                self.query.weight.aval(),
                self.n_heads
            );
            throw_operands("MultiHeadAttention", RuleError::shape(message), &[]);
        }
        width / self.n_heads
    }

    #[track_caller]
    fn queries(&self, x: &Array) -> Array {
        expect_groups(self.n_heads, self.n_kv_heads);
        self.heads("query", &self.query, x)
    }

    /// `[b, t, heads, h]` of `x`, `[b, t, features]`, by one of the maps.
    #[track_caller]
    fn heads(&self, name: &str, map: &Linear, x: &Array) -> Array {
        if x.rank() != 3 {
            let message = format!("x {} needs axes [b, t, features]", x.aval());
            throw_operands("MultiHeadAttention", RuleError::shape(message), &[x]);
        }
        let leaf = format!("{name}.weight");
        let [n_in, n_out] = map.weight.dims();
        expect_features("MultiHeadAttention", x, &leaf, &map.weight, n_in);
        let (b, t, h) = (x.shape()[0], x.shape()[1], self.features_per_head());
        let n = if name == "query" { self.n_heads } else { self.n_kv_heads };
        if n * h != n_out {
            let message = format!("`{leaf}` {} does not give {n} heads of {h}", map.weight.aval());
            throw_operands("MultiHeadAttention", RuleError::shape(message), &[x, &map.weight]);
        }
        reshape(&map.forward(x), [b, t, n, h])
    }

    /// The heads' results, side by side and mapped back.
    #[track_caller]
    fn joined(&self, query: &Array, key: &Array, value: &Array, how: &Attention) -> Array {
        let [b, t, n, h] = query.dims();
        let dtypes = [key.dtype(), value.dtype()];
        let dtype = dtypes.into_iter().fold(query.dtype(), |a, b| promote_types(a, b).unwrap_or(a));
        let [query, key, value] = [query, key, value].map(|x| convert_element_type(x, dtype));
        let means = dot_product_attention(&query, &key, &value, how);
        self.out.forward(&reshape(&means, [b, t, n * h]))
    }
}

#[track_caller]
fn expect_groups(n_heads: usize, n_kv_heads: usize) {
    if n_kv_heads == 0 || !n_heads.is_multiple_of(n_kv_heads) {
        let message =
            format!("{n_heads} heads of queries are no multiple of {n_kv_heads} heads of keys");
        throw_operands("MultiHeadAttention", RuleError::shape(message), &[]);
    }
}
