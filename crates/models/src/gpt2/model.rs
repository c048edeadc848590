//! GPT-2: token and position embeddings, transformer blocks, and a head that shares the embedding.
//!
//! Fields are named as in Hugging Face's files, so leaf paths resemble the names in a file.

use super::Gpt2Config;
use oxidax::core::{RuleError, throw_operands};
use oxidax::kernels::{FlashAttentionOptions, flash_attention_with};
use oxidax::prelude::*;
use oxidax::profile::named_scope;
use oxidax::random::Key;
use oxidax_flax::generate::Decoder;

/// A GPT-2: a causal transformer over tokens, with learned positions and a head that is the token
/// embedding.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_models::gpt2::{Gpt2, Gpt2Config};
///
/// let config = Gpt2Config { layers: 2, heads: 4, width: 32, ..Gpt2Config::small() };
/// let loss = move |key: random::Key, tokens: Array, next: Array| {
///     let model = Gpt2::new(key, &config);
///     let loss = |model: &Gpt2| {
///         let logits = model.forward(&tokens, None);
///         nn::softmax_cross_entropy_with_integer_labels(&logits, &next).mean()
///     };
///     value_and_grad(loss)(&model)
/// };
/// let tokens = Aval::new(DType::I32, [8, 64]);
/// let (loss, gradients) = eval_shape(loss, (random::Key::of_type(), &tokens, &tokens))?;
/// assert_eq!(loss.aval().to_string(), "f32[]");
/// assert_eq!(gradients.wte.weight.aval().to_string(), "f32[50257,32]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias("GPT2LMHeadModel", "FlaxGPT2LMHeadModel"))]
#[derive(Tree, Clone, Debug)]
pub struct Gpt2 {
    /// Token embedding, `[vocabulary, width]`. Also maps the last features to logits.
    pub wte: nn::Embedding,
    /// Position embedding, `[positions, width]`.
    pub wpe: nn::Embedding,
    /// The blocks, unrolled or stacked. [`stacked`](nn::Layers::stacked) blocks compile as one
    /// loop.
    pub h: nn::Layers<Gpt2Block>,
    /// The norm after the last block.
    pub ln_f: nn::LayerNorm,
    /// Dropout of the embeddings.
    pub drop: nn::Dropout,
}

/// A transformer block of [`Gpt2`]: attention and a feed-forward layer, each behind a norm and
/// added to its input.
#[derive(Tree, Clone, Debug)]
pub struct Gpt2Block {
    /// The norm before attention.
    pub ln_1: nn::LayerNorm,
    /// Causal attention.
    pub attn: Gpt2Attention,
    /// The norm before the feed-forward layer.
    pub ln_2: nn::LayerNorm,
    /// The feed-forward layer.
    pub mlp: Gpt2Mlp,
}

/// Causal attention with several heads.
#[derive(Tree, Clone, Debug)]
pub struct Gpt2Attention {
    /// Projects to queries, keys and values, side by side: `[width, 3 · width]`.
    pub c_attn: nn::Linear,
    /// Projects the heads' results, `[width, width]`.
    pub c_proj: nn::Linear,
    /// Number of heads.
    #[tree(static)]
    pub heads: usize,
    /// Dropout of the attention weights and of the result.
    pub drop: nn::Dropout,
    /// The algorithm of [`Gpt2::forward`] and [`Gpt2::features`].
    #[tree(static)]
    pub implementation: nn::AttentionImplementation,
}

/// Feed-forward layer: two linear maps with the tanh approximation of GELU between them.
#[derive(Tree, Clone, Debug)]
pub struct Gpt2Mlp {
    /// The first map, `[width, 4 · width]`.
    pub c_fc: nn::Linear,
    /// The second map, `[4 · width, width]`.
    pub c_proj: nn::Linear,
    /// Dropout of the result.
    pub drop: nn::Dropout,
}

/// Keys and values of earlier tokens for each layer, `[b, length, heads, width / heads]`.
///
/// [`Gpt2::cache`] creates it, [`Gpt2::decode`] extends it.
#[derive(Tree, Clone, Debug)]
pub struct Gpt2Cache {
    layers: nn::Layers<(Array, Array)>,
    /// The number of tokens in the cache, `i32[]`.
    position: Array,
}

