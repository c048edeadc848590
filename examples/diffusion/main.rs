//! Trains a diffusion model that draws handwritten digits by removing noise step by step.
//!
//! ```text
//! cargo run --release -p diffusion                train on ../mlp/data, draw target/diffusion.png
//! cargo run --release -p diffusion -- --chart target/loss.svg --out target/digits.svg
//! cargo run --release -p diffusion -- --data DIR  a folder of idx files
//! ```
//!
//! Ho, Jain, Abbeel: Denoising diffusion probabilistic models (2020), with linear layers instead of
//! a U-Net, conditioned on the digit to draw. All random numbers are drawn inside compiled
//! programs. One call runs a hundred training steps, and one program turns noise into digits. For
//! at least 90 % of 500 drawn digits, the nearest training digit has the requested class.

#![allow(clippy::print_stdout, reason = "an example shows its results")]

use anyhow::{Context, ensure};
use clap::Parser;
use oxidax::prelude::*;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Trains a diffusion model on digits and draws with it.
#[derive(Parser)]
struct Options {
    /// A folder of idx files, gzipped or not [the digits of `examples/mlp`].
    #[arg(long)]
    data: Option<PathBuf>,
    /// Number of training steps, rounded up to hundreds.
    #[arg(long, default_value_t = 3000)]
    steps: usize,
    #[arg(long, default_value_t = 128)]
    batch: usize,
    #[arg(long, default_value_t = 256)]
    width: usize,
    #[arg(long, default_value_t = 0)]
    seed: i64,
    /// The file for the drawing: .png, or .svg with half of the digits.
    #[arg(long, default_value = "target/diffusion.png")]
    out: PathBuf,
    /// A file for a chart of the losses, ending in .svg or .png.
    #[arg(long)]
    chart: Option<PathBuf>,
}

const CLASSES: usize = 10;
/// Number of noise levels between a digit and pure noise.
const TIMES: usize = 200;
/// Training steps per call of the compiled program.
const PER_CALL: usize = 100;

/// Predicts the noise in an image.
#[derive(Tree, Clone)]
struct Denoiser {
    image: nn::Linear,
    time: nn::Linear,
    class: nn::Embedding,
    blocks: Vec<(nn::LayerNorm, nn::Mlp)>,
    noise: nn::Linear,
}

impl Denoiser {
    fn new(key: random::Key, pixels: usize, width: usize) -> Denoiser {
        let [image, time, class, blocks, noise] = key.split();
        let block = |key| {
            let mlp = nn::Mlp::new(key, &[width, 2 * width, width]);
            (nn::LayerNorm::new(width), nn::Mlp { activation: nn::Activation::Silu, ..mlp })
        };
        Denoiser {
            image: nn::Linear::new(image, pixels, width),
            time: nn::Linear::new(time, 64, width),
            class: nn::Embedding::new(class, CLASSES, width),
            blocks: random::split(blocks, 3).into_iter().map(block).collect(),
            noise: nn::Linear::new(noise, width, pixels),
        }
    }

    /// Predicts the noise `[b, pixels]` in images `[b, pixels]` of classes `i32[b]` at times
    /// `i32[b]`.
    fn forward(&self, images: &Array, times: &Array, classes: &Array) -> Array {
        // Sines and cosines of the time with periods from 6 to 60,000 steps: Vaswani et al. (2017).
        let rates = exp(&(iota(DType::F32, 32) * (-10_000f64.ln() / 32.0)));
        let angles = times.astype(DType::F32).expand_dims(-1) * rates;
        let time = self.time.forward(&concatenate([sin(&angles), cos(&angles)], -1));
        let condition = silu(&(time + self.class.forward(classes)));
        let add = |x: Array, (norm, mlp): &(nn::LayerNorm, nn::Mlp)| {
            &x + mlp.forward(&(norm.forward(&x) + &condition))
        };
        self.noise.forward(&self.blocks.iter().fold(self.image.forward(images), add))
    }
}

