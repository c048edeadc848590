//! GPT-2: token and position embeddings, transformer blocks, and a head that shares the embedding.
//!
//! Fields are named as in Hugging Face's files, so a leaf's path is its name in the file.
//!
//! Radford, Wu, Child, Luan, Amodei, Sutskever: Language models are unsupervised multitask learners
//! (2019).

use oxidax::prelude::*;
use oxidax::random::Key;

/// The sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    pub vocabulary: usize,
    /// The longest text, in tokens.
    pub positions: usize,
    pub width: usize,
    pub heads: usize,
    pub layers: usize,
    pub epsilon: f64,
    /// Dropout rate in training.
    pub dropout: f64,
}

/// Name, layers, heads and width of the published models.
pub const PUBLISHED: [(&str, usize, usize, usize); 4] = [
    ("gpt2", 12, 12, 768),
    ("gpt2-medium", 24, 16, 1024),
    ("gpt2-large", 36, 20, 1280),
    ("gpt2-xl", 48, 25, 1600),
];

impl Config {
    /// Returns the sizes of a published model.
    pub fn published(name: &str) -> Option<Config> {
        let &(_, layers, heads, width) = PUBLISHED.iter().find(|size| size.0 == name)?;
        let (vocabulary, positions) = (50257, 1024);
        Some(Config { vocabulary, positions, width, heads, layers, epsilon: 1e-5, dropout: 0.0 })
    }
}

#[derive(Tree, Clone, Debug)]
pub struct Gpt2 {
    pub wte: nn::Embedding,
    pub wpe: nn::Embedding,
    pub h: nn::Layers<Block>,
    pub ln_f: nn::LayerNorm,
    pub drop: nn::Dropout,
}

#[derive(Tree, Clone, Debug)]
pub struct Block {
    pub ln_1: nn::LayerNorm,
    pub attn: Attention,
    pub ln_2: nn::LayerNorm,
    pub mlp: Mlp,
}

#[derive(Tree, Clone, Debug)]
pub struct Attention {
    /// Projects to queries, keys and values, side by side: `[width, 3 · width]`.
    pub c_attn: nn::Linear,
    pub c_proj: nn::Linear,
    #[tree(static)]
    pub heads: usize,
    pub drop: nn::Dropout,
}

#[derive(Tree, Clone, Debug)]
pub struct Mlp {
    pub c_fc: nn::Linear,
    pub c_proj: nn::Linear,
    pub drop: nn::Dropout,
}

/// Keys and values of earlier tokens for each layer, `[b, length, heads, h]`.
#[derive(Tree, Clone, Debug)]
pub struct Cache {
    layers: nn::Layers<(Array, Array)>,
    /// The number of tokens in the cache, `i32[]`.
    position: Array,
}

impl Gpt2 {
    /// Initializes weights as nanoGPT does: normal with deviation 0.02, and `0.02 / √(2 · layers)`
    /// in front of the residual stream.
    pub fn new(key: Key, config: &Config) -> Gpt2 {
        let [tokens, positions, layers] = key.split();
        let table = |key, n| nn::Embedding::with_weight(normal(key, [n, config.width], 0.02));
        Gpt2 {
            wte: table(tokens, config.vocabulary),
            wpe: table(positions, config.positions),
            h: nn::Layers::new(layers, config.layers, |key| Block::new(key, config)),
            ln_f: norm(config),
            drop: nn::Dropout::new(config.dropout),
        }
    }

    /// Returns logits `[b, t, vocabulary]` for the token after each of `i32[b, t]`. A key enables
    /// dropout.
    pub fn forward(&self, tokens: &Array, key: Option<Key>) -> Array {
        let [_, t] = tokens.dims();
        self.expect_positions(t);
        let [embedding_key, layers_key] = split_key(key);
        let x = self.wte.forward(tokens) + self.wpe.weight.index(i![..t as isize]);
        let x = self.drop.forward(&x, embedding_key);
        let keys = self.h.split_key(layers_key);
        let (x, _) = self.h.scan(x, &keys, |x, block, key| (block.forward(&x, key), ()));
        self.wte.attend(&self.ln_f.forward(&x))
    }

