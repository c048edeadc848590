//! An encoder as BERT is one, that makes embeddings of sentences: the mean of their tokens, of length 1.
//!
//! Devlin, Chang, Lee, Toutanova: BERT (2018); Reimers, Gurevych: Sentence-BERT (2019).

use super::{Model, drawn, numbers, size};
use anyhow::{Context as _, Result};
use oxidax::prelude::*;

/// How large a model is, and how many sentences of how many tokens it is given.
#[derive(Clone, Copy, serde::Serialize)]
pub(crate) struct Sizes {
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) width: usize,
    pub(crate) inner: usize,
    pub(crate) vocabulary: usize,
    pub(crate) positions: usize,
    pub(crate) batch: usize,
    pub(crate) context: usize,
}

/// MiniLM of 6 layers, as published for embeddings of sentences.
pub(crate) const MINI_LM: Sizes = Sizes {
    layers: 6,
    heads: 12,
    width: 384,
    inner: 1536,
    vocabulary: 30522,
    positions: 512,
    batch: 16,
    context: 128,
};

/// How many numbers of the first sentence's embedding are compared.
const COMPARED: usize = 8;
const EPSILON: f64 = 1e-12;

#[derive(Tree, Clone)]
pub(crate) struct Bert {
    words: nn::Embedding,
    positions: nn::Embedding,
    kinds: nn::Embedding,
    norm: nn::LayerNorm,
    layers: Vec<Layer>,
}

#[derive(Tree, Clone)]
struct Layer {
    attention: nn::MultiHeadAttention,
    after_attention: nn::LayerNorm,
    widen: nn::Linear,
    narrow: nn::Linear,
    after_narrow: nn::LayerNorm,
}

fn norm(width: usize) -> nn::LayerNorm {
    nn::LayerNorm { epsilon: EPSILON.into(), ..nn::LayerNorm::new(width) }
}

impl Layer {
    fn new(key: random::Key, sizes: &Sizes) -> Layer {
        let [attention, widen, narrow] = key.split();
        Layer {
            attention: nn::MultiHeadAttention::new(attention, sizes.width, sizes.heads),
            after_attention: norm(sizes.width),
            widen: nn::Linear::new(widen, sizes.width, sizes.inner),
            narrow: nn::Linear::new(narrow, sizes.inner, sizes.width),
            after_narrow: norm(sizes.width),
        }
    }

    fn forward(&self, x: &Array, seen: &Array) -> Array {
        let found = self.attention.attend(x, x, Some(seen));
        let x = self.after_attention.forward(&(x + found));
        let inner = gelu_exact(&self.widen.forward(&x));
        self.after_narrow.forward(&(&x + self.narrow.forward(&inner)))
    }
}

impl Bert {
    fn new(key: random::Key, sizes: &Sizes) -> Bert {
        let [words, positions, kinds, layers] = key.split();
        let layers = random::split(layers, sizes.layers);
        Bert {
            words: nn::Embedding::new(words, sizes.vocabulary, sizes.width),
            positions: nn::Embedding::new(positions, sizes.positions, sizes.width),
            kinds: nn::Embedding::new(kinds, 2, sizes.width),
            norm: norm(sizes.width),
            layers: layers.into_iter().map(|key| Layer::new(key, sizes)).collect(),
        }
    }

    /// Embeddings `[b, width]` of sentences, tokens `i32[b, t]` of which `seen`, `bool[b, t]`, count.
    fn forward(&self, tokens: &Array, seen: &Array) -> Array {
        let [b, t] = tokens.dims();
        let kind = self.kinds.weight.index(i![0]);
        let x = self.words.forward(tokens) + self.positions.weight.index(i![..t as isize]) + kind;
        let mask = reshape(seen, [b, 1, 1, t]);
        let x = self.layers.iter().fold(self.norm.forward(&x), |x, layer| layer.forward(&x, &mask));
        let counted = reshape(&seen.astype(DType::F32), [b, t, 1]);
        let mean = (x * &counted).sum_axes(1) / counted.sum_axes(1);
        let length = sqrt(&(&mean * &mean).sum_axes(axes(-1).keepdims()));
        mean / length
    }
}

/// A model that embeds the same sentences at each call.
pub(crate) fn inference(sizes: Sizes) -> Result<Model> {
    let Sizes { batch, context, .. } = sizes;
    let model = drawn::tree(move |key| Bert::new(key, &sizes))?;
    let parameters = size(&model);
    let tokens = numbers::integers(batch * context, sizes.vocabulary);
    let tokens = Array::from_slice(&tokens, [batch, context])?;
    let lengths = numbers::lengths(batch, context);
    let seen: Vec<bool> =
        lengths.iter().flat_map(|&n| (0..context).map(move |at| at < n)).collect();
    let seen = Array::from_slice(&seen, [batch, context])?;
    let embed = jit(|model: Bert, tokens: Array, seen: Array| model.forward(&tokens, &seen));
    let embed = embed.name("embed");
    let call = Box::new(move || {
        let embeddings = embed.call(&model, &tokens, &seen).context("embedding sentences")?;
        let first = embeddings.to_vec::<f32>()?;
        Ok(first.iter().take(COMPARED).map(|&x| f64::from(x)).collect())
    });
    Ok(Model { parameters, call })
}