impl Gpt2 {
    /// Initializes a model in `f32` as nanoGPT does: weights are normal with deviation 0.02, and
    /// `0.02 / √(2 · layers)` in front of the residual stream.
    ///
    /// Throws `Op` (value) if the heads do not divide the width.
    #[track_caller]
    pub fn new(key: Key, config: &Gpt2Config) -> Gpt2 {
        let Gpt2Config { width, heads, .. } = *config;
        if heads == 0 || !width.is_multiple_of(heads) {
            let problem = format!("a width of {width} is not divisible into {heads} heads");
            throw_operands("Gpt2", RuleError::value(problem), &[]);
        }
        let [tokens, positions, layers] = key.split();
        let table = |key, n| nn::Embedding::with_weight(normal(key, [n, config.width], 0.02));
        Gpt2 {
            wte: table(tokens, config.vocabulary),
            wpe: table(positions, config.positions),
            h: nn::Layers::new(layers, config.layers, |key| Gpt2Block::new(key, config)),
            ln_f: norm(config),
            drop: nn::Dropout::new(config.dropout),
        }
    }

    /// Returns the model with an algorithm of attention. By default it is
    /// [`Auto`](nn::AttentionImplementation::Auto), which chooses by the length of the text.
    ///
    /// [`Flash`](nn::AttentionImplementation::Flash) does not store the weights of attention, so
    /// training needs less memory. [`decode`](Self::decode) always computes all scores of its few
    /// queries.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax_models::gpt2::{Gpt2, Gpt2Config};
    /// let config = Gpt2Config { layers: 2, heads: 4, width: 32, ..Gpt2Config::small() };
    /// let features = move |key: random::Key, tokens: Array| {
    ///     let model = Gpt2::new(key, &config).with_attention(nn::AttentionImplementation::Flash);
    ///     model.features(&tokens, None)
    /// };
    /// let tokens = Aval::new(DType::I32, [1, 512]);
    /// let features = eval_shape(features, (random::Key::of_type(), tokens))?;
    /// assert_eq!(features.aval().to_string(), "f32[1,512,32]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn with_attention(mut self, implementation: nn::AttentionImplementation) -> Gpt2 {
        let blocks = match &mut self.h {
            nn::Layers::Unrolled { layers } => layers.as_mut_slice(),
            nn::Layers::Stacked { stack } => std::slice::from_mut(stack),
        };
        for block in blocks {
            block.attn.implementation = implementation;
        }
        self
    }

    /// Returns logits `[b, t, vocabulary]` for the token after each of `i32[b, t]`, in the dtype of
    /// the weights. A key enables dropout.
    ///
    /// Throws `Op` (value) if `t` exceeds the number of positions.
    #[doc(alias = "logits")]
    #[track_caller]
    pub fn forward(&self, tokens: &Array, key: Option<Key>) -> Array {
        let x = self.last_block(tokens, key);
        named_scope("head", || self.wte.attend(&self.ln_f.forward(&x)))
    }

    /// Returns the features `[b, t, width]` that the token embedding maps to the logits of
    /// [`Gpt2::forward`]. With [`linear_cross_entropy`](oxidax::kernels::linear_cross_entropy) they
    /// give the loss without the memory of logits.
    ///
    /// Throws as [`Gpt2::forward`] does.
    ///
    /// ```
    /// use oxidax::kernels::linear_cross_entropy;
    /// use oxidax::prelude::*;
    /// use oxidax_models::gpt2::{Gpt2, Gpt2Config};
    /// let config = Gpt2Config { layers: 2, heads: 4, width: 32, ..Gpt2Config::small() };
    /// let loss = move |key: random::Key, tokens: Array, next: Array| {
    ///     let model = Gpt2::new(key, &config);
    ///     linear_cross_entropy(&model.features(&tokens, None), &model.wte.weight, &next).mean()
    /// };
    /// let tokens = Aval::new(DType::I32, [8, 64]);
    /// let loss = eval_shape(loss, (random::Key::of_type(), &tokens, &tokens))?;
    /// assert_eq!(loss.aval().to_string(), "f32[]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn features(&self, tokens: &Array, key: Option<Key>) -> Array {
        let x = self.last_block(tokens, key);
        named_scope("head", || self.ln_f.forward(&x))
    }

    /// Returns the result of the last block.
    #[track_caller]
    fn last_block(&self, tokens: &Array, key: Option<Key>) -> Array {
        let [_, t] = tokens.dims();
        self.expect_positions(t);
        let [embedding_key, layers_key] = split_key(key);
        let x = named_scope("embed", || {
            let x = self.wte.forward(tokens) + self.wpe.weight.index(i![..t as isize]);
            self.drop.forward(&x, embedding_key)
        });
        let keys = self.h.split_key(layers_key);
        self.h.scan(x, &keys, |x, block, key| (block.forward(&x, key), ())).0
    }

    /// Returns an empty cache for `b` texts of up to `length` tokens.
    ///
    /// Throws `Op` (value) if `length` exceeds the number of positions.
    #[track_caller]
    pub fn cache(&self, b: usize, length: usize) -> Gpt2Cache {
        self.expect_positions(length);
        let layers = self.h.map(|Gpt2Block { attn, .. }| {
            let [width, _] = attn.c_proj.weight.dims();
            let empty =
                zeros(([b, length, attn.heads, width / attn.heads], attn.c_proj.weight.dtype()));
            (empty.clone(), empty)
        });
        Gpt2Cache { layers, position: zeros(([], DType::I32)) }
    }

    /// Reads tokens `i32[b, t]` that follow those in the cache. Returns logits `[b, vocabulary]`
    /// for the next token, and the cache with these tokens.
    ///
    /// The cache must have room for `t` more tokens. This is not checked, because the number of
    /// tokens in the cache is a traced value.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax_models::gpt2::{Gpt2, Gpt2Config};
    /// let config = Gpt2Config { layers: 2, heads: 4, width: 32, ..Gpt2Config::small() };
    /// let read = move |key: random::Key, prompt: Array| {
    ///     let model = Gpt2::new(key, &config);
    ///     let (logits, cache) = model.decode(&prompt, &model.cache(1, 100));
    ///     let next = logits.argmax_axis(-1).expand_dims(-1);
    ///     model.decode(&next, &cache).0
    /// };
    /// let prompt = Aval::new(DType::I32, [1, 5]);
    /// let logits = eval_shape(read, (random::Key::of_type(), prompt))?;
    /// assert_eq!(logits.aval().to_string(), "f32[1,50257]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn decode(&self, tokens: &Array, cache: &Gpt2Cache) -> (Array, Gpt2Cache) {
        let [_, t] = tokens.dims();
        let (x, layers) = self.decode_blocks(tokens, cache);
        let last = self.ln_f.forward(&x.index(i![.., -1]));
        (self.wte.attend(&last), Gpt2Cache { layers, position: &cache.position + t as i32 })
    }

    /// Returns the features after the last block, and the keys and values of each layer.
    fn decode_blocks(
        &self,
        tokens: &Array,
        cache: &Gpt2Cache,
    ) -> (Array, nn::Layers<(Array, Array)>) {
        let ([_, t], start) = (tokens.dims(), &cache.position);
        let x = self.wte.forward(tokens) + self.wpe.forward(&(iota(DType::I32, t) + start));
        let decode = |x: Array, block: &Gpt2Block, past| block.decode(&x, past, start);
        self.h.scan(x, &cache.layers, decode)
    }

    #[track_caller]
    fn expect_positions(&self, length: usize) {
        let [positions, _] = self.wpe.weight.dims();
        if length > positions {
            let problem = format!("{length} tokens; the model has {positions} positions");
            throw_operands("Gpt2", RuleError::value(problem), &[]);
        }
    }
}