    /// Returns an empty cache for `b` texts of up to `length` tokens.
    pub fn cache(&self, b: usize, length: usize) -> Cache {
        self.expect_positions(length);
        let layers = self.h.map(|Block { attn, .. }| {
            let [width, _] = attn.c_proj.weight.dims();
            let empty =
                zeros([b, length, attn.heads, width / attn.heads], attn.c_proj.weight.dtype());
            (empty.clone(), empty)
        });
        Cache { layers, position: zeros([], DType::I32) }
    }

    /// Reads tokens `i32[b, t]`. Returns logits `[b, vocabulary]` for the next token, and the cache
    /// with these tokens.
    pub fn decode(&self, tokens: &Array, cache: &Cache) -> (Array, Cache) {
        let ([_, t], start) = (tokens.dims(), &cache.position);
        let x = self.wte.forward(tokens) + self.wpe.forward(&(iota(DType::I32, t) + start));
        let decode = |x: Array, block: &Block, past| block.decode(&x, past, start);
        let (x, layers) = self.h.scan(x, &cache.layers, decode);
        let last = self.ln_f.forward(&x.index(i![.., -1]));
        (self.wte.attend(&last), Cache { layers, position: start + t as i32 })
    }

    fn expect_positions(&self, length: usize) {
        let [positions, _] = self.wpe.weight.dims();
        assert!(length <= positions, "{length} tokens; the model has {positions} positions");
    }
}

impl Block {
    fn new(key: Key, config: &Config) -> Block {
        let Config { width, heads, layers, dropout, .. } = *config;
        let [attn, attn_proj, fc, mlp_proj] = key.split();
        let linear = |key, n_in, n_out, deviation| {
            nn::Linear::with_weight(normal(key, [n_in, n_out], deviation))
        };
        let residual = 0.02 / (2.0 * layers as f64).sqrt();
        let drop = nn::Dropout::new(dropout);
        Block {
            ln_1: norm(config),
            attn: Attention {
                c_attn: linear(attn, width, 3 * width, 0.02),
                c_proj: linear(attn_proj, width, width, residual),
                heads,
                drop: drop.clone(),
            },
            ln_2: norm(config),
            mlp: Mlp {
                c_fc: linear(fc, width, 4 * width, 0.02),
                c_proj: linear(mlp_proj, 4 * width, width, residual),
                drop,
            },
        }
    }

    fn forward(&self, x: &Array, key: Option<Key>) -> Array {
        let [attn_key, mlp_key] = split_key(key);
        let x = x + self.attn.forward(&self.ln_1.forward(x), attn_key);
        &x + self.mlp.forward(&self.ln_2.forward(&x), mlp_key)
    }

    fn decode(&self, x: &Array, past: (Array, Array), start: &Array) -> (Array, (Array, Array)) {
        let (y, past) = self.attn.decode(&self.ln_1.forward(x), past, start);
        let x = x + y;
        (&x + self.mlp.forward(&self.ln_2.forward(&x), None), past)
    }
}

impl Attention {
    fn forward(&self, x: &Array, key: Option<Key>) -> Array {
        let [queries, keys, values] = self.project(x);
        self.attend(&queries, &keys, &values, &zeros([], DType::I32), key)
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

impl Mlp {
    fn forward(&self, x: &Array, key: Option<Key>) -> Array {
        self.drop.forward(&self.c_proj.forward(&gelu(self.c_fc.forward(x))), key)
    }
}

/// Splits a key in two. Without dropout there is no key to split.
fn split_key(key: Option<Key>) -> [Option<Key>; 2] {
    key.map_or([None, None], |key| key.split().map(Some))
}

fn normal(key: Key, shape: [usize; 2], deviation: f64) -> Array {
    nn::init::normal(key, shape, DType::F32, deviation)
}

fn norm(config: &Config) -> nn::LayerNorm {
    nn::LayerNorm { epsilon: config.epsilon.into(), ..nn::LayerNorm::new(config.width) }
}
