//! BERT: embeddings of tokens, positions and kinds, a stack of transformer layers that look both ways, and on top
//! either the pooler that it was trained with or the mean that makes sentences comparable.
//!
//! Devlin, Chang, Lee, Toutanova: BERT: Pre-training of deep bidirectional transformers for language understanding
//! (2018). Reimers, Gurevych: Sentence-BERT: Sentence embeddings using Siamese BERT-networks (2019).

use oxidax::prelude::*;

/// The sizes of a model, and what decides its formulas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Config {
    pub(crate) vocabulary: usize,
    /// The longest text that it can look at.
    pub(crate) positions: usize,
    /// How many kinds of tokens there are: those of a first text, those of a second.
    pub(crate) kinds: usize,
    pub(crate) width: usize,
    pub(crate) heads: usize,
    pub(crate) layers: usize,
    /// The width inside of a layer's two linear maps.
    pub(crate) inner: usize,
    pub(crate) activation: nn::Activation,
    pub(crate) epsilon: f64,
    pub(crate) pooling: Pooling,
    /// Whether the pooler's leaves are there.
    pub(crate) pooler: bool,
}

/// What becomes of a text's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pooling {
    /// Their mean.
    Mean,
    /// The first of them alone.
    First,
}

/// Texts, padded to one length: tokens `i32[b, t]`, their kinds `i32[b, t]`, and how many of them count `i32[b]`.
pub(crate) type Texts = (Array, Array, Array);

#[derive(Tree, Clone, Debug)]
pub(crate) struct Bert {
    pub(crate) embeddings: Embeddings,
    pub(crate) layers: Vec<Layer>,
    /// What training looked at the first token by, `tanh(pooler.forward(first))`; for heads of your own.
    pub(crate) pooler: Option<nn::Linear>,
    #[tree(static)]
    pub(crate) pooling: Pooling,
}

#[derive(Tree, Clone, Debug)]
pub(crate) struct Embeddings {
    pub(crate) word: nn::Embedding,
    pub(crate) position: nn::Embedding,
    pub(crate) token_type: nn::Embedding,
    pub(crate) norm: nn::LayerNorm,
}

#[derive(Tree, Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) attention: SelfAttention,
    pub(crate) up: nn::Linear,
    pub(crate) down: nn::Linear,
    pub(crate) norm: nn::LayerNorm,
    #[tree(static)]
    pub(crate) activation: nn::Activation,
}

#[derive(Tree, Clone, Debug)]
pub(crate) struct SelfAttention {
    pub(crate) query: nn::Linear,
    pub(crate) key: nn::Linear,
    pub(crate) value: nn::Linear,
    pub(crate) output: nn::Linear,
    pub(crate) norm: nn::LayerNorm,
    #[tree(static)]
    pub(crate) heads: usize,
}

impl Bert {
    /// Random weights as BERT draws them: deviation 0.02, biases zero.
    pub(crate) fn new(key: random::Key, config: &Config) -> Bert {
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

    /// What the last layer says of each token, `[b, t, width]`.
    pub(crate) fn forward(&self, (tokens, kinds, lengths): &Texts) -> Array {
        let x = self.embeddings.forward(tokens, kinds);
        self.layers.iter().fold(x, |x, layer| layer.forward(&x, lengths))
    }

    /// A vector of length 1 for each text, `[b, width]` in `f32`: the scalar product of two is their cosine. A row
    /// without tokens has zeros.
    pub(crate) fn embed(&self, texts: &Texts) -> Array {
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
        // As PyTorch's `normalize` has it.
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

    /// `[b, t, width]` of the same. Unlike GPT-2's, these layers normalize behind each sum, not in front.
    fn forward(&self, x: &Array, lengths: &Array) -> Array {
        let x = self.attention.forward(x, lengths);
        let inner = self.activation.forward(&self.up.forward(&x));
        self.norm.forward(&(&x + self.down.forward(&inner)))
    }
}

impl SelfAttention {
    fn forward(&self, x: &Array, lengths: &Array) -> Array {
        let [b, t, c] = x.dims();
        let parted =
            |layer: &nn::Linear| reshape(&layer.forward(x), [b, t, self.heads, c / self.heads]);
        // Nobody looks at the padding.
        let options =
            AttentionOptions { key_lengths: Some(lengths.clone()), ..AttentionOptions::default() };
        let (query, key, value) = (parted(&self.query), parted(&self.key), parted(&self.value));
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
