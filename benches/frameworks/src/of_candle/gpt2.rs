//! GPT-2 of candle's layers.
//!
//! The layer norm of `candle_nn` has no derivative, so training uses `layer_norm_slow`, which has
//! one. candle does not clip gradients and decays all parameters.

use crate::numbers::{integers, leaf};
use crate::{COMPARED, Gpt2, LEARNING_RATE, Model};
use anyhow::{Context as _, Result};
use candle_core::{D, DType, Device, Tensor, Var};
use candle_nn::kv_cache::KvCache;
use candle_nn::{AdamW, Embedding, Linear, Module as _, Optimizer as _, ParamsAdamW, loss, ops};

const EPSILON: f32 = 1e-5;

/// The parameters, which are collected as layers are created.
#[derive(Default)]
struct Variables(Vec<Var>);

impl Variables {
    fn add(&mut self, values: &Tensor) -> Result<Tensor> {
        let variable = Var::from_tensor(values)?;
        let tensor = variable.as_tensor().clone();
        self.0.push(variable);
        Ok(tensor)
    }

    fn linear(&mut self, n_in: usize, n_out: usize) -> Result<Linear> {
        let weight = self.add(&super::weight(n_in, n_out)?)?;
        let bias = self.add(&Tensor::zeros(n_out, DType::F32, &Device::Cpu)?)?;
        Ok(Linear::new(weight, Some(bias)))
    }

    fn norm(&mut self, width: usize) -> Result<Norm> {
        let scale = self.add(&Tensor::ones(width, DType::F32, &Device::Cpu)?)?;
        let bias = self.add(&Tensor::zeros(width, DType::F32, &Device::Cpu)?)?;
        Ok(Norm { scale, bias })
    }

    fn embedding(&mut self, n: usize, width: usize) -> Result<Embedding> {
        let table = Tensor::from_vec(leaf("weight", &[n, width]), (n, width), &Device::Cpu)?;
        Ok(Embedding::new(self.add(&table)?, width))
    }
}

struct Norm {
    scale: Tensor,
    bias: Tensor,
}

impl Norm {
    fn forward(&self, x: &Tensor, trains: bool) -> Result<Tensor> {
        let norm = if trains { ops::layer_norm_slow } else { ops::layer_norm };
        Ok(norm(x, &self.scale, &self.bias, EPSILON)?)
    }
}

struct Block {
    ln_1: Norm,
    c_attn: Linear,
    attn_proj: Linear,
    ln_2: Norm,
    c_fc: Linear,
    mlp_proj: Linear,
}

impl Block {
    /// `mask` is added to the scores. Without a cache, the block is differentiable.
    fn forward(
        &self,
        x: &Tensor,
        heads: usize,
        mask: &Tensor,
        cache: Option<&mut KvCache>,
    ) -> Result<Tensor> {
        let (b, t, width) = x.dims3()?;
        let trains = cache.is_none();
        let fused = self.c_attn.forward(&self.ln_1.forward(x, trains)?)?;
        let part = |at: usize| -> Result<Tensor> {
            let part = fused.narrow(D::Minus1, at * width, width)?;
            let part = part.reshape((b, t, heads, width / heads))?.transpose(1, 2)?;
            Ok(part.contiguous()?)
        };
        let (query, mut keys, mut values) = (part(0)?, part(1)?, part(2)?);
        if let Some(cache) = cache {
            (keys, values) = cache.append(&keys, &values)?;
            (keys, values) = (keys.contiguous()?, values.contiguous()?);
        }
        let scores = (query.matmul(&keys.t()?)? / ((width / heads) as f64).sqrt())?;
        let weights = ops::softmax(&scores.broadcast_add(mask)?, D::Minus1)?;
        let attended = weights.matmul(&values)?.transpose(1, 2)?.contiguous()?;
        let x = (x + self.attn_proj.forward(&attended.flatten_from(D::Minus2)?)?)?;
        let inner = self.c_fc.forward(&self.ln_2.forward(&x, trains)?)?.gelu()?;
        Ok((&x + self.mlp_proj.forward(&inner)?)?)
    }
}

struct Network {
    wte: Embedding,
    wpe: Embedding,
    blocks: Vec<Block>,
    ln_f: Norm,
    heads: usize,
}

