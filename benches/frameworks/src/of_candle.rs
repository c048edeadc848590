//! The models in candle.

pub(crate) mod gpt2;

use crate::numbers::{integers, leaf, lengths};
use crate::{Bert, COMPARED, EPSILON, LEARNING_RATE, MLP, MLP_BATCH, Model, WEIGHT_DECAY, images};
use anyhow::Result;
use candle_core::{D, DType, Device, Tensor, Var};
use candle_nn::{
    AdamW, Embedding, LayerNorm, Linear, Module as _, Optimizer as _, ParamsAdamW, loss, ops,
};

/// The weights of a linear layer: `[in, out]` in the other frameworks, `[out, in]` in candle.
fn weight(n_in: usize, n_out: usize) -> Result<Tensor> {
    let weight = Tensor::from_vec(leaf("weight", &[n_in, n_out]), (n_in, n_out), &Device::Cpu)?;
    Ok(weight.t()?.contiguous()?)
}

/// The training step of the MLP: loss, gradient, AdamW.
pub(crate) fn mlp() -> Result<Model> {
    let (mut layers, mut variables) = (Vec::new(), Vec::new());
    for sizes in MLP.windows(2) {
        let weight = Var::from_tensor(&weight(sizes[0], sizes[1])?)?;
        let bias = Var::zeros(sizes[1], DType::F32, &Device::Cpu)?;
        layers.push(Linear::new(weight.as_tensor().clone(), Some(bias.as_tensor().clone())));
        variables.extend([weight, bias]);
    }
    let parameters = variables.iter().map(|variable| variable.elem_count()).sum();
    let how = ParamsAdamW {
        lr: LEARNING_RATE,
        weight_decay: WEIGHT_DECAY,
        eps: 1e-8,
        ..ParamsAdamW::default()
    };
    let mut optimizer = AdamW::new(variables, how)?;
    let (pixels, labels) = images();
    let images = Tensor::from_vec(pixels, (MLP_BATCH, MLP[0]), &Device::Cpu)?;
    let labels = labels.into_iter().map(u32::from).collect();
    let labels = Tensor::from_vec(labels, MLP_BATCH, &Device::Cpu)?;
    let call = Box::new(move || {
        let mut x = images.clone();
        for (at, layer) in layers.iter().enumerate() {
            // The approximation of GELU with tanh.
            x = if at == 0 { layer.forward(&x)? } else { layer.forward(&x.gelu()?)? };
        }
        let loss = loss::cross_entropy(&x, &labels)?;
        optimizer.backward_step(&loss)?;
        Ok(vec![f64::from(loss.to_scalar::<f32>()?)])
    });
    Ok(Model { parameters, call })
}

struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    after_attention: LayerNorm,
    widen: Linear,
    narrow: Linear,
    after_narrow: LayerNorm,
}

fn linear(n_in: usize, n_out: usize) -> Result<Linear> {
    Ok(Linear::new(weight(n_in, n_out)?, Some(Tensor::zeros(n_out, DType::F32, &Device::Cpu)?)))
}

fn norm(width: usize) -> Result<LayerNorm> {
    let scale = Tensor::ones(width, DType::F32, &Device::Cpu)?;
    Ok(LayerNorm::new(scale, Tensor::zeros(width, DType::F32, &Device::Cpu)?, EPSILON))
}

fn embedding(n: usize, width: usize) -> Result<Embedding> {
    let table = Tensor::from_vec(leaf("weight", &[n, width]), (n, width), &Device::Cpu)?;
    Ok(Embedding::new(table, width))
}

impl Layer {
    fn new(sizes: &Bert) -> Result<Layer> {
        let square = || linear(sizes.width, sizes.width);
        Ok(Layer {
            query: square()?,
            key: square()?,
            value: square()?,
            out: square()?,
            after_attention: norm(sizes.width)?,
            widen: linear(sizes.width, sizes.inner)?,
            narrow: linear(sizes.inner, sizes.width)?,
            after_narrow: norm(sizes.width)?,
        })
    }

    /// Attention as in `candle-transformers`; `mask` is added to the scores.
    fn forward(&self, x: &Tensor, mask: &Tensor, heads: usize) -> Result<Tensor> {
        let (b, t, width) = x.dims3()?;
        let parted = |linear: &Linear| -> Result<Tensor> {
            let y = linear.forward(x)?.reshape((b, t, heads, width / heads))?;
            Ok(y.transpose(1, 2)?.contiguous()?)
        };
        let (query, key, value) = (parted(&self.query)?, parted(&self.key)?, parted(&self.value)?);
        let scores = (query.matmul(&key.t()?)? / ((width / heads) as f64).sqrt())?;
        let weights = ops::softmax(&scores.broadcast_add(mask)?, D::Minus1)?;
        let found =
            weights.matmul(&value)?.transpose(1, 2)?.contiguous()?.flatten_from(D::Minus2)?;
        let x = self.after_attention.forward(&(x + self.out.forward(&found)?)?)?;
        let inner = self.widen.forward(&x)?.gelu_erf()?;
        Ok(self.after_narrow.forward(&(&x + self.narrow.forward(&inner)?)?)?)
    }
}

/// Embeddings of sentences.
pub(crate) fn bert(sizes: Bert) -> Result<Model> {
    let Bert { batch, context, width, heads, .. } = sizes;
    let words = embedding(sizes.vocabulary, width)?;
    let positions = embedding(sizes.positions, width)?;
    let kinds = embedding(2, width)?;
    let first = norm(width)?;
    let layers: Vec<Layer> =
        (0..sizes.layers).map(|_| Layer::new(&sizes)).collect::<Result<_>>()?;
    let tables = sizes.vocabulary + sizes.positions + 2 + 2;
    let of_layer =
        4 * (width + 1) * width + (width + 1) * sizes.inner + (sizes.inner + 1) * width + 4 * width;
    let parameters = tables * width + sizes.layers * of_layer;

    let tokens = integers(batch * context, sizes.vocabulary).into_iter().map(|x| x as u32);
    let tokens = Tensor::from_vec(tokens.collect(), (batch, context), &Device::Cpu)?;
    let places = Tensor::arange(0, context as u32, &Device::Cpu)?;
    let seen = lengths(batch, context).into_iter();
    let seen = seen.flat_map(|n| (0..context).map(move |at| f32::from(u8::from(at < n))));
    let seen = Tensor::from_vec(seen.collect(), (batch, context), &Device::Cpu)?;
    let mask = ((seen.ones_like()? - &seen)? * f64::from(f32::MIN))?;
    let (mask, counted) = (mask.reshape((batch, 1, 1, context))?, seen.unsqueeze(2)?);
    let call = Box::new(move || {
        let x = words.forward(&tokens)?.broadcast_add(&positions.forward(&places)?)?;
        let kind = kinds.embeddings().narrow(0, 0, 1)?;
        let mut x = first.forward(&x.broadcast_add(&kind)?)?;
        for layer in &layers {
            x = layer.forward(&x, &mask, heads)?;
        }
        let mean = x.broadcast_mul(&counted)?.sum(1)?.broadcast_div(&counted.sum(1)?)?;
        let length = mean.sqr()?.sum_keepdim(1)?.sqrt()?;
        let embeddings = mean.broadcast_div(&length)?.flatten_all()?.to_vec1::<f32>()?;
        Ok(embeddings.into_iter().take(COMPARED).map(f64::from).collect())
    });
    Ok(Model { parameters, call })
}
