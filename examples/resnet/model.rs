//! Residual networks: He, Zhang, Ren, Sun, "Deep residual learning for image recognition" (2015),
//! table 1, in torchvision's variant (v1.5).
//!
//! In a bottleneck the 3x3 convolution has the stride, not the first 1x1. Shortcuts that change the
//! shape are 1x1 convolutions. Channels come last: images are `[b, height, width, 3]`.

use oxidax::prelude::*;

/// The shapes of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Number of blocks in each of the four stages.
    pub blocks: [usize; 4],
    /// Blocks are bottlenecks of 1x1, 3x3 and 1x1 convolutions, instead of two 3x3 convolutions.
    pub bottleneck: bool,
    /// Channels after the stem. Each stage doubles them.
    pub width: usize,
    pub classes: usize,
    /// Initialize the scale of each block's last norm with zero.
    pub zero_init: bool,
}

/// Ratio of a bottleneck's output channels to its inner channels.
const EXPANSION: usize = 4;

impl Config {
    /// Returns the configuration of a published depth: 18, 34, 50, 101 or 152 layers.
    pub fn published(depth: usize, classes: usize) -> Option<Config> {
        let (blocks, bottleneck) = match depth {
            18 => ([2, 2, 2, 2], false),
            34 => ([3, 4, 6, 3], false),
            50 => ([3, 4, 6, 3], true),
            101 => ([3, 4, 23, 3], true),
            152 => ([3, 8, 36, 3], true),
            _ => return None,
        };
        Some(Config { blocks, bottleneck, width: 64, classes, zero_init: false })
    }
}

/// The statistics that batch norms use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norms {
    /// Statistics of the batch, which also update the running ones: training.
    Batch,
    /// Running statistics: evaluation.
    Running,
}

/// A network: its trunk, and the linear head from mean features to logits.
#[derive(Tree, Clone, Debug)]
pub struct ResNet {
    pub trunk: Trunk<ConvNorm>,
    pub head: nn::Linear,
}

/// One value per convolution of a network: the layer, or its running statistics.
#[derive(Tree, Clone, Debug)]
pub struct Trunk<T> {
    pub stem: T,
    pub stages: Vec<Vec<Block<T>>>,
}

/// One value per convolution of a block.
#[derive(Tree, Clone, Debug)]
pub struct Block<T> {
    pub main: Vec<T>,
    /// The shortcut convolution, if the block changes the shape.
    pub shortcut: Option<T>,
}

/// The running statistics of all norms, a tree beside the parameters.
pub type Stats = Trunk<nn::BatchStats>;

/// A convolution without bias, followed by a batch norm.
#[derive(Tree, Clone, Debug)]
pub struct ConvNorm {
    pub conv: nn::Conv,
    pub norm: nn::BatchNorm,
}

impl ConvNorm {
    /// Initializes a `k` by `k` convolution whose padding keeps the size at stride 1. Weights are
    /// normal with variance `2 / (k² n_out)`, which preserves the variance of gradients (He et al.,
    /// "Delving deep into rectifiers", 2015, equation 14).
    fn new(key: random::Key, k: usize, n_in: usize, n_out: usize, stride: usize) -> ConvNorm {
        let numbers = nn::init::VarianceScaling {
            scale: 2.0,
            fan: nn::init::Fan::Out,
            distribution: nn::init::Distribution::Normal,
        };
        let weight = nn::init::variance_scaling(key, [k, k, n_in, n_out], DType::F32, numbers);
        let conv = nn::Conv {
            strides: vec![stride; 2],
            padding: symmetric_padding(k),
            ..nn::Conv::with_weight(weight).without_bias()
        };
        let norm = nn::BatchNorm { momentum: 0.9.into(), ..nn::BatchNorm::new(n_out) };
        ConvNorm { conv, norm }
    }

    #[track_caller]
    fn forward(&self, x: &Array, stats: &nn::BatchStats, norms: Norms) -> (Array, nn::BatchStats) {
        let y = self.conv.forward(x);
        match norms {
            Norms::Batch => self.norm.forward_train(&y, stats),
            Norms::Running => (self.norm.forward_eval(&y, stats), stats.clone()),
        }
    }
}

/// Symmetric padding. At stride 2, `Same` would pad more at the end, as TensorFlow does.
fn symmetric_padding(k: usize) -> Padding {
    let side = (k / 2) as isize;
    Padding::Explicit(vec![(side, side); 2])
}

