//! Fine-tunes a GPT-2 of Hugging Face and one of Flax, and exports their loss to JAX for
//! `python-compat/finetune_check.py`, which evaluates it there and compares. The program also reads
//! the exported function again, and compares loss and gradient.
//!
//! `cargo run -p exports --bin finetune -- target/finetuned`, then
//! `python-compat/.venv/bin/python python-compat/finetune_check.py target/finetuned`

#![allow(clippy::print_stdout, reason = "this is a program for the command line")]

use anyhow::{Context, Result, ensure};
use oxidax::import::ImportedFunction;
use oxidax::prelude::*;
use oxidax_models::gpt2::{Gpt2, Gpt2Config};
use oxidax_weights::{Rules, Weights};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// A trained model in `python-compat/fixtures`.
struct Source {
    name: &'static str,
    folder: &'static str,
    /// The file with the weights, or the index of its parts.
    file: &'static str,
    /// Maps the names in the file to the leaf paths of [`Gpt2`].
    rules: &'static str,
}

const SOURCES: [Source; 2] = [
    Source {
        name: "hugging_face",
        folder: "gpt2_transformers",
        file: "model.safetensors.index.json",
        rules: "
            rename transformer.* -> *
            rename h.{i}.* -> h.layers[{i}].*
            rename *ln_{n}.weight -> *ln_{n}.scale
        ",
    },
    Source {
        name: "flax",
        folder: "gpt2_flax",
        file: "flax_model.msgpack",
        rules: "
            rename transformer.* -> *
            rename h.{i}.* -> h.layers[{i}].*
            rename {table}.embedding -> {table}.weight
            transpose *.kernel 1,0
            rename *.kernel -> *.weight
        ",
    },
];

const STEPS: usize = 100;
const ROWS: usize = 8;
/// Predicted tokens of a window.
const BLOCK: usize = 32;

/// Computes the mean cross entropy of the tokens after each, in nats, for windows `i32[b, t + 1]`.
fn loss(model: &Gpt2, tokens: &Array) -> Array {
    let (given, next) = (tokens.index(i![.., ..-1]), tokens.index(i![.., 1..]));
    let logits = model.forward(&given, None);
    nn::softmax_cross_entropy_with_integer_labels(&logits, &next).mean()
}

fn adamw() -> optim::Optimizer {
    let mask = optim::Mask::min_rank(2);
    let options = optim::AdamWOptions { weight_decay: 0.1, mask, ..Default::default() };
    optim::clip_by_global_norm(1.0).chain(optim::adamw_with(1e-3, options))
}

/// A step of fine-tuning: the new model and optimizer state, and the loss before.
fn step(model: Gpt2, state: optim::State, tokens: Array) -> (Gpt2, optim::State, Array) {
    let (loss, gradients) = value_and_grad(|model: &Gpt2| loss(model, &tokens))(&model);
    let (updates, state) = adamw().update(&gradients, &state, &model);
    (optim::apply_updates(&model, &updates), state, loss)
}

/// The text to fine-tune on, as tokens. The last quarter is held out.
struct Text {
    tokens: Vec<i32>,
    training: usize,
}

impl Text {
    fn load(path: &Path) -> Result<Text> {
        let tokens: Vec<i32> = Weights::open(path)?.array("tokens")?.to_vec()?;
        let training = tokens.len() * 3 / 4;
        ensure!(tokens.len() - training > BLOCK, "the text has {} tokens", tokens.len());
        Ok(Text { tokens, training })
    }

    /// Returns the windows of a step. Their starts are spread over the training part.
    fn batch(&self, step: usize) -> Result<Array, Error> {
        let starts = (0..ROWS).map(|row| (step * ROWS + row) * 997 % (self.training - BLOCK));
        self.windows(starts)
    }

    /// Returns windows that cover the held-out part.
    fn held_out(&self) -> Result<Array, Error> {
        let end = self.tokens.len() - BLOCK;
        self.windows((self.training..end).step_by(BLOCK))
    }

    fn windows(&self, starts: impl ExactSizeIterator<Item = usize>) -> Result<Array, Error> {
        let shape = [starts.len(), BLOCK + 1];
        let tokens: Vec<i32> =
            starts.flat_map(|start| self.tokens[start..=start + BLOCK].to_vec()).collect();
        Array::from_slice(&tokens, shape)
    }
}