/// Returns alpha and its cumulative product, `f32[TIMES]` each: the fraction of the previous step's
/// variance, and of the digit's, that is left. Section 4 of the paper, with `TIMES` steps.
fn schedule() -> (Array, Array) {
    let stretch = 1000.0 / TIMES as f64;
    let kept = 1.0 - linspace(1e-4 * stretch, 0.02 * stretch, TIMES);
    (kept.clone(), kept.cumprod_axis(0))
}

/// Mean squared error of the predicted noise: algorithm 1. Pixels are in -1..=1.
fn loss(model: &Denoiser, images: &Array, classes: &Array, key: random::Key) -> Array {
    let [b, _] = images.dims();
    let [times, noise] = key.split();
    let times = random::randint(times, [b], 0..TIMES as i32);
    let noise = random::normal(noise, images.shape().clone());
    let left = schedule().1.index(i![&times]).expand_dims(-1);
    let noisy = images * sqrt(&left) + &noise * sqrt(&(1.0 - left));
    let error = model.forward(&noisy, &times, classes) - noise;
    (&error * &error).mean()
}

/// Draws images of classes `i32[b]`: algorithm 2, with the predicted digit clipped to -1..=1.
fn draw(model: &Denoiser, classes: &Array, pixels: usize, key: random::Key) -> Array {
    let (kept, left) = schedule();
    let [b] = classes.dims();
    let [first, key] = key.split();
    let step = |i: Array, x: Array| {
        let time = (TIMES as i32 - 1) - i.astype(DType::I32);
        let at = |table: &Array| table.index(i![&time]);
        let (kept, left) = (at(&kept), at(&left));
        let before = &left / &kept;
        let noise = model.forward(&x, &broadcast_to(&time, [b]), classes);
        let digit = clip(&((&x - noise * sqrt(&(1.0 - &left))) / sqrt(&left)), -1.0, 1.0);
        // Equations 6 and 7: the previous step, given the predicted digit and this step.
        let mean = (digit * sqrt(&before) * (1.0 - &kept) + x * sqrt(&kept) * (1.0 - &before))
            / (1.0 - &left);
        let variance = (1.0 - &before) * (1.0 - &kept) / (1.0 - &left);
        let noise_step = random::normal(random::fold_in(key.clone(), &time), [b, pixels]);
        mean + noise_step * sqrt(maximum(variance, 0.0))
    };
    fori_loop(0, TIMES as i32, step, random::normal(first, [b, pixels]))
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let Options { batch, width, seed, .. } = options;
    let (train, test) = match &options.data {
        Some(folder) => (
            data::idx(folder)?,
            data::idx_with(folder, data::IdxOptions { split: data::Split::Test })?,
        ),
        None => {
            let digits = concat!(env!("CARGO_MANIFEST_DIR"), "/../mlp/data/digits.csv.gz");
            let (test, train) = data::digits(digits)?.split(|row| row % 5 == 0);
            (train, test)
        }
    };
    let pixels = train.width();
    let side = pixels.isqrt();
    ensure!(side * side == pixels, "images of {pixels} pixels are not square");
    ensure!(batch > 0 && width > 0, "a batch of {batch} and a width of {width}: one is 0");
    let [train, test] = [train.all()?, test.all()?]
        .map(|all| data::ImageBatch { images: all.images * 2.0 - 1.0, labels: all.labels });

    // The program itself draws batches from the digits on the device.
    let optimizer = optim::adamw(1e-3).chain(optim::params_ema(0.995));
    let new = jit(move |key: random::Key| Denoiser::new(key, pixels, width)).name("new");
    let mut model = new.call(random::key(seed))?;
    let mut state = optimizer.init(&model);
    let steps = jit(
        move |model: Denoiser, state: optim::State, all: data::ImageBatch, key: random::Key| {
            let keys = random::split(key, [PER_CALL]);
            let step = |(model, state): (Denoiser, optim::State), key: random::Key| {
                let [rows, key] = key.split();
                let rows = random::randint(rows, [batch], 0..all.images.shape()[0] as i32);
                let (images, labels) = (all.images.index(i![&rows]), all.labels.index(i![&rows]));
                let loss = |model: &Denoiser| loss(model, &images, &labels, key.clone());
                let (loss, gradients) = value_and_grad(loss)(&model);
                let (updates, state) = optimizer.update(&gradients, &state, &model);
                ((optim::apply_updates(&model, &updates), state), loss)
            };
            let ((model, state), losses) = scan(step, (model, state), keys);
            (model, state, losses.mean())
        },
    )
    .name("train_steps");
    let held_out = jit(|model: Denoiser, test: data::ImageBatch| {
        let each = |key: random::Key| loss(&model, &test.images, &test.labels, key);
        map(each, random::split(random::key(7), [20])).mean()
    })
    .name("held_out");

    let (start, calls) = (Instant::now(), options.steps.div_ceil(PER_CALL));
    let mut losses = Vec::new();
    for call in 0..calls {
        let loss;
        let key = random::fold_in(random::key(seed + 1), call as i64);
        (model, state, loss) = steps.call(model, state, &train, key)?;
        let step = (call + 1) * PER_CALL;
        let loss = loss.item::<f32>()?;
        losses.push((step as f64, f64::from(loss)));
        if (call + 1) % 10 == 0 || call + 1 == calls {
            println!("step {step:>6}   loss {loss:.4}");
        }
    }
    let compiling = steps.stats().compile_time.as_secs_f64();
    let seconds = start.elapsed().as_secs_f64() - compiling;
    // The running mean of the parameters draws better digits than the last parameters.
    let model = if calls > 0 { state.params_ema(&model) } else { model };
    println!("held out      loss {:.4}", held_out.call(&model, &test)?.item::<f32>()?);
    println!("trained in    {seconds:.1} s, plus {compiling:.1} s compile time");

    let drawing = jit(move |model: Denoiser, classes: Array, key: random::Key| {
        draw(&model, &classes, pixels, key)
    })
    .name("draw");
    let classes = iota(DType::I32, 500) % CLASSES as i32;
    let drawn = drawing.call(&model, &classes, random::key(seed + 2))?;
    let nearest = jit(nearest_classes).call(&drawn, &train)?;
    let share = eq(&nearest, &classes).astype(DType::F32).mean();
    println!("recognized    {:.3} of {} drawn", share.item::<f32>()?, classes.size());
    save(&options.out, &drawn.index(i![..100]), side)?;
    println!("saved         {}", options.out.display());
    if let Some(path) = &options.chart {
        train::Chart::new("Diffusion: loss").curve("loss", losses).save(path)?;
    }
    Ok(())
}

