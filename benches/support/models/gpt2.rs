//! The training step of `examples/gpt2`.

#[path = "../../../examples/gpt2/text.rs"]
#[allow(dead_code, reason = "the example also counts its tokens, and measures what is held out")]
mod text;
#[path = "../../../examples/gpt2/train.rs"]
#[allow(dead_code, reason = "the example also has a command line")]
mod train;

use super::{Model, drawn, numbers, trained};
use anyhow::{Context as _, Result};
use oxidax::prelude::*;
use oxidax::profile::LineProfile;
use oxidax_models::gpt2::{Gpt2, Gpt2Config, Gpt2Tokenizer, Sampling, TextGenerator};
use train::Recipe;

/// Sizes of a model and its batch.
#[derive(Clone, Copy, serde::Serialize)]
pub struct Sizes {
    pub layers: usize,
    pub heads: usize,
    pub width: usize,
    pub vocabulary: usize,
    pub positions: usize,
    pub batch: usize,
    pub context: usize,
}

/// The published model of 124M parameters, one window of 256 tokens.
pub const SMALLEST: Sizes = Sizes {
    layers: 12,
    heads: 12,
    width: 768,
    vocabulary: 50257,
    positions: 1024,
    batch: 1,
    context: 256,
};

/// nanoGPT's settings for a CPU.
pub const BABY: Sizes = Sizes {
    layers: 4,
    heads: 4,
    width: 128,
    vocabulary: 65,
    positions: 64,
    batch: 12,
    context: 64,
};

/// Number of compared tokens.
const COMPARED: usize = 8;

/// The example's recipe, which is nanoGPT's.
fn recipe(steps: u32, bf16: bool) -> Recipe {
    Recipe {
        steps,
        warmup: steps / 20,
        learning_rate: 1e-3,
        min_learning_rate: 1e-4,
        weight_decay: 0.1,
        b1: 0.9,
        b2: 0.99,
        clip: 1.0,
        accumulate: 1,
        bf16,
        offload: false,
        fused_loss: false,
    }
}

/// A model with its optimizer's state and a batch.
struct Setup {
    recipe: Recipe,
    model: Gpt2,
    state: optim::State,
    windows: (Array, Array),
}

fn setup(sizes: Sizes, bf16: bool) -> Result<Setup> {
    let Sizes { layers, heads, width, vocabulary, positions, batch, context } = sizes;
    let config =
        Gpt2Config { vocabulary, positions, width, heads, layers, epsilon: 1e-5, dropout: 0.0 };
    let recipe = recipe(2000, bf16);
    let model = drawn::tree(move |key| Gpt2::new(key, &config))?;
    let state = recipe.optimizer().init(&model);
    let text = numbers::integers(batch * (context + 1), vocabulary);
    let text = Array::from_slice(&text, [batch, context + 1])?;
    let windows = (text.index(i![.., ..-1]), text.index(i![.., 1..]));
    Ok(Setup { recipe, model, state, windows })
}

/// Returns a model that trains on the same batch in every call. With `bf16`, parameters and
/// optimizer state stay `f32`.
#[allow(dead_code, reason = "one benchmark measures single lines only")]
pub fn training(sizes: Sizes, bf16: bool) -> Result<Model> {
    let Setup { recipe, model, state, windows } = setup(sizes, bf16)?;
    let parameters = nn::summary(&model).parameters();
    let step = recipe.step();
    let call = trained((model, state), move |(model, state)| {
        let result = step.call(model, state, &windows, None).context("a step of GPT-2")?;
        Ok(((result.0, result.1), result.2))
    });
    Ok(Model { parameters, call })
}

/// Measures the lines of the training step.
#[allow(dead_code, reason = "one benchmark measures single lines")]
pub fn line_profile(sizes: Sizes) -> Result<LineProfile> {
    let Setup { recipe, model, state, windows } = setup(sizes, false)?;
    let compiled = recipe.step().lower(&model, &state, &windows, &None)?.compile()?;
    Ok(compiled.line_profile(&model, &state, &windows, &None)?)
}

/// Returns a model that continues the same prompt greedily in every call.
#[allow(dead_code, reason = "one benchmark decodes")]
pub fn decoding(sizes: Sizes, prompt: usize, tokens: u32) -> Result<Model> {
    let Sizes { layers, heads, width, vocabulary, positions, .. } = sizes;
    let config =
        Gpt2Config { vocabulary, positions, width, heads, layers, epsilon: 1e-5, dropout: 0.0 };
    let model = drawn::tree(move |key| Gpt2::new(key, &config))?;
    let parameters = nn::summary(&model).parameters();
    let prompt = Array::from_slice(&numbers::integers(prompt, vocabulary), [1, prompt])?;
    let keys = random::split(random::key(0), [tokens as usize]);
    let generator = TextGenerator::new(Sampling::GREEDY);
    let call = Box::new(move || {
        let tokens = generator.generate_batch(&model, &prompt, &keys).context("decoding")?;
        Ok(tokens.to_vec::<i32>()?.into_iter().take(COMPARED).map(f64::from).collect())
    });
    Ok(Model { parameters, call })
}

/// Returns the losses of training with nanoGPT's CPU settings on the tragedies, with the same
/// weights and windows in both dtypes.
pub fn losses(steps: u32, bf16: bool) -> Result<Vec<f64>> {
    let Sizes { layers, heads, width, positions, batch, context, .. } = BABY;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/gpt2/data/tragedies.txt.gz");
    let text = text::read(&[path.into()])?;
    let tokenizer = Gpt2Tokenizer::characters(&text);
    let corpus = text::Corpus::new(&text, &tokenizer, context)?;
    let vocabulary = tokenizer.len();
    let config =
        Gpt2Config { vocabulary, positions, width, heads, layers, epsilon: 1e-5, dropout: 0.0 };
    let recipe = recipe(steps, bf16);
    let (step, fresh) = (recipe.step(), jit(move |key: random::Key| Gpt2::new(key, &config)));
    let mut model = fresh.call(random::key(1337))?;
    let mut state = recipe.optimizer().init(&model);
    let mut losses: Vec<Array> = Vec::new();
    for windows in corpus.batches(batch, 1337)?.take(steps.into()) {
        let loss;
        (model, state, loss) = step.call(model, state, windows?, None)?;
        losses.push(loss);
    }
    losses.iter().map(|loss| Ok(f64::from(loss.item::<f32>()?))).collect()
}