impl Decoder for Gpt2 {
    type Cache = Gpt2Cache;

    #[track_caller]
    fn init_cache(&self, batch: usize, length: usize) -> Gpt2Cache {
        self.cache(batch, length)
    }

    #[track_caller]
    fn decode(&self, tokens: &Array, count: &Array, cache: &Gpt2Cache) -> (Array, Gpt2Cache) {
        let (x, layers) = self.decode_blocks(tokens, cache);
        let last = dynamic_index_in_dim(&x, count - 1, 1);
        let last = self.ln_f.forward(&last.reshape([x.shape()[0], x.shape()[2]]));
        (self.wte.attend(&last), Gpt2Cache { layers, position: &cache.position + count })
    }

    fn max_length(&self) -> Option<usize> {
        self.wpe.weight.shape().first().copied()
    }

    fn vocabulary_size(&self) -> Option<usize> {
        self.wte.weight.shape().first().copied()
    }
}

impl Gpt2Block {
    fn new(key: Key, config: &Gpt2Config) -> Gpt2Block {
        let Gpt2Config { width, heads, layers, dropout, .. } = *config;
        let [attn, attn_proj, fc, mlp_proj] = key.split();
        let linear = |key, n_in, n_out, deviation| {
            nn::Linear::with_weight(normal(key, [n_in, n_out], deviation))
        };
        let residual = 0.02 / (2.0 * layers as f64).sqrt();
        let drop = nn::Dropout::new(dropout);
        Gpt2Block {
            ln_1: norm(config),
            attn: Gpt2Attention {
                c_attn: linear(attn, width, 3 * width, 0.02),
                c_proj: linear(attn_proj, width, width, residual),
                heads,
                drop: drop.clone(),
                implementation: nn::AttentionImplementation::Auto,
            },
            ln_2: norm(config),
            mlp: Gpt2Mlp {
                c_fc: linear(fc, width, 4 * width, 0.02),
                c_proj: linear(mlp_proj, 4 * width, width, residual),
                drop,
            },
        }
    }

