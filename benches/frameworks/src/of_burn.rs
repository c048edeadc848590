//! The models in burn, on `flex`, its backend for CPUs.

pub(crate) mod gpt2;
pub(crate) mod resnet;

use crate::numbers::{leaf, lengths};
use crate::{Bert, COMPARED, EPSILON, LEARNING_RATE, MLP, MLP_BATCH, Model, WEIGHT_DECAY, images};
use burn::module::{Module, ModuleMapper, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::transformer::{
    TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::activation::gelu_approximate;
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

/// Sets each parameter to the values that the other frameworks use.
#[derive(Default)]
pub(crate) struct Fill {
    name: String,
    /// The values of queries, keys and values are those of one projection to all three.
    fuses_projections: bool,
    /// The place of the module in this projection.
    column: Option<usize>,
}

impl Fill {
    /// Returns the elements of a parameter in the order of its layer.
    fn elements(&self, name: &str, shape: &[usize]) -> Vec<f32> {
        match (shape, self.column.filter(|_| self.fuses_projections)) {
            // The others store kernels as `[height, width, in, out]`.
            (&[n_out, n_in, height, width], _) => {
                let values = leaf(name, &[height, width, n_in, n_out]);
                let mut elements = Vec::with_capacity(values.len());
                for to in 0..n_out {
                    for from in 0..n_in {
                        let at = (0..height * width).map(|at| (at * n_in + from) * n_out + to);
                        elements.extend(at.map(|at| values[at]));
                    }
                }
                elements
            }
            (&[n_in, n_out], Some(column)) => {
                let values = leaf(name, &[n_in, 3 * n_out]);
                let rows = values.chunks_exact(3 * n_out);
                rows.flat_map(|row| &row[column * n_out..(column + 1) * n_out]).copied().collect()
            }
            _ => leaf(name, shape),
        }
    }
}

impl ModuleMapper for Fill {
    fn enter_module(&mut self, name: &str, _: &str) {
        match name {
            "gamma" => self.name = "scale".to_owned(),
            "beta" => self.name = "bias".to_owned(),
            "weight" | "bias" => self.name = name.to_owned(),
            module => {
                self.name = module.to_owned();
                self.column = ["query", "key", "value"].iter().position(|name| *name == module);
            }
        }
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = std::mem::take(&mut self.name);
        param.map(|old| {
            let shape = old.dims();
            let data = TensorData::new(self.elements(&name, &shape), shape);
            let new = Tensor::<D>::from_data(data, &old.device());
            if old.is_require_grad() { new.require_grad() } else { new }
        })
    }
}

fn filled<M: Module>(module: M) -> M {
    module.map(&mut Fill::default())
}

#[derive(Module, Debug)]
struct Mlp {
    layers: Vec<Linear>,
}

/// The training step of the MLP: loss, gradient, AdamW.
pub(crate) fn mlp() -> Model {
    let device = Device::flex().autodiff();
    let layer = |sizes: &[usize]| LinearConfig::new(sizes[0], sizes[1]).init(&device);
    let model = filled(Mlp { layers: MLP.windows(2).map(layer).collect() });
    let parameters = model.num_params();
    let how = AdamWConfig::new().with_epsilon(1e-8).with_weight_decay(WEIGHT_DECAY as f32);
    let mut optimizer = how.init();
    let (pixels, labels) = images();
    let images = TensorData::new(pixels, [MLP_BATCH, MLP[0]]);
    let images = Tensor::<2>::from_data(images, &device);
    let labels: Vec<i32> = labels.into_iter().map(i32::from).collect();
    let labels = Tensor::<1, Int>::from_data(TensorData::new(labels, [MLP_BATCH]), &device);
    let cross_entropy = CrossEntropyLossConfig::new().init(&device);
    let mut carried = Some(model);
    let call = Box::new(move || {
        let model = carried.take().expect("a model is put back after each step");
        let mut x = images.clone();
        for (at, layer) in model.layers.iter().enumerate() {
            x = if at == 0 { layer.forward(x) } else { layer.forward(gelu_approximate(x)) };
        }
        let loss = cross_entropy.forward(x, labels.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        carried = Some(optimizer.step(LEARNING_RATE, model, gradients));
        Ok(vec![f64::from(loss.into_scalar::<f32>())])
    });
    Model { parameters, call }
}

/// burn's encoder, after embeddings of words, positions and segments.
#[derive(Module, Debug)]
struct Encoder {
    words: Embedding,
    positions: Embedding,
    kinds: Embedding,
    norm: LayerNorm,
    encoder: TransformerEncoder,
}

/// Embeddings of sentences.
pub(crate) fn bert(sizes: Bert) -> Model {
    let device = Device::flex();
    let Bert { layers, heads, width, inner, vocabulary, positions, batch, context } = sizes;
    let table = |n| EmbeddingConfig::new(n, width).init(&device);
    let encoder = TransformerEncoderConfig::new(width, inner, heads, layers);
    let model = filled(Encoder {
        words: table(vocabulary),
        positions: table(positions),
        kinds: table(2),
        norm: LayerNormConfig::new(width).with_epsilon(EPSILON).init(&device),
        encoder: encoder.with_dropout(0.0).with_layer_norm_eps(EPSILON).init(&device),
    });
    let parameters = model.num_params();

    let integers = |values: Vec<i32>, shape: [usize; 2]| {
        Tensor::<2, Int>::from_data(TensorData::new(values, shape), &device)
    };
    let tokens = integers(crate::numbers::integers(batch * context, vocabulary), [batch, context]);
    let places = integers((0..context as i32).collect(), [1, context]);
    let kind = integers(vec![0], [1, 1]);
    let seen = lengths(batch, context).into_iter();
    let seen: Vec<bool> = seen.flat_map(|n| (0..context).map(move |at| at < n)).collect();
    let seen = TensorData::new(seen, [batch, context]);
    let seen = Tensor::<2, Bool>::from_data(seen, &device);
    let call = Box::new(move || {
        let x = model.words.forward(tokens.clone())
            + model.positions.forward(places.clone())
            + model.kinds.forward(kind.clone());
        let input = TransformerEncoderInput::new(model.norm.forward(x));
        let x = model.encoder.forward(input.mask_pad(seen.clone().bool_not()));
        let counted = seen.clone().float().unsqueeze_dim::<3>(2);
        let mean = (x * counted.clone()).sum_dim(1) / counted.sum_dim(1);
        let length = (mean.clone() * mean.clone()).sum_dim(2).sqrt();
        let embeddings = (mean / length).into_data().try_into_vec::<f32>();
        let embeddings = embeddings.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        Ok(embeddings.into_iter().take(COMPARED).map(f64::from).collect())
    });
    Model { parameters, call }
}
