//! The two models that the recipes spread: a small GPT, and a perceptron of residual blocks. Neither knows of any mesh.

use oxidax::ops::Attention as Attending;
use oxidax::prelude::*;

/// What a model reads, and what it should say: tokens and those one place later, or images and labels.
pub(crate) type Batch = (Array, Array);

/// A model that is a stack of equal blocks, with something in front and something behind.
pub(crate) trait Model: Tree + Clone + Send + Sync + 'static {
    type Block: Tree + Clone + Send + Sync + 'static;

    /// What the first block gets: `[b, …, width]`.
    fn start(&self, input: &Array) -> Array;
    fn block(block: &Self::Block, x: &Array) -> Array;
    /// The mean cross entropy, in nats, of what the last block gave.
    fn finish(&self, x: &Array, target: &Array) -> Array;
    fn blocks(&self) -> &[Self::Block];
    /// The same with these blocks.
    fn with_blocks(self, blocks: Vec<Self::Block>) -> Self;

    fn loss(&self, (input, target): &Batch) -> Array {
        let x = self.start(input);
        let x = self.blocks().iter().fold(x, |x, block| Self::block(block, &x));
        self.finish(&x, target)
    }
}

/// The sizes of a GPT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) vocabulary: usize,
    pub(crate) positions: usize,
    pub(crate) width: usize,
    pub(crate) heads: usize,
    pub(crate) layers: usize,
}

/// A GPT whose blocks look up each other's tokens, and then do what `F` does with each.
#[derive(Tree, Clone, Debug)]
pub(crate) struct Gpt<F> {
    pub(crate) tokens: nn::Embedding,
    pub(crate) positions: nn::Embedding,
    pub(crate) blocks: Vec<Block<F>>,
    pub(crate) norm: nn::LayerNorm,
}

#[derive(Tree, Clone, Debug)]
pub(crate) struct Block<F> {
    pub(crate) norm_1: nn::LayerNorm,
    pub(crate) attention: Attention,
    pub(crate) norm_2: nn::LayerNorm,
    pub(crate) feed: F,
}

#[derive(Tree, Clone, Debug)]
pub(crate) struct Attention {
    pub(crate) query: nn::Linear,
    pub(crate) key: nn::Linear,
    pub(crate) value: nn::Linear,
    pub(crate) out: nn::Linear,
    #[tree(static)]
    pub(crate) heads: usize,
}

impl<F: Tree> Gpt<F> {
    /// Random weights of deviation 0.02; `feed` makes what stands behind the attention.
    pub(crate) fn with(key: random::Key, sizes: &Sizes, feed: impl Fn(random::Key) -> F) -> Gpt<F> {
        let Sizes { vocabulary, positions, width, heads, layers } = *sizes;
        let [tokens, places, blocks] = key.split();
        let table = |key, n| {
            nn::Embedding::with_weight(nn::init::normal(key, [n, width], DType::F32, 0.02))
        };
        let block = |key: random::Key| {
            let [query, keys, value, out, rest] = key.split();
            let linear = |key| nn::Linear::new(key, width, width);
            Block {
                norm_1: nn::LayerNorm::new(width),
                attention: Attention {
                    query: linear(query),
                    key: linear(keys),
                    value: linear(value),
                    out: linear(out),
                    heads,
                },
                norm_2: nn::LayerNorm::new(width),
                feed: feed(rest),
            }
        };
        Gpt {
            tokens: table(tokens, vocabulary),
            positions: table(places, positions),
            blocks: random::split(blocks, layers).into_iter().map(block).collect(),
            norm: nn::LayerNorm::new(width),
        }
    }

    /// `[b, t, width]` of tokens `i32[b, t]`, the first of which stands at position `from`.
    pub(crate) fn embed(&self, tokens: &Array, from: &Array) -> Array {
        let [_, t] = tokens.dims();
        self.tokens.forward(tokens) + self.positions.forward(&(iota(DType::I32, t) + from))
    }

