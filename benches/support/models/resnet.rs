//! ResNet-50 on `[b, height, width, 3]`, as `examples/imagenet` of Flax has it: strides in the 3×3 convolutions.
//!
//! He, Zhang, Ren, Sun: Deep residual learning for image recognition (2015).

use super::{Model, drawn, numbers, size, trained};
use anyhow::{Context as _, Result};
use oxidax::prelude::*;

const STAGES: [usize; 4] = [3, 4, 6, 3];
const CLASSES: usize = 1000;

/// A convolution, and the normalization of what comes out.
#[derive(Tree, Clone)]
struct Unit {
    conv: nn::Conv,
    norm: nn::BatchNorm,
}

/// 1×1 to fewer channels, 3×3, and 1×1 to four times as many, beside a shortcut.
#[derive(Tree, Clone)]
struct Bottleneck {
    units: Vec<Unit>,
    shortcut: Option<Unit>,
}

#[derive(Tree, Clone)]
struct ResNet {
    stem: Unit,
    blocks: Vec<Bottleneck>,
    head: nn::Linear,
}

/// The running statistics of each normalization, in the order in which `forward` comes by.
type Stats = Vec<nn::BatchStats>;

impl Unit {
    fn new(key: &random::Key, window: usize, stride: usize, n_in: usize, n_out: usize) -> Unit {
        let conv = nn::Conv::new(key.clone(), &[window, window], n_in, n_out).without_bias();
        let norm = nn::BatchNorm { momentum: 0.9.into(), ..nn::BatchNorm::new(n_out) };
        Unit { conv: nn::Conv { strides: vec![stride; 2], ..conv }, norm }
    }

    fn forward(&self, x: &Array, before: &[nn::BatchStats], after: &mut Stats) -> Array {
        let y = self.conv.forward(x);
        let (y, stats) = self.norm.forward_train(&y, &before[after.len()]);
        after.push(stats);
        y
    }
}

impl Bottleneck {
    fn new(key: random::Key, stride: usize, n_in: usize, n: usize) -> Bottleneck {
        let [a, b, c, d] = key.split();
        let units = vec![
            Unit::new(&a, 1, 1, n_in, n),
            Unit::new(&b, 3, stride, n, n),
            Unit::new(&c, 1, 1, n, 4 * n),
        ];
        let shortcut = (n_in != 4 * n).then(|| Unit::new(&d, 1, stride, n_in, 4 * n));
        Bottleneck { units, shortcut }
    }

    fn forward(&self, x: &Array, before: &[nn::BatchStats], after: &mut Stats) -> Array {
        let y = relu(&self.units[0].forward(x, before, after));
        let y = relu(&self.units[1].forward(&y, before, after));
        let y = self.units[2].forward(&y, before, after);
        relu(&match &self.shortcut {
            Some(shortcut) => y + shortcut.forward(x, before, after),
            None => y + x,
        })
    }
}

impl ResNet {
    fn new(key: random::Key) -> ResNet {
        let [stem, blocks, head] = key.split();
        let mut keys = random::split(blocks, STAGES.iter().sum()).into_iter();
        let (mut made, mut n_in) = (Vec::new(), 64);
        for (stage, &n_blocks) in STAGES.iter().enumerate() {
            for (block, key) in keys.by_ref().take(n_blocks).enumerate() {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                made.push(Bottleneck::new(key, stride, n_in, 64 << stage));
                n_in = 4 * (64 << stage);
            }
        }
        let stem = Unit::new(&stem, 7, 2, 3, 64);
        let padding = Padding::Explicit(vec![(3, 3); 2]);
        let stem = Unit { conv: nn::Conv { padding, ..stem.conv }, ..stem };
        ResNet { stem, blocks: made, head: nn::Linear::new(head, n_in, CLASSES) }
    }

    fn stats(&self) -> Stats {
        let of_block = |block: &Bottleneck| {
            let units = block.units.iter().chain(&block.shortcut);
            units.map(|unit| unit.conv.weight.shape()[3]).collect::<Vec<_>>()
        };
        let channels = std::iter::once(64).chain(self.blocks.iter().flat_map(of_block));
        channels.map(nn::BatchStats::new).collect()
    }

    /// Logits `[b, classes]`, and the statistics after them.
    fn forward(&self, x: &Array, before: &[nn::BatchStats]) -> (Array, Stats) {
        let mut after = Stats::new();
        let x = relu(&self.stem.forward(x, before, &mut after));
        let mut x = max_pool(&x, &[3, 3], &[2, 2], Padding::Same);
        for block in &self.blocks {
            x = block.forward(&x, before, &mut after);
        }
        (self.head.forward(&x.mean_axes([1, 2])), after)
    }
}

/// How many images of which height and width.
#[derive(Clone, Copy, serde::Serialize)]
pub(crate) struct Sizes {
    pub(crate) batch: usize,
    pub(crate) side: usize,
}

/// A model that learns the same batch at each call, with momentum.
pub(crate) fn training(Sizes { batch, side }: Sizes) -> Result<Model> {
    let optimizer = optim::momentum(0.1, 0.9);
    let model = drawn::tree(ResNet::new)?;
    let (parameters, stats, state) = (size(&model), model.stats(), optimizer.init(&model));
    let images =
        Array::from_slice(&numbers::numbers(batch * side * side * 3), [batch, side, side, 3])?;
    let labels = Array::from_slice(&numbers::integers(batch, CLASSES), [batch])?;
    let step =
        jit(move |model: ResNet, stats: Stats, state: optim::State, batch: (Array, Array)| {
            let loss = |model: &ResNet| {
                let (logits, stats) = model.forward(&batch.0, &stats);
                (nn::softmax_cross_entropy(&logits, &batch.1).mean(), stats)
            };
            let ((loss, stats), gradients) = value_and_grad_aux(loss)(&model);
            let (updates, state) = optimizer.update(&gradients, &state, &model);
            (optim::apply_updates(&model, &updates), stats, state, loss)
        })
        .name("train_step");
    let batch = (images, labels);
    let call = trained((model, stats, state), move |(model, stats, state)| {
        let result = step.call(model, stats, state, &batch).context("a step of ResNet-50")?;
        Ok(((result.0, result.1, result.2), result.3))
    });
    Ok(Model { parameters, call })
}
