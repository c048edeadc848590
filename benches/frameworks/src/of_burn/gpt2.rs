//! GPT-2 of burn's transformer.
//!
//! burn clips the gradient of each parameter alone, and the optimizer decays all parameters.

use super::Fill;
use crate::numbers::integers;
use crate::{COMPARED, Gpt2, LEARNING_RATE, Model};
use anyhow::{Context as _, Result};
use burn::module::Module;
use burn::nn::activation::ActivationConfig;
use burn::nn::attention::generate_autoregressive_mask;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::transformer::{
    TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig};
use burn::optim::grad_clipping::GradientClippingConfig;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Device, Int, Tensor, TensorData};

const EPSILON: f64 = 1e-5;

#[derive(Module, Debug)]
struct Network {
    wte: Embedding,
    wpe: Embedding,
    blocks: TransformerEncoder,
    ln_f: LayerNorm,
}

impl Network {
    fn new(sizes: &Gpt2, device: &Device) -> Network {
        let width = sizes.width;
        let blocks = TransformerEncoderConfig::new(width, 4 * width, sizes.heads, sizes.layers)
            .with_norm_first(true)
            .with_dropout(0.0)
            .with_activation(ActivationConfig::GeluApproximate)
            .with_layer_norm_eps(EPSILON);
        let network = Network {
            wte: EmbeddingConfig::new(sizes.vocabulary, width).init(device),
            wpe: EmbeddingConfig::new(sizes.positions, width).init(device),
            blocks: blocks.init(device),
            ln_f: LayerNormConfig::new(width).with_epsilon(EPSILON).init(device),
        };
        network.map(&mut Fill { fuses_projections: true, ..Fill::default() })
    }

    fn embed(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        let [_, t] = tokens.dims();
        let positions = Tensor::<1, Int>::arange(0..t as i64, &tokens.device()).unsqueeze::<2>();
        self.wte.forward(tokens) + self.wpe.forward(positions)
    }

    fn logits(&self, x: Tensor<3>) -> Tensor<2> {
        let x = self.ln_f.forward(x).flatten::<2>(0, 1);
        x.matmul(self.wte.weight.val().transpose())
    }
}

fn tokens(values: Vec<i32>, shape: [usize; 2], device: &Device) -> Tensor<2, Int> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// The training step: loss, gradient, AdamW.
pub(crate) fn training(sizes: Gpt2) -> Model {
    let device = Device::flex().autodiff();
    let network = Network::new(&sizes, &device);
    let parameters = network.num_params();
    let mut optimizer = AdamWConfig::new()
        .with_beta_2(0.99)
        .with_epsilon(1e-8)
        .with_weight_decay(0.1)
        .with_grad_clipping(Some(GradientClippingConfig::Norm(1.0)))
        .init();
    let Gpt2 { batch, context, vocabulary, .. } = sizes;
    let text = integers(batch * (context + 1), vocabulary);
    let text = tokens(text, [batch, context + 1], &device);
    let inputs = text.clone().slice([0..batch, 0..context]);
    let targets = text.slice([0..batch, 1..context + 1]).flatten::<1>(0, 1);
    let mask = generate_autoregressive_mask(batch, context, &device);
    let cross_entropy = CrossEntropyLossConfig::new().init(&device);
    let mut carried = Some(network);
    let call = Box::new(move || {
        let network = carried.take().expect("a model is put back after each step");
        let input = TransformerEncoderInput::new(network.embed(inputs.clone()));
        let x = network.blocks.forward(input.mask_attn(mask.clone()));
        let loss = cross_entropy.forward(network.logits(x), targets.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        carried = Some(optimizer.step(LEARNING_RATE, network, gradients));
        Ok(vec![f64::from(loss.into_scalar::<f32>())])
    });
    Model { parameters, call }
}

/// Greedy generation with burn's cache, which also keeps the results of layers.
pub(crate) fn decoding(sizes: Gpt2) -> Result<Model> {
    let device = Device::flex();
    let network = Network::new(&sizes, &device);
    let parameters = network.num_params();
    let (prompt, n) = (sizes.prompt.context("a prompt")?, sizes.tokens.context("tokens")?);
    let first = integers(prompt, sizes.vocabulary);
    let call = Box::new(move || {
        let mut cache = network.blocks.new_autoregressive_cache();
        let mut text = first.clone();
        // As the other sides, reads the last token too.
        for _ in 0..=n {
            let t = text.len();
            let x = network.embed(tokens(text.clone(), [1, t], &device));
            let mask = generate_autoregressive_mask(1, t, &device);
            let input = TransformerEncoderInput::new(x).mask_attn(mask);
            let x = network.blocks.forward_autoregressive_inference(input, &mut cache);
            let last = x.slice([0..1, t - 1..t, 0..sizes.width]);
            text.push(network.logits(last).argmax(1).into_scalar::<i32>());
        }
        Ok(text[prompt..prompt + COMPARED].iter().map(|&token| f64::from(token)).collect())
    });
    Ok(Model { parameters, call })
}