    /// The mean cross entropy of the next tokens `i32[b, t]`, read off `[b, t, width]`.
    pub(crate) fn read(&self, x: &Array, next: &Array) -> Array {
        let logits = self.tokens.attend(&self.norm.forward(x));
        nn::softmax_cross_entropy_with_integer_labels(&logits, next).mean()
    }
}

impl<F: Tree> Block<F> {
    /// `[b, t, width]` of the same. `attend` mixes values by queries and keys, `[b, t, heads, h]` each.
    pub(crate) fn forward(
        &self,
        x: &Array,
        attend: impl Fn(&Array, &Array, &Array) -> Array,
        feed: impl FnOnce(&F, &Array) -> Array,
    ) -> Array {
        let x = x + self.attention.forward(&self.norm_1.forward(x), attend);
        &x + feed(&self.feed, &self.norm_2.forward(&x))
    }
}

impl Attention {
    fn forward(&self, x: &Array, attend: impl Fn(&Array, &Array, &Array) -> Array) -> Array {
        let [b, t, width] = x.dims();
        let heads =
            |layer: &nn::Linear| reshape(&layer.forward(x), [b, t, self.heads, width / self.heads]);
        let mixed = attend(&heads(&self.query), &heads(&self.key), &heads(&self.value));
        self.out.forward(&reshape(&mixed, [b, t, width]))
    }
}

/// Attention of every token to those up to itself.
pub(crate) fn causal(query: &Array, key: &Array, value: &Array) -> Array {
    let how = Attending { is_causal: true, ..Attending::default() };
    dot_product_attention(query, key, value, &how)
}

/// Two layers, `width` to `4 · width` and back.
pub(crate) fn feed_forward(key: random::Key, width: usize) -> nn::Mlp {
    let activation = nn::Activation::Gelu;
    nn::Mlp { activation, ..nn::Mlp::new(key, &[width, 4 * width, width]) }
}

impl Gpt<nn::Mlp> {
    pub(crate) fn new(key: random::Key, sizes: &Sizes) -> Gpt<nn::Mlp> {
        Gpt::with(key, sizes, |key| feed_forward(key, sizes.width))
    }
}

impl Model for Gpt<nn::Mlp> {
    type Block = Block<nn::Mlp>;

    fn start(&self, tokens: &Array) -> Array {
        self.embed(tokens, &zeros([], DType::I32))
    }

    fn block(block: &Block<nn::Mlp>, x: &Array) -> Array {
        block.forward(x, causal, nn::Mlp::forward)
    }

    fn finish(&self, x: &Array, next: &Array) -> Array {
        self.read(x, next)
    }

    fn blocks(&self) -> &[Block<nn::Mlp>] {
        &self.blocks
    }

    fn with_blocks(self, blocks: Vec<Block<nn::Mlp>>) -> Self {
        Gpt { blocks, ..self }
    }
}

/// A perceptron: a layer in, residual blocks, a layer out.
#[derive(Tree, Clone, Debug)]
pub(crate) struct Perceptron {
    first: nn::Linear,
    blocks: Vec<nn::Mlp>,
    last: nn::Linear,
}

impl Perceptron {
    /// From `pixels` to ten classes.
    pub(crate) fn new(key: random::Key, pixels: usize, width: usize, layers: usize) -> Perceptron {
        let [first, blocks, last] = key.split();
        let block = |key| feed_forward(key, width);
        Perceptron {
            first: nn::Linear::new(first, pixels, width),
            blocks: random::split(blocks, layers).into_iter().map(block).collect(),
            last: nn::Linear::new(last, width, 10),
        }
    }
}

impl Model for Perceptron {
    type Block = nn::Mlp;

    fn start(&self, images: &Array) -> Array {
        gelu(&self.first.forward(images))
    }

    fn block(block: &nn::Mlp, x: &Array) -> Array {
        x + block.forward(x)
    }

    fn finish(&self, x: &Array, labels: &Array) -> Array {
        nn::softmax_cross_entropy_with_integer_labels(&self.last.forward(x), labels).mean()
    }

    fn blocks(&self) -> &[nn::Mlp] {
        &self.blocks
    }

    fn with_blocks(self, blocks: Vec<nn::Mlp>) -> Self {
        Perceptron { blocks, ..self }
    }
}