impl Network {
    fn new(sizes: &Gpt2, variables: &mut Variables) -> Result<Network> {
        let width = sizes.width;
        let wte = variables.embedding(sizes.vocabulary, width)?;
        let wpe = variables.embedding(sizes.positions, width)?;
        let mut block = || -> Result<Block> {
            Ok(Block {
                ln_1: variables.norm(width)?,
                c_attn: variables.linear(width, 3 * width)?,
                attn_proj: variables.linear(width, width)?,
                ln_2: variables.norm(width)?,
                c_fc: variables.linear(width, 4 * width)?,
                mlp_proj: variables.linear(4 * width, width)?,
            })
        };
        let blocks = (0..sizes.layers).map(|_| block()).collect::<Result<_>>()?;
        Ok(Network { wte, wpe, blocks, ln_f: variables.norm(width)?, heads: sizes.heads })
    }

    /// Returns the logits `[b, t, vocabulary]` of tokens `[b, t]`, which begin at `start`.
    fn forward(
        &self,
        tokens: &Tensor,
        start: usize,
        mut caches: Option<&mut Vec<KvCache>>,
    ) -> Result<Tensor> {
        let (_, t) = tokens.dims2()?;
        let positions = Tensor::arange(start as u32, (start + t) as u32, &Device::Cpu)?;
        let mask = (0..t).flat_map(|row| {
            (0..start + t).map(move |at| if at <= start + row { 0.0 } else { f32::MIN })
        });
        let mask = Tensor::from_vec(mask.collect(), (1, 1, t, start + t), &Device::Cpu)?;
        let mut x = self.wte.forward(tokens)?.broadcast_add(&self.wpe.forward(&positions)?)?;
        for (at, block) in self.blocks.iter().enumerate() {
            let cache = caches.as_mut().map(|caches| &mut caches[at]);
            x = block.forward(&x, self.heads, &mask, cache)?;
        }
        let trains = caches.is_none();
        let x = if trains { x } else { x.narrow(1, t - 1, 1)? };
        let x = self.ln_f.forward(&x.contiguous()?, trains)?;
        Ok(x.broadcast_matmul(&self.wte.embeddings().t()?)?)
    }
}

/// The training step: loss, gradient, AdamW.
pub(crate) fn training(sizes: Gpt2) -> Result<Model> {
    let mut variables = Variables::default();
    let network = Network::new(&sizes, &mut variables)?;
    let parameters = variables.0.iter().map(|variable| variable.elem_count()).sum();
    let how = ParamsAdamW {
        lr: LEARNING_RATE,
        beta2: 0.99,
        eps: 1e-8,
        weight_decay: 0.1,
        ..ParamsAdamW::default()
    };
    let mut optimizer = AdamW::new(variables.0, how)?;
    let Gpt2 { batch, context, vocabulary, .. } = sizes;
    let text: Vec<u32> =
        integers(batch * (context + 1), vocabulary).into_iter().map(|x| x as u32).collect();
    let text = Tensor::from_vec(text, (batch, context + 1), &Device::Cpu)?;
    let tokens = text.narrow(1, 0, context)?.contiguous()?;
    let targets = text.narrow(1, 1, context)?.flatten_all()?;
    let call = Box::new(move || {
        let logits = network.forward(&tokens, 0, None)?.flatten(0, 1)?;
        let loss = loss::cross_entropy(&logits, &targets)?;
        optimizer.backward_step(&loss)?;
        Ok(vec![f64::from(loss.to_scalar::<f32>()?)])
    });
    Ok(Model { parameters, call })
}

/// Greedy generation with candle's cache of keys and values.
pub(crate) fn decoding(sizes: Gpt2) -> Result<Model> {
    let mut variables = Variables::default();
    let mut network = Network::new(&sizes, &mut variables)?;
    let parameters = variables.0.iter().map(|variable| variable.elem_count()).sum();
    // The tables are looked up without recording derivatives.
    network.wte = Embedding::new(network.wte.embeddings().detach(), sizes.width);
    let (prompt, n) = (sizes.prompt.context("a prompt")?, sizes.tokens.context("tokens")?);
    let first: Vec<u32> =
        integers(prompt, sizes.vocabulary).into_iter().map(|x| x as u32).collect();
    let first = Tensor::from_vec(first, (1, prompt), &Device::Cpu)?;
    let call = Box::new(move || {
        let mut caches = vec![KvCache::new(2, prompt + n); sizes.layers];
        let (mut tokens, mut start, mut chosen) = (first.clone(), 0, Vec::new());
        // As the other sides, reads the last token too.
        for step in 0..=n {
            let logits = network.forward(&tokens, start, Some(&mut caches))?;
            start += tokens.dim(1)?;
            let token = logits.flatten_all()?.argmax(0)?.to_scalar::<u32>()?;
            if step < n {
                chosen.push(f64::from(token));
            }
            tokens = Tensor::from_vec(vec![token], (1, 1), &Device::Cpu)?;
        }
        chosen.truncate(COMPARED);
        Ok(chosen)
    });
    Ok(Model { parameters, call })
}
