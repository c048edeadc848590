//! Multi-head attention and its key-value cache.

use super::check::expect_features;
use super::dot_product_attention::{
    AttentionImplementation, AttentionOptions, dot_product_attention_with,
};
use super::rotary::{Rotary, positions_from};
use super::{Dropout, LayerNorm, Linear};
use crate::core::{Array, DType, Loc, RuleError, Scalar, Shape, throw_operands};
use crate::ops::promote_types;
use crate::primitives::{
    broadcasted_iota, convert_element_type, dynamic_update_slice_in_dim, fill_of, full_like, le,
    reshape, where_, zeros,
};
use crate::random::Key;
use crate::tree::Tree;

/// Multi-head attention.
///
/// Queries, keys and values are linear projections of `x`. The results of the heads are projected
/// back to the features of `x`. Neighbouring query heads may share a head of keys and values
/// ([`grouped`](Self::grouped)).
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
/// Vaswani et al., "AttentionOptions is all you need" (2017), section 3.2.2; Ainslie et al., "GQA:
/// training generalized multi-query transformer models" (2023).
#[derive(Clone, Debug, Tree)]
#[doc(alias = "MultiHeadDotProductAttention")]
#[doc(alias = "SelfAttention")]
pub struct MultiHeadAttention {
    /// The query projection, `[features, n_heads · h]`.
    pub query: Linear,
    /// The key projection, `[features, n_kv_heads · h]`.
    pub key: Linear,
    /// The value projection, `[features, n_kv_heads · h]`.
    pub value: Linear,
    /// The output projection, `[n_heads · h, features]`.
    pub out: Linear,
    /// The number of query heads.
    #[tree(static)]
    pub n_heads: usize,
    /// The number of key and value heads. It divides `n_heads`.
    #[tree(static)]
    pub n_kv_heads: usize,
    /// Restricts a query to keys at its own and earlier positions.
    #[tree(static)]
    pub is_causal: bool,
    /// The rotary position embedding of queries and keys, if any.
    #[tree(static)]
    pub rotary: Option<Rotary>,
    /// The norm of the features of each query head, `[h]`, if any.
    #[doc(alias = "normalize_qk")]
    pub query_norm: Option<LayerNorm>,
    /// The norm of the features of each key head, `[h]`, if any.
    pub key_norm: Option<LayerNorm>,
    /// Dropout of the weights of attention in [`attend_with`](MultiHeadAttention::attend_with).
    pub dropout: Dropout,
}

/// Options of [`MultiHeadAttention::attend_with`].
#[derive(Clone, Debug, Default)]
pub struct AttendOptions {
    /// True where a query attends to a key. Booleans that broadcast to `[b, n_heads, t, s]`.
    pub mask: Option<Array>,
    /// Added to the scores. Broadcasts to `[b, n_heads, t, s]`.
    pub bias: Option<Array>,
    /// The key of the dropout. `None` turns it off.
    pub key: Option<Key>,
    /// The algorithm.
    pub implementation: AttentionImplementation,
}

/// Sizes of a [`MultiHeadAttention`] whose inputs, heads and results have different sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionFeatures {
    /// The features of the queries' input.
    pub query_in: usize,
    /// The features of the input of keys and values.
    pub memory_in: usize,
    /// The features of all query heads together.
    #[doc(alias = "qkv_features")]
    pub heads: usize,
    /// The features of the result.
    #[doc(alias = "out_features")]
    pub out: usize,
}

/// The keys and values of the tokens that a [`MultiHeadAttention`] has processed.
#[derive(Clone, Debug, Tree)]
#[doc(alias = "KeyValueCache")]
pub struct KvCache {
    /// Keys, `[b, length, n_kv_heads, h]`.
    pub keys: Array,
    /// Values, `[b, length, n_kv_heads, h]`.
    pub values: Array,
    /// The number of tokens in the cache, `i32[]`.
    pub position: Array,
}