impl Source {
    /// Loads the model through the rules, and compares its loss with the recorded one.
    fn load(&self, folder: &Path, config: Gpt2Config) -> Result<Gpt2> {
        let new = move |key: random::Key| Gpt2::new(key, &config);
        let template = eval_shape(new, random::Key::of_type())?;
        let weights = Weights::open(folder.join(self.file))?;
        let model = Rules::parse(self.rules)?.apply(&weights)?.load(&template)?;
        let recorded = Weights::open(folder.join("recorded.safetensors"))?;
        let expected: f32 = recorded.array("loss")?.item()?;
        let found: f32 = jit(loss).call(&model, &recorded.array("tokens")?)?.item()?;
        let difference = (found / expected - 1.0).abs();
        ensure!(difference < 1e-5, "{}: a loss of {found}, recorded {expected}", self.name);
        Ok(model)
    }

    /// Reads the exported function again, and compares its loss and gradient.
    fn import(
        &self,
        path: &Path,
        model: &Gpt2,
        tokens: &Array,
        (loss, gradient): (f32, &Gpt2),
    ) -> Result<()> {
        let imported = ImportedFunction::load(path)?;
        let tokens = tokens.clone();
        let imported = move |model: &Gpt2| {
            let result = imported.apply((model.clone(), tokens.clone()));
            result.into_array().expect("the loss is an array")
        };
        let (found, slopes) = jit(value_and_grad(imported)).call(model)?;
        let found: f32 = found.item()?;
        ensure!((found / loss - 1.0).abs() < 1e-6, "{}: imported {found}, not {loss}", self.name);
        for ((path, ours), expected) in
            tree::paths(gradient).iter().zip(tree::leaves(&slopes)).zip(tree::leaves(gradient))
        {
            let difference: f32 = (abs(&(ours - &expected)).max() / abs(&expected).max()).item()?;
            ensure!(
                difference < 1e-5,
                "{}: {path}: the gradients differ by {difference}",
                self.name
            );
        }
        Ok(())
    }

    fn run(&self, fixtures: &Path, text: &Text, out: &Path) -> Result<()> {
        let folder = fixtures.join(self.folder);
        let config = Gpt2Config::load(&folder)?;
        let mut model = self.load(&folder, config)?;
        let (evaluate, held_out) = (jit(loss).name("loss"), text.held_out()?);
        let start: f32 = evaluate.call(&model, &held_out)?.item()?;
        let train = jit(step).name("train_step");
        let mut state = adamw().init(&model);
        let mut losses = Vec::new();
        for number in 0..STEPS {
            let loss;
            (model, state, loss) = train.call(model, state, text.batch(number)?)?;
            losses.push(loss);
        }
        let losses = losses.iter().map(Array::item).collect::<Result<Vec<f32>, Error>>()?;
        let end: f32 = evaluate.call(&model, &held_out)?.item()?;
        let name = self.name;
        println!(
            "{name}: training {:.4} -> {:.4}, held out {start:.4} -> {end:.7}",
            losses[0],
            losses[STEPS - 1]
        );
        ensure!(end < start, "{name}: fine-tuning raises the loss from {start} to {end}");

        let file = |suffix: &str| out.join(format!("{name}{suffix}"));
        checkpoint::save(file(".safetensors"), &model)?;
        let lowered = evaluate.lower(&model, &held_out)?;
        lowered.export().save(file(".loss.jax_export"))?;
        lowered.export().vjp_order(1).save(file(".gradient.jax_export"))?;
        // What the script compares with.
        let gradient = jit(grad(loss)).call(&model, &held_out)?;
        self.import(&file(".gradient.jax_export"), &model, &held_out, (end, &gradient))?;
        checkpoint::save(file(".gradient.safetensors"), &gradient)?;
        checkpoint::save(file(".tokens.safetensors"), &held_out)?;
        let notes = json!({
            "heads": config.heads,
            "epsilon": config.epsilon,
            "start": start,
            "end": end,
        });
        fs::write(file(".json"), serde_json::to_string_pretty(&notes)?)?;
        Ok(())
    }
}

fn main() -> Result<()> {
    let out = PathBuf::from(std::env::args().nth(1).context("usage: finetune FOLDER")?);
    fs::create_dir_all(&out)?;
    let fixtures = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures"));
    let text = Text::load(&fixtures.join("gpt2_tokens.safetensors"))?;
    for source in &SOURCES {
        source.run(fixtures, &text, &out)?;
    }
    Ok(())
}