/// Returns the class `i32[b]` of the training digit nearest to each image `[b, pixels]`.
fn nearest_classes(images: Array, all: data::ImageBatch) -> Array {
    let squares = (&all.images * &all.images).sum_axes(-1);
    let distances = squares - images.matmul(&all.images.swapaxes(0, 1)) * 2.0;
    all.labels.index(i![&argmin(&distances, -1)])
}

/// Saves images `[rows · 10, pixels]` in -1..=1 as a grid, ten per row, enlarged four times. An
/// SVG file holds the first five rows.
fn save(path: &Path, images: &Array, side: usize) -> anyhow::Result<()> {
    if path.extension().is_some_and(|extension| extension == "svg") {
        let first = images.index(i![..50]).reshape([5, CLASSES, side, side]);
        return Ok(train::PictureGrid::images("Drawn digits", &((first + 1.0) / 2.0))?.save(path)?);
    }
    let grid = reshape(images, [images.shape()[0] / CLASSES, CLASSES, side, side]);
    let grid = repeat(&repeat(&grid.transpose_axes([0, 2, 1, 3]), 4, 1), 4, 3);
    let [rows, high, columns, wide] = grid.dims();
    let bytes =
        ((clip(&grid, -1.0, 1.0) + 1.0) * 127.5).round().astype(DType::U8).to_vec::<u8>()?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    }
    let size = |n: usize| u32::try_from(n).context("the drawing is too large");
    image::GrayImage::from_raw(size(columns * wide)?, size(rows * high)?, bytes)
        .context("one byte per pixel")?
        .save(path)
        .with_context(|| format!("{}", path.display()))
}