impl MultiHeadAttention {
    /// Creates a layer for `n_features` features in `n_heads` heads, in `f32`.
    ///
    /// Projections are drawn by [`Linear::new`]. The layer is not causal and does not rotate
    /// positions.
    ///
    /// Throws `Op` (shape) if the heads do not divide the features.
    #[track_caller]
    pub fn new(key: Key, n_features: usize, n_heads: usize) -> MultiHeadAttention {
        MultiHeadAttention::grouped(key, n_features, n_heads, n_heads)
    }

    /// Creates a layer with one key and value head for each group of `n_heads / n_kv_heads` query
    /// heads.
    ///
    /// Throws `Op` (shape) unless `n_heads` divides the features and `n_kv_heads` divides
    /// `n_heads`.
    #[track_caller]
    pub fn grouped(
        key: Key,
        n_features: usize,
        n_heads: usize,
        n_kv_heads: usize,
    ) -> MultiHeadAttention {
        Loc::caller().scope(|| {
            if n_heads == 0 || !n_features.is_multiple_of(n_heads) {
                let message =
                    format!("{n_features} features are not divisible into {n_heads} heads");
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
                query_norm: None,
                key_norm: None,
                dropout: Dropout::new(0.0),
            }
        })
    }

    /// Creates a layer in `f32` whose inputs, heads and results have different sizes.
    ///
    /// Throws `Op` (shape) if the heads do not divide their features.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let features = nn::AttentionFeatures { query_in: 64, memory_in: 32, heads: 128, out: 16 };
    /// let attend = move |key: random::Key, x: Array, memory: Array| {
    ///     nn::MultiHeadAttention::with_features(key, features, 8).attend(&x, &memory, None)
    /// };
    /// let aval = |t, n| Aval::new(DType::F32, [2, t, n]);
    /// let y = eval_shape(attend, (random::Key::of_type(), aval(10, 64), aval(20, 32)))?;
    /// assert_eq!(y.aval().to_string(), "f32[2,10,16]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn with_features(
        key: Key,
        features: AttentionFeatures,
        n_heads: usize,
    ) -> MultiHeadAttention {
        let AttentionFeatures { query_in, memory_in, heads, out } = features;
        let [query_key, key_key, value_key, out_key] = key.split();
        let query = Linear::new(query_key, query_in, heads);
        let [key, value] = [key_key, value_key].map(|key| Linear::new(key, memory_in, heads));
        let out = Linear::new(out_key, heads, out);
        MultiHeadAttention::with_projections(n_heads, query, key, value, out)
    }

    /// Normalizes the features of each query and key head by a [`LayerNorm`] without a bias.
    ///
    /// # Reference
    /// Dehghani et al.: Scaling vision transformers to 22 billion parameters (2023), section 2.
    #[doc(alias = "normalize_qk")]
    #[track_caller]
    pub fn with_normalized_heads(self) -> MultiHeadAttention {
        let norm = LayerNorm::new(self.features_per_head()).without_bias();
        let (query_norm, key_norm) = (Some(norm.clone()), Some(norm));
        MultiHeadAttention { query_norm, key_norm, ..self }
    }

    /// Creates a layer of `n_heads` query heads with these projections. The number of key and value
    /// heads follows from the outputs of `key`. The layer is not causal and does not rotate
    /// positions.
    ///
    /// Throws `Op` (shape) if the sizes of the projections do not fit each other or the heads.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let weights = |n_out| Aval::new(DType::F32, [64, n_out]);
    /// let attend = |wq: Array, wk: Array, wv: Array, wo: Array, x: Array| {
    ///     let [q, k, v, o] = [wq, wk, wv, wo].map(nn::Linear::with_weight);
    ///     nn::MultiHeadAttention::with_projections(8, q, k, v, o).forward(&x)
    /// };
    /// let x = Aval::new(DType::F32, [2, 10, 64]);
    /// let y = eval_shape(attend, (weights(64), weights(16), weights(16), weights(64), x))?;
    /// assert_eq!(y.aval().to_string(), "f32[2,10,64]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn with_projections(
        n_heads: usize,
        query: Linear,
        key: Linear,
        value: Linear,
        out: Linear,
    ) -> MultiHeadAttention {
        Loc::caller().scope(|| {
            let [[_, n_query], [_, n_key], [_, n_value], [n_out, _]] =
                [&query, &key, &value, &out].map(|linear| linear.weight.dims());
            let width = n_query / n_heads.max(1);
            let fits = n_heads > 0 && n_query == n_heads * width && width > 0;
            if !fits || !n_key.is_multiple_of(width) || n_value != n_key || n_out != n_query {
                let message = format!(
                    "projections of {n_query} query, {n_key} key and {n_value} value features, \
                 combined from {n_out}, do not form {n_heads} heads"
                );
                let weights = [&query.weight, &key.weight, &value.weight, &out.weight];
                throw_operands("MultiHeadAttention", RuleError::shape(message), &weights);
            }
            let n_kv_heads = n_key / width;
            expect_groups(n_heads, n_kv_heads);
            MultiHeadAttention {
                query,
                key,
                value,
                out,
                n_heads,
                n_kv_heads,
                is_causal: false,
                rotary: None,
                query_norm: None,
                key_norm: None,
                dropout: Dropout::new(0.0),
            }
        })
    }

    /// Removes the biases.
    pub fn without_bias(self) -> MultiHeadAttention {
        MultiHeadAttention {
            query: self.query.without_bias(),
            key: self.key.without_bias(),
            value: self.value.without_bias(),
            out: self.out.without_bias(),
            ..self
        }
    }

    /// Computes self-attention of `x`, `[b, t, features]`: `[b, t, features]`.
    ///
    /// Throws `Op` (shape) if `x` has other sizes.
    #[track_caller]
    pub fn forward(&self, x: &Array) -> Array {
        self.attend(x, x, None)
    }

    /// Computes attention of `x`, `[b, t, features]`, to `memory`, `[b, s, features]`.
    ///
    /// `mask` is a boolean array that broadcasts to `[b, n_heads, t, s]`. A token does not attend
    /// where it is false.
    ///
    /// Throws `Op` (shape) if an operand has other sizes.
    #[track_caller]
    pub fn attend(&self, x: &Array, memory: &Array, mask: Option<&Array>) -> Array {
        let options = AttendOptions { mask: mask.cloned(), ..AttendOptions::default() };
        self.attend_with(x, memory, &options)
    }

    /// Computes attention of `x` to `memory` with options, among them dropout of the weights.
    ///
    /// Throws `Op` (shape) if an operand has other sizes.
    #[track_caller]
    pub fn attend_with(&self, x: &Array, memory: &Array, options: &AttendOptions) -> Array {
        let (mut query, mut key) = (self.queries(x), self.keys(memory));
        let value = self.heads("value", &self.value, memory);
        if let Some(rotary) = self.rotary {
            let positions = |t| broadcasted_iota(DType::I32, [t], 0);
            query = rotary.forward(&query, &positions(query.shape()[1]));
            key = rotary.forward(&key, &positions(key.shape()[1]));
        }
        let options = AttentionOptions {
            mask: options.mask.clone(),
            bias: options.bias.clone(),
            is_causal: self.is_causal,
            dropout_rate: self.dropout.rate.get(),
            dropout_key: options.key.clone(),
            implementation: options.implementation,
            ..AttentionOptions::default()
        };
        self.attend_heads(&query, &key, &value, &options)
    }

    /// Creates an empty cache for `batch` sequences of up to `length` tokens, of this dtype.
    #[track_caller]
    pub fn cache(&self, batch: usize, length: usize, dtype: DType) -> KvCache {
        let shape = [batch, length, self.n_kv_heads, self.features_per_head()];
        let position =
            fill_of(Scalar::Int(0), &crate::core::Aval::new(DType::I32, Shape::scalar()));
        KvCache { keys: zeros((shape, dtype)), values: zeros((shape, dtype)), position }
    }

    /// Computes causal attention of the next tokens `x`, `[b, t, features]`, to all tokens so far.
    /// Returns the result and the updated cache.
    ///
    /// [`is_causal`](Self::is_causal) is ignored. The position is an array, so one compiled
    /// program, or a step of a `scan`, serves every token. Tokens beyond the length of the cache
    /// give NaN.
    ///
    /// Throws `Op` (shape) if the sizes of `x` and the cache differ.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let y = eval_shape(
    ///     |key: random::Key, tokens: Array| {
    ///         let layer = nn::MultiHeadAttention::new(key, 64, 4);
    ///         let cache = layer.cache(2, 128, DType::F32);
    ///         // One token after another: `[t, b, 1, features]`.
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
        Loc::caller().scope(|| {
            let (mut query, mut key) = (self.queries(x), self.keys(x));
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
            let update = |old: &Array, new: &Array| {
                let new = convert_element_type(new, old.dtype());
                dynamic_update_slice_in_dim(old, &new, &cache.position, 1)
            };
            let (keys, values) = (update(&cache.keys, &key), update(&cache.values, &value));
            let key_positions = broadcasted_iota(DType::I32, [1, 1, t, length], 3);
            let options = AttentionOptions {
                mask: Some(le(key_positions, reshape(&positions, [1, 1, t, 1]))),
                ..AttentionOptions::default()
            };
            let y = self.attend_heads(&query, &keys, &values, &options);
            let next = &cache.position + t as i32;
            let y = where_(le(&next, length as i32), &y, full_like(&y, f64::NAN));
            (y, KvCache { keys, values, position: next })
        })
    }

    /// Returns the number of features per head, `h`.
    #[track_caller]
    fn features_per_head(&self) -> usize {
        Loc::caller().scope(|| {
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
        })
    }

    #[track_caller]
    fn queries(&self, x: &Array) -> Array {
        expect_groups(self.n_heads, self.n_kv_heads);
        let heads = self.heads("query", &self.query, x);
        self.query_norm.as_ref().map_or_else(|| heads.clone(), |norm| norm.forward(&heads))
    }

    #[track_caller]
    fn keys(&self, x: &Array) -> Array {
        let heads = self.heads("key", &self.key, x);
        self.key_norm.as_ref().map_or_else(|| heads.clone(), |norm| norm.forward(&heads))
    }

    /// Projects `x`, `[b, t, features]`, to heads, `[b, t, heads, h]`.
    #[track_caller]
    fn heads(&self, name: &str, projection: &Linear, x: &Array) -> Array {
        if x.rank() != 3 {
            let message = format!("x {} needs axes [b, t, features]", x.aval());
            throw_operands("MultiHeadAttention", RuleError::shape(message), &[x]);
        }
        let leaf = format!("{name}.weight");
        let [n_in, n_out] = projection.weight.dims();
        expect_features("MultiHeadAttention", x, &leaf, &projection.weight, n_in);
        let (b, t, h) = (x.shape()[0], x.shape()[1], self.features_per_head());
        let n = if name == "query" { self.n_heads } else { self.n_kv_heads };
        if n * h != n_out {
            let weight = &projection.weight;
            let message = format!("`{leaf}` {} does not give {n} heads of {h}", weight.aval());
            throw_operands("MultiHeadAttention", RuleError::shape(message), &[x, weight]);
        }
        reshape(&projection.forward(x), [b, t, n, h])
    }

    /// Computes attention of each head, concatenates the results and projects them back.
    #[track_caller]
    fn attend_heads(
        &self,
        query: &Array,
        key: &Array,
        value: &Array,
        options: &AttentionOptions,
    ) -> Array {
        let [b, t, n, h] = query.dims();
        let dtypes = [key.dtype(), value.dtype()];
        let dtype = dtypes.into_iter().fold(query.dtype(), |a, b| promote_types(a, b).unwrap_or(a));
        let [query, key, value] = [query, key, value].map(|x| convert_element_type(x, dtype));
        let heads = dot_product_attention_with(&query, &key, &value, options);
        self.out.forward(&reshape(&heads, [b, t, n * h]))
    }
}

#[track_caller]
fn expect_groups(n_heads: usize, n_kv_heads: usize) {
    Loc::caller().scope(|| {
        if n_kv_heads == 0 || !n_heads.is_multiple_of(n_kv_heads) {
            let message =
                format!("{n_heads} query heads are not a multiple of {n_kv_heads} key heads");
            throw_operands("MultiHeadAttention", RuleError::shape(message), &[]);
        }
    })
}
