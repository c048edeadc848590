//! GPT-2: token and position embeddings, a stack of transformer blocks, and a head that shares the embedding.
//!
//! Fields are called as in Hugging Face's files, so that a leaf's path is its name there.
//!
//! Radford, Wu, Child, Luan, Amodei, Sutskever: Language models are unsupervised multitask learners (2019).

use nn::Layers;
use oxidax::prelude::*;

/// The sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Config {
    pub(crate) vocabulary: usize,
    /// The longest text that it can look at.
    pub(crate) positions: usize,
    pub(crate) width: usize,
    pub(crate) heads: usize,
    pub(crate) layers: usize,
    pub(crate) epsilon: f64,
    /// The chance that training drops an element.
    pub(crate) dropout: f64,
}

/// The names and sizes of the published models: layers, heads, width.
pub(crate) const PUBLISHED: [(&str, usize, usize, usize); 4] = [
    ("gpt2", 12, 12, 768),
    ("gpt2-medium", 24, 16, 1024),
    ("gpt2-large", 36, 20, 1280),
    ("gpt2-xl", 48, 25, 1600),
];

#[derive(Tree, Clone, Debug)]
pub(crate) struct Gpt2 {
    pub(crate) wte: nn::Embedding,
    pub(crate) wpe: nn::Embedding,
    pub(crate) h: Layers<Block>,
    pub(crate) ln_f: nn::LayerNorm,
    pub(crate) drop: nn::Dropout,
}

#[derive(Tree, Clone, Debug)]
pub(crate) struct Block {
    pub(crate) ln_1: nn::LayerNorm,
    pub(crate) attn: Attention,
    pub(crate) ln_2: nn::LayerNorm,
    pub(crate) mlp: Mlp,
}

#[derive(Tree, Clone, Debug)]
pub(crate) struct Attention {
    /// To queries, keys and values side by side, `[width, 3 · width]`.
    pub(crate) c_attn: nn::Linear,
    pub(crate) c_proj: nn::Linear,
    #[tree(static)]
    pub(crate) heads: usize,
    pub(crate) drop: nn::Dropout,
}

#[derive(Tree, Clone, Debug)]
pub(crate) struct Mlp {
    pub(crate) c_fc: nn::Linear,
    pub(crate) c_proj: nn::Linear,
    pub(crate) drop: nn::Dropout,
}

/// What a model has seen: keys and values of each layer, `[b, length, heads, h]`, and how many of them are filled.
#[derive(Tree, Clone, Debug)]
pub(crate) struct Cache {
    layers: Layers<(Array, Array)>,
    /// `i32[]`
    position: Array,
}

impl Config {
    /// A published model, by name.
    pub(crate) fn published(name: &str) -> Option<Config> {
        let &(_, layers, heads, width) = PUBLISHED.iter().find(|size| size.0 == name)?;
        let (vocabulary, positions) = (50257, 1024);
        Some(Config { vocabulary, positions, width, heads, layers, epsilon: 1e-5, dropout: 0.0 })
    }
}

impl Gpt2 {
    /// Random weights as nanoGPT draws them: deviation 0.02, in front of the residual stream `0.02 / √(2 · layers)`.
    pub(crate) fn new(key: random::Key, config: &Config) -> Gpt2 {
        let [tokens, positions, layers] = key.split();
        let table = |key, n| {
            nn::Embedding::with_weight(nn::init::normal(key, [n, config.width], DType::F32, 0.02))
        };
        Gpt2 {
            wte: table(tokens, config.vocabulary),
            wpe: table(positions, config.positions),
            h: Layers::new(layers, config.layers, |key| Block::new(key, config)),
            ln_f: norm(config),
            drop: nn::Dropout::new(config.dropout),
        }
    }

    /// Logits `[b, t, vocabulary]` of tokens `i32[b, t]`: what each token says of the next. A key says that the
    /// model trains, and drops elements.
    pub(crate) fn forward(&self, tokens: &Array, key: Option<random::Key>) -> Array {
        let [_, t] = tokens.dims();
        self.expect_room(t);
        let [drop_key, layers_key] = split_key(key);
        let x = self.wte.forward(tokens) + self.wpe.weight.index(i![..t as isize]);
        let x = self.drop.forward(&x, drop_key);
        let keys = self.h.split_key(layers_key);
        let (x, _) = self.h.scan(x, &keys, |x, block, key| (block.forward(&x, key), ()));
        self.wte.attend(&self.ln_f.forward(&x))
    }

    /// An empty cache for `b` texts of up to `length` tokens.
    pub(crate) fn cache(&self, b: usize, length: usize) -> Cache {
        self.expect_room(length);
        let empty = |block: &Block| {
            let attn = &block.attn;
            let width = *attn.c_proj.weight.shape().last().expect("a matrix has axes");
            let shape = [b, length, attn.heads, width / attn.heads];
            (zeros(shape, attn.c_proj.weight.dtype()), zeros(shape, attn.c_proj.weight.dtype()))
        };
        Cache { layers: self.h.map(empty), position: zeros([], DType::I32) }
    }

