//! ResNet-50 of burn's layers, with strides in the 3×3 convolutions.

use super::Fill;
use crate::numbers::{integers, numbers};
use crate::{Model, ResNet};
use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::optim::momentum::MomentumConfig;
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor, TensorData};

const CLASSES: usize = 1000;
const LEARNING_RATE: f64 = 0.1;

/// A convolution followed by batch normalization.
#[derive(Module, Debug)]
struct ConvNorm {
    conv: Conv2d,
    norm: BatchNorm,
}

impl ConvNorm {
    fn new(channels: [usize; 2], window: usize, stride: usize, device: &Device) -> ConvNorm {
        let n = window / 2;
        let conv = Conv2dConfig::new(channels, [window, window])
            .with_stride([stride, stride])
            .with_padding(PaddingConfig2d::Explicit(n, n, n, n))
            .with_bias(false);
        ConvNorm { conv: conv.init(device), norm: BatchNormConfig::new(channels[1]).init(device) }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.norm.forward(self.conv.forward(x))
    }
}

/// Convolutions 1×1, 3×3 and 1×1 with a shortcut.
#[derive(Module, Debug)]
struct Bottleneck {
    convs: Vec<ConvNorm>,
    shortcut: Option<ConvNorm>,
}

impl Bottleneck {
    fn new(n_in: usize, features: usize, stride: usize, device: &Device) -> Bottleneck {
        let n_out = 4 * features;
        let is_changed = stride != 1 || n_in != n_out;
        Bottleneck {
            convs: vec![
                ConvNorm::new([n_in, features], 1, 1, device),
                ConvNorm::new([features, features], 3, stride, device),
                ConvNorm::new([features, n_out], 1, 1, device),
            ],
            shortcut: is_changed.then(|| ConvNorm::new([n_in, n_out], 1, stride, device)),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let y = relu(self.convs[0].forward(x.clone()));
        let y = self.convs[2].forward(relu(self.convs[1].forward(y)));
        let x = match &self.shortcut {
            Some(shortcut) => shortcut.forward(x),
            None => x,
        };
        relu(y + x)
    }
}

#[derive(Module, Debug)]
struct Network {
    stem: ConvNorm,
    pool: MaxPool2d,
    blocks: Vec<Bottleneck>,
    head: Linear,
}

impl Network {
    fn new(device: &Device) -> Network {
        let (mut blocks, mut n_in) = (Vec::new(), 64);
        for (stage, count) in [3, 4, 6, 3].into_iter().enumerate() {
            let features = 64 << stage;
            for at in 0..count {
                let stride = if stage > 0 && at == 0 { 2 } else { 1 };
                blocks.push(Bottleneck::new(n_in, features, stride, device));
                n_in = 4 * features;
            }
        }
        let pool = MaxPool2dConfig::new([3, 3])
            .with_strides([2, 2])
            .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1));
        let network = Network {
            stem: ConvNorm::new([3, 64], 7, 2, device),
            pool: pool.init(),
            blocks,
            head: LinearConfig::new(n_in, CLASSES).init(device),
        };
        network.map(&mut Fill::default())
    }

    /// Returns the number of running means and variances, which burn counts as parameters.
    fn statistics(&self) -> usize {
        let convs = self.blocks.iter().flat_map(|block| block.convs.iter().chain(&block.shortcut));
        convs.chain([&self.stem]).map(|conv| 2 * conv.norm.gamma.dims()[0]).sum()
    }

    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let x = self.pool.forward(relu(self.stem.forward(images)));
        let x = self.blocks.iter().fold(x, |x, block| block.forward(x));
        self.head.forward(x.mean_dim(3).mean_dim(2).flatten::<2>(1, 3))
    }
}

/// The training step: loss, gradient, momentum.
pub(crate) fn training(ResNet { batch, side }: ResNet) -> Model {
    let device = Device::flex().autodiff();
    let network = Network::new(&device);
    let parameters = network.num_params() - network.statistics();
    let momentum = MomentumConfig::new().with_momentum(0.9).with_dampening(0.0);
    let mut optimizer = SgdConfig::new().with_momentum(Some(momentum)).init();
    let images = numbers(batch * side * side * 3);
    let images = TensorData::new(images, [batch, side, side, 3]);
    let images = Tensor::<4>::from_data(images, &device).permute([0, 3, 1, 2]);
    let labels = TensorData::new(integers(batch, CLASSES), [batch]);
    let labels = Tensor::<1, Int>::from_data(labels, &device);
    let cross_entropy = CrossEntropyLossConfig::new().init(&device);
    let mut carried = Some(network);
    let call = Box::new(move || {
        let network = carried.take().expect("a model is put back after each step");
        let loss = cross_entropy.forward(network.forward(images.clone()), labels.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        carried = Some(optimizer.step(LEARNING_RATE, network, gradients));
        Ok(vec![f64::from(loss.into_scalar::<f32>())])
    });
    Model { parameters, call }
}