impl Block<ConvNorm> {
    fn new(
        keys: &mut impl Iterator<Item = random::Key>,
        config: &Config,
        n_in: usize,
        n: usize,
        stride: usize,
    ) -> Block<ConvNorm> {
        let mut layer = |k: usize, n_in: usize, n_out: usize, stride: usize| {
            ConvNorm::new(keys.next().expect("keys do not end"), k, n_in, n_out, stride)
        };
        let n_out = if config.bottleneck { EXPANSION * n } else { n };
        let mut main = match config.bottleneck {
            true => vec![layer(1, n_in, n, 1), layer(3, n, n, stride), layer(1, n, n_out, 1)],
            false => vec![layer(3, n_in, n, stride), layer(3, n, n, 1)],
        };
        let changes = stride != 1 || n_in != n_out;
        let shortcut = changes.then(|| layer(1, n_in, n_out, stride));
        if config.zero_init {
            let last = main.last_mut().expect("a block has layers");
            last.norm.scale = last.norm.scale.as_ref().map(zeros_like);
        }
        Block { main, shortcut }
    }

    #[track_caller]
    fn forward(
        &self,
        x: &Array,
        stats: &Block<nn::BatchStats>,
        norms: Norms,
    ) -> (Array, Block<nn::BatchStats>) {
        let (mut y, mut main) = (x.clone(), Vec::new());
        for (layer, stats) in self.main.iter().zip(&stats.main) {
            if !main.is_empty() {
                y = relu(&y);
            }
            let updated;
            (y, updated) = layer.forward(&y, stats, norms);
            main.push(updated);
        }
        match (&self.shortcut, &stats.shortcut) {
            (Some(layer), Some(stats)) => {
                let (x, updated) = layer.forward(x, stats, norms);
                (relu(&(x + y)), Block { main, shortcut: Some(updated) })
            }
            _ => (relu(&(x + y)), Block { main, shortcut: None }),
        }
    }
}

impl ResNet {
    /// Initializes a network in `f32`.
    pub fn new(key: random::Key, config: &Config) -> ResNet {
        let [trunk, head] = key.split();
        let mut keys = (0..).map(|n: i64| random::fold_in(trunk.clone(), n));
        let stem = ConvNorm::new(keys.next().expect("keys do not end"), 7, 3, config.width, 2);
        let (mut n, mut n_in, mut stages) = (config.width, config.width, Vec::new());
        for (at, &count) in config.blocks.iter().enumerate() {
            let mut blocks = Vec::new();
            for number in 0..count {
                // The stem's pooling has already halved the size.
                let stride = if at > 0 && number == 0 { 2 } else { 1 };
                blocks.push(Block::new(&mut keys, config, n_in, n, stride));
                n_in = if config.bottleneck { EXPANSION * n } else { n };
            }
            stages.push(blocks);
            n *= 2;
        }
        let head = nn::Linear::new(head, n_in, config.classes);
        ResNet { trunk: Trunk { stem, stages }, head }
    }

    /// Returns initial statistics: mean 0 and variance 1.
    pub fn stats(&self) -> Stats {
        let of = |layer: &ConvNorm| {
            let [_, _, _, n_out] = layer.conv.weight.dims();
            nn::BatchStats::new(n_out)
        };
        let of_block = |block: &Block<ConvNorm>| Block {
            main: block.main.iter().map(of).collect(),
            shortcut: block.shortcut.as_ref().map(of),
        };
        let stages = self.trunk.stages.iter();
        Trunk {
            stem: of(&self.trunk.stem),
            stages: stages.map(|blocks| blocks.iter().map(of_block).collect()).collect(),
        }
    }

    /// Returns logits `[b, classes]` of images `[b, height, width, 3]`, and the updated statistics.
    #[track_caller]
    pub fn forward(&self, images: &Array, stats: &Stats, norms: Norms) -> (Array, Stats) {
        let (x, stem) = self.trunk.stem.forward(images, &stats.stem, norms);
        let mut x = max_pool(&relu(&x), &[3, 3], &[2, 2], symmetric_padding(3));
        let mut stages = Vec::new();
        for (blocks, stats) in self.trunk.stages.iter().zip(&stats.stages) {
            let mut updated = Vec::new();
            for (block, stats) in blocks.iter().zip(stats) {
                let after;
                (x, after) = block.forward(&x, stats, norms);
                updated.push(after);
            }
            stages.push(updated);
        }
        let features = x.mean_axes(axes([1, 2]));
        (self.head.forward(&features), Trunk { stem, stages })
    }
}