    /// Logits `[b, vocabulary]` of the token after the next ones, `i32[b, t]`, and the cache with these in it.
    pub(crate) fn decode(&self, tokens: &Array, cache: &Cache) -> (Array, Cache) {
        let [_, t] = tokens.dims();
        let from = &cache.position;
        let x = self.wte.forward(tokens) + self.wpe.forward(&(iota(DType::I32, t) + from));
        let (x, layers) =
            self.h.scan(x, &cache.layers, |x, block, past| block.decode(&x, past, from));
        let last = self.ln_f.forward(&x.index(i![.., -1]));
        (self.wte.attend(&last), Cache { layers, position: from + t as i32 })
    }

    fn expect_room(&self, length: usize) {
        let [positions, _] = self.wpe.weight.dims();
        assert!(length <= positions, "{length} tokens; the model has {positions} positions");
    }
}

impl Block {
    fn new(key: random::Key, config: &Config) -> Block {
        let Config { width, heads, layers, .. } = *config;
        let keys: [random::Key; 4] = key.split();
        let linear = |key: &random::Key, n_in, n_out, deviation| {
            let weight = nn::init::normal(key.clone(), [n_in, n_out], DType::F32, deviation);
            nn::Linear::with_weight(weight)
        };
        let drop = nn::Dropout::new(config.dropout);
        let last = 0.02 / (2.0 * layers as f64).sqrt();
        Block {
            ln_1: norm(config),
            attn: Attention {
                c_attn: linear(&keys[0], width, 3 * width, 0.02),
                c_proj: linear(&keys[1], width, width, last),
                heads,
                drop: drop.clone(),
            },
            ln_2: norm(config),
            mlp: Mlp {
                c_fc: linear(&keys[2], width, 4 * width, 0.02),
                c_proj: linear(&keys[3], 4 * width, width, last),
                drop,
            },
        }
    }

    /// Applies the block to `[b, t, width]`. With a key it drops elements.
    fn forward(&self, x: &Array, key: Option<random::Key>) -> Array {
        let [weights, attn, mlp] = split_key(key);
        let x = x + self.attn.forward(&self.ln_1.forward(x), [weights, attn]);
        &x + self.mlp.forward(&self.ln_2.forward(&x), mlp)
    }

    fn decode(&self, x: &Array, past: (Array, Array), from: &Array) -> (Array, (Array, Array)) {
        let (y, past) = self.attn.decode(&self.ln_1.forward(x), past, from);
        let x = x + y;
        (&x + self.mlp.forward(&self.ln_2.forward(&x), None), past)
    }
}

impl Attention {
    fn forward(&self, x: &Array, drop: [Option<random::Key>; 2]) -> Array {
        let [query, keys, values] = self.parts(x);
        self.attend(&query, &keys, &values, &zeros([], DType::I32), drop)
    }

    /// The same, with keys and values of earlier tokens; `x` begins at position `from`.
    fn decode(&self, x: &Array, past: (Array, Array), from: &Array) -> (Array, (Array, Array)) {
        let [query, keys, values] = self.parts(x);
        let keys = dynamic_update_slice_in_dim(&past.0, &keys, from, 1);
        let values = dynamic_update_slice_in_dim(&past.1, &values, from, 1);
        (self.attend(&query, &keys, &values, from, [None, None]), (keys, values))
    }

    /// Queries, keys and values `[b, t, heads, h]`.
    fn parts(&self, x: &Array) -> [Array; 3] {
        let [b, t, c] = x.dims();
        let parts = split(&self.c_attn.forward(x), 3, -1);
        [0, 1, 2].map(|part| reshape(&parts[part], [b, t, self.heads, c / self.heads]))
    }

    /// What queries from position `from` on find among the keys up to their own; dropped are some of what they
    /// look at, and of what they find.
    fn attend(
        &self,
        query: &Array,
        keys: &Array,
        values: &Array,
        from: &Array,
        [of_weights, of_result]: [Option<random::Key>; 2],
    ) -> Array {
        let ([b, t, n, h], [_, s, _, _]) = (query.dims(), keys.dims());
        let scores = einsum("bqnh,bknh->bnqk", [query, keys]).astype(DType::F32);
        let row = broadcasted_iota(DType::I32, [t, s], 0) + from;
        let seen = le(broadcasted_iota(DType::I32, [t, s], 1), row);
        let scores = where_(&seen, scores / (h as f64).sqrt(), f64::NEG_INFINITY);
        let weights = softmax(&scores, -1).astype(values.dtype());
        let weights = self.drop.forward(&weights, of_weights);
        let mixed = einsum("bnqk,bknh->bqnh", [&weights, values]);
        let y = self.c_proj.forward(&reshape(&mixed, [b, t, n * h]));
        self.drop.forward(&y, of_result)
    }
}

impl Mlp {
    fn forward(&self, x: &Array, key: Option<random::Key>) -> Array {
        self.drop.forward(&self.c_proj.forward(&gelu(&self.c_fc.forward(x))), key)
    }
}

fn norm(config: &Config) -> nn::LayerNorm {
    nn::LayerNorm { epsilon: config.epsilon.into(), ..nn::LayerNorm::new(config.width) }
}

/// Splits a key, if there is one.
fn split_key<const N: usize>(key: Option<random::Key>) -> [Option<random::Key>; N] {
    match key {
        Some(key) => key.split().map(Some),
        None => [const { None }; N],
    }
}