    fn forward(&self, x: &Array, key: Option<Key>) -> Array {
        let [attn_key, mlp_key] = split_key(key);
        let attn = || x + self.attn.forward(&self.ln_1.forward(x), attn_key);
        let x = named_scope("attn", attn);
        named_scope("mlp", || &x + self.mlp.forward(&self.ln_2.forward(&x), mlp_key))
    }

    fn decode(&self, x: &Array, past: (Array, Array), start: &Array) -> (Array, (Array, Array)) {
        let (y, past) = self.attn.decode(&self.ln_1.forward(x), past, start);
        let x = x + y;
        (&x + self.mlp.forward(&self.ln_2.forward(&x), None), past)
    }
}

impl Gpt2Attention {
    fn forward(&self, x: &Array, key: Option<Key>) -> Array {
        let [queries, keys, values] = self.project(x);
        let options = AttentionOptions {
            is_causal: true,
            implementation: self.implementation,
            ..AttentionOptions::default()
        };
        if !options.uses_flash(&queries, &keys, &values) {
            return self.attend(&queries, &keys, &values, &zeros(([], DType::I32)), key);
        }
        let [dropout_key, result_key] = split_key(key);
        let options = FlashAttentionOptions {
            is_causal: true,
            dropout_rate: self.drop.rate.get(),
            dropout_key,
            ..FlashAttentionOptions::default()
        };
        let mixed = flash_attention_with(&queries, &keys, &values, &options);
        let y = self.c_proj.forward(&reshape(&mixed, x.shape()));
        self.drop.forward(&y, result_key)
    }

    /// Attends to the tokens `x`, which begin at position `start`, and to the earlier ones.
    fn decode(&self, x: &Array, past: (Array, Array), start: &Array) -> (Array, (Array, Array)) {
        let [queries, keys, values] = self.project(x);
        let keys = dynamic_update_slice_in_dim(&past.0, &keys, start, 1);
        let values = dynamic_update_slice_in_dim(&past.1, &values, start, 1);
        (self.attend(&queries, &keys, &values, start, None), (keys, values))
    }

    /// Returns queries, keys and values, `[b, t, heads, h]` each.
    fn project(&self, x: &Array) -> [Array; 3] {
        let [b, t, width] = x.dims();
        let projected = split(&self.c_attn.forward(x), 3, -1);
        [0, 1, 2].map(|i| reshape(&projected[i], [b, t, self.heads, width / self.heads]))
    }

    /// Causal attention of queries that begin at position `start`.
    fn attend(
        &self,
        queries: &Array,
        keys: &Array,
        values: &Array,
        start: &Array,
        key: Option<Key>,
    ) -> Array {
        let ([b, t, n, h], [_, s, _, _]) = (queries.dims(), keys.dims());
        let [weights_key, result_key] = split_key(key);
        let scores = einsum("bqnh,bknh->bnqk", [queries, keys]).astype(DType::F32);
        let position = broadcasted_iota(DType::I32, [t, s], 0) + start;
        let visible = le(broadcasted_iota(DType::I32, [t, s], 1), position);
        let scores = where_(&visible, scores / (h as f64).sqrt(), f64::NEG_INFINITY);
        let weights = softmax(&scores, -1).astype(values.dtype());
        let weights = self.drop.forward(&weights, weights_key);
        let mixed = einsum("bnqk,bknh->bqnh", [&weights, values]);
        let y = self.c_proj.forward(&reshape(&mixed, [b, t, n * h]));
        self.drop.forward(&y, result_key)
    }
}

impl Gpt2Mlp {
    fn forward(&self, x: &Array, key: Option<Key>) -> Array {
        self.drop.forward(&self.c_proj.forward(&gelu(self.c_fc.forward(x))), key)
    }
}

/// Splits a key in two. Without dropout there is no key to split.
fn split_key(key: Option<Key>) -> [Option<Key>; 2] {
    key.map_or([None, None], |key| key.split().map(Some))
}

fn normal(key: Key, shape: [usize; 2], deviation: f64) -> Array {
    nn::init::normal(key, shape, deviation)
}

fn norm(config: &Gpt2Config) -> nn::LayerNorm {
    nn::LayerNorm { epsilon: config.epsilon.into(), ..nn::LayerNorm::new(config.width) }
}
