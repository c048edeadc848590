//! The BERT encoder: embeddings of tokens, positions and segments, bidirectional transformer
//! layers, and either the pooler from pretraining or a mean over tokens for sentence similarity.
//!
//! Devlin, Chang, Lee, Toutanova: BERT: Pre-training of deep bidirectional transformers for
//! language understanding (2018). Reimers, Gurevych: Sentence-BERT: Sentence embeddings using
//! Siamese BERT-networks (2019).

use oxidax::prelude::*;

/// The sizes of a model and its options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    pub vocabulary: usize,
    /// The longest text, in tokens.
    pub positions: usize,
    /// Number of segments: tokens of a first and of a second text.
    pub kinds: usize,
    pub width: usize,
    pub heads: usize,
    pub layers: usize,
    /// Width between the two linear maps of a layer.
    pub inner: usize,
    pub activation: nn::Activation,
    pub epsilon: f64,
    pub pooling: Pooling,
    /// The model has a pooler.
    pub pooler: bool,
}

/// Reduction of the vectors of a text's tokens to one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The first token.
    First,
}

/// Texts padded to one length: tokens `i32[b, t]`, segments `i32[b, t]` and lengths `i32[b]`.
pub type Texts = (Array, Array, Array);

#[derive(Tree, Clone, Debug)]
pub struct Bert {
    pub embeddings: Embeddings,
    pub layers: Vec<Layer>,
    /// The pooler from pretraining: `tanh(pooler.forward(first_token))`. For task heads.
    pub pooler: Option<nn::Linear>,
    #[tree(static)]
    pub pooling: Pooling,
}

#[derive(Tree, Clone, Debug)]
pub struct Embeddings {
    pub word: nn::Embedding,
    pub position: nn::Embedding,
    pub token_type: nn::Embedding,
    pub norm: nn::LayerNorm,
}

#[derive(Tree, Clone, Debug)]
pub struct Layer {
    pub attention: SelfAttention,
    pub up: nn::Linear,
    pub down: nn::Linear,
    pub norm: nn::LayerNorm,
    #[tree(static)]
    pub activation: nn::Activation,
}

#[derive(Tree, Clone, Debug)]
pub struct SelfAttention {
    pub query: nn::Linear,
    pub key: nn::Linear,
    pub value: nn::Linear,
    pub output: nn::Linear,
    pub norm: nn::LayerNorm,
    #[tree(static)]
    pub heads: usize,
}

impl Bert {
    /// Initializes weights as BERT does: normal with deviation 0.02, biases zero.
    pub fn new(key: random::Key, config: &Config) -> Bert {
        let [word, position, token_type, layers, pooler] = key.split();
        let table = |key, n| nn::Embedding::with_weight(normal(key, [n, config.width]));
        let layers = random::split(layers, config.layers);
        Bert {
            embeddings: Embeddings {
                word: table(word, config.vocabulary),
                position: table(position, config.positions),
                token_type: table(token_type, config.kinds),
                norm: norm(config),
            },
            layers: layers.into_iter().map(|key| Layer::new(key, config)).collect(),
            pooler: config.pooler.then(|| linear(pooler, config.width, config.width)),
            pooling: config.pooling,
        }
    }

    /// Returns the last layer's vectors of all tokens, `[b, t, width]`.
    pub fn forward(&self, (tokens, kinds, lengths): &Texts) -> Array {
        let x = self.embeddings.forward(tokens, kinds);
        self.layers.iter().fold(x, |x, layer| layer.forward(&x, lengths))
    }

    /// Returns one vector of length 1 per text, `f32[b, width]`. The dot product of two vectors is
    /// their cosine similarity. A row without tokens is zero.
    pub fn embed(&self, texts: &Texts) -> Array {
        let hidden = self.forward(texts).astype(DType::F32);
        let [_, t, _] = hidden.dims();
        let lengths = &texts.2;
        let vectors = match self.pooling {
            Pooling::First => hidden.index(i![.., 0]),
            Pooling::Mean => {
                let counts = lt(iota(DType::I32, t), lengths.expand_dims(-1));
                let sums = einsum("btc,bt->bc", [&hidden, &counts.astype(DType::F32)]);
                sums / maximum(lengths, 1).expand_dims(-1).astype(DType::F32)
            }
        };
        let squares = (&vectors * &vectors).sum_axes(axes(-1).keepdims());
        // As PyTorch's `normalize`.
        vectors / maximum(sqrt(&squares), 1e-12)
    }
}

impl Embeddings {
    fn forward(&self, tokens: &Array, kinds: &Array) -> Array {
        let [_, t] = tokens.dims();
        let [positions, _] = self.position.weight.dims();
        assert!(t <= positions, "{t} tokens; the model has {positions} positions");
        let x = self.word.forward(tokens) + self.token_type.forward(kinds);
        self.norm.forward(&(x + self.position.weight.index(i![..t as isize])))
    }
}

impl Layer {
    fn new(key: random::Key, config: &Config) -> Layer {
        let &Config { width, inner, heads, activation, .. } = config;
        let [query, key, value, output, up, down] = key.split();
        Layer {
            attention: SelfAttention {
                query: linear(query, width, width),
                key: linear(key, width, width),
                value: linear(value, width, width),
                output: linear(output, width, width),
                norm: norm(config),
                heads,
            },
            up: linear(up, width, inner),
            down: linear(down, inner, width),
            norm: norm(config),
            activation,
        }
    }

    /// Maps `[b, t, width]` to the same shape. Unlike in GPT-2, the norms follow the residual sums.
    fn forward(&self, x: &Array, lengths: &Array) -> Array {
        let x = self.attention.forward(x, lengths);
        let inner = self.activation.forward(&self.up.forward(&x));
        self.norm.forward(&(&x + self.down.forward(&inner)))
    }
}

impl SelfAttention {
    fn forward(&self, x: &Array, lengths: &Array) -> Array {
        let [b, t, c] = x.dims();
        let split_heads =
            |layer: &nn::Linear| reshape(&layer.forward(x), [b, t, self.heads, c / self.heads]);
        // Masks the padding.
        let options =
            AttentionOptions { key_lengths: Some(lengths.clone()), ..AttentionOptions::default() };
        let (query, key, value) =
            (split_heads(&self.query), split_heads(&self.key), split_heads(&self.value));
        let mixed = dot_product_attention_with(&query, &key, &value, &options);
        self.norm.forward(&(x + self.output.forward(&reshape(&mixed, [b, t, c]))))
    }
}

fn normal(key: random::Key, shape: [usize; 2]) -> Array {
    nn::init::normal(key, shape, DType::F32, 0.02)
}

fn linear(key: random::Key, n_in: usize, n_out: usize) -> nn::Linear {
    nn::Linear::with_weight(normal(key, [n_in, n_out]))
}

fn norm(config: &Config) -> nn::LayerNorm {
    nn::LayerNorm { epsilon: config.epsilon.into(), ..nn::LayerNorm::new(config.width) }
}
