//! GPT-2: trains from scratch or from published weights, and samples.
//!
//! ```text
//! cargo run --release -p gpt2 -- train                              # characters of four tragedies
//! cargo run --release -p gpt2 -- sample --weights target/gpt2 --prompt HAMLET.
//! cargo run --release -p gpt2 -- sample --weights DIR --prompt "To be" --temperature 0
//! cargo run --release -p gpt2 -- train --weights DIR --data TEXT --block 256 --batch 4 --bf16
//! cargo run --release -p gpt2 -- memory                             # of training steps
//! OXIDAX_CPU_DEVICES=8 cargo run --release -p gpt2 -- train --mesh data=2,model=4
//! ```
//!
//! `DIR` is a folder in Hugging Face's layout, of any of the four sizes; `train` saves such a
//! folder. README.md has details.

#![allow(clippy::print_stdout, reason = "an example shows its results")]

mod memory;
mod profile;
mod run;
mod spread;
#[cfg(test)]
mod tests;
mod text;
mod train;

use anyhow::{Context, ensure};
use clap::Parser;
use oxidax::prelude::*;
use oxidax_models::gpt2::{Gpt2, Gpt2Config, Gpt2Tokenizer, Sampling, TextGenerator};
use std::path::PathBuf;
use std::time::Instant;

/// Trains GPT-2 or samples from it.
#[derive(Parser)]
enum Command {
    /// Train from scratch or from saved weights, and save the model.
    Train(Box<Train>),
    /// Continue a prompt.
    Sample(Sample),
    /// Compile training steps of GPT-2 with 124M parameters, and print their memory.
    Memory(Box<train::Recipe>),
}

#[derive(clap::Args)]
struct Train {
    /// Text files, gzipped or not [the four tragedies].
    #[arg(long, num_args = 1..)]
    data: Vec<PathBuf>,
    /// Continue from the weights and tokenizer in this folder.
    #[arg(long)]
    weights: Option<PathBuf>,
    /// A folder with `tokenizer.json`, or `vocab.json` and `merges.txt` [one token per character].
    #[arg(long)]
    tokenizer: Option<PathBuf>,
    /// The folder for the trained model.
    #[arg(long, default_value = "target/gpt2")]
    out: PathBuf,
    /// A folder for checkpoints, metrics and a chart of the losses. A later run continues from it.
    #[arg(long)]
    run: Option<PathBuf>,
    /// With `--run`, steps between checkpoints.
    #[arg(long, default_value_t = 500)]
    save_every: u32,
    /// A published size instead of layers, heads and width: gpt2, gpt2-medium, gpt2-large, gpt2-xl.
    #[arg(long)]
    size: Option<String>,
    #[arg(long, default_value_t = 4)]
    layers: usize,
    #[arg(long, default_value_t = 4)]
    heads: usize,
    #[arg(long, default_value_t = 128)]
    width: usize,
    /// Tokens per window.
    #[arg(long, default_value_t = 64)]
    block: usize,
    /// Windows per batch, all parts together.
    #[arg(long, default_value_t = 12)]
    batch: usize,
    /// Dropout rate.
    #[arg(long, default_value_t = 0.0)]
    dropout: f64,
    /// Compile the layers as one loop instead of unrolling them.
    #[arg(long)]
    scan: bool,
    /// Compute attention without storing its weights, also in windows shorter than 1,024 tokens.
    #[arg(long)]
    flash_attention: bool,
    /// Seed of the initial weights, the order of windows, and dropout.
    #[arg(long, default_value_t = 1337)]
    seed: u32,
    /// Steps between log lines.
    #[arg(long, default_value_t = 100)]
    log_every: u32,
    /// Steps between evaluations on 20 held-out batches.
    #[arg(long, default_value_t = 500)]
    eval_every: u32,
    /// Number of held-out batches in the final evaluation; all by default.
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    held_out: u64,
    /// Serve profiles of the training on this port, for `oxidax profile capture` and XProf; 0 takes
    /// a free one.
    #[arg(long)]
    profile_port: Option<u16>,
    /// Record some steps after the first ones, measure the time of the step by line, and write both
    /// to this folder for XProf, Perfetto and `oxidax profile report`.
    #[arg(long, conflicts_with_all = ["mesh", "profile_port"])]
    profile: Option<PathBuf>,
    /// With `--profile`, number of recorded steps.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    profile_steps: u32,
    /// Write the loss of every step to this file, one per line.
    #[arg(long)]
    losses: Option<PathBuf>,
    #[command(flatten)]
    recipe: train::Recipe,
    #[command(flatten)]
    spread: spread::Spread,
}

#[derive(clap::Args)]
struct Sample {
    /// A folder with weights and tokenizer.
    #[arg(long)]
    weights: PathBuf,
    #[arg(long, default_value = "\n")]
    prompt: String,
    /// Number of tokens to generate.
    #[arg(long, default_value_t = 200)]
    tokens: usize,
    /// Divides the logits; 0 chooses the most likely token.
    #[arg(long, default_value_t = 0.8)]
    temperature: f64,
    /// Limit the choice to the most likely tokens.
    #[arg(long)]
    top_k: Option<usize>,
    #[arg(long, default_value_t = 1337)]
    seed: u32,
    /// Compile the layers as one loop instead of unrolling them.
    #[arg(long)]
    scan: bool,
    /// Compute in bf16.
    #[arg(long)]
    bf16: bool,
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Train(options) => options.run(),
        Command::Sample(options) => options.run(),
        Command::Memory(recipe) => memory::print_table(&recipe),
    }
}

impl Train {
    fn run(&self) -> anyhow::Result<()> {
        let Train { recipe, batch, block, .. } = self;
        let parts = recipe.accumulate;
        ensure!(
            parts > 0 && *batch > 0 && batch.is_multiple_of(parts),
            "a batch of {batch} is not divisible into {parts} parts"
        );
        let tragedies = concat!(env!("CARGO_MANIFEST_DIR"), "/data/tragedies.txt.gz");
        let text = match self.data.as_slice() {
            [] => text::read(&[tragedies.into()])?,
            paths => text::read(paths)?,
        };
        let tokenizer = match self.tokenizer.as_ref().or(self.weights.as_ref()) {
            Some(folder) => Gpt2Tokenizer::load(folder)?,
            None => Gpt2Tokenizer::characters(&text),
        };
        let (mut model, config) = self.initial_model(&tokenizer)?;
        let Gpt2Config { positions, vocabulary, layers, heads, width, .. } = config;
        let tokens = tokenizer.len();
        ensure!(
            (1..=positions).contains(block),
            "a block of {block}; the model has {positions} positions"
        );
        ensure!(
            tokens <= vocabulary,
            "the tokenizer has {tokens} tokens; the model has {vocabulary}"
        );
        let corpus = text::Corpus::new(&text, &tokenizer, *block)?;
        let (train, held_out) = corpus.tokens()?;
        let parameters = nn::summary(&model).parameters();
        println!(
            "model     {layers} layers, {heads} heads, width {width}: {parameters} parameters"
        );
        println!("text      {tokens} kinds of tokens, {train} for training, {held_out} held out");
        if recipe.steps > 0 {
            model = run::train(self, model, &corpus)?;
        }
        model.save(&self.out, &config)?;
        tokenizer.save(&self.out)?;
        println!("saved     {}", self.out.display());
        if let Some(peak) = peak_memory() {
            println!("memory    {:.2} GB at peak", peak as f64 / 1e9);
        }
        Ok(())
    }

    fn initial_model(&self, tokenizer: &Gpt2Tokenizer) -> anyhow::Result<(Gpt2, Gpt2Config)> {
        let (mut model, config) = match &self.weights {
            Some(folder) => {
                let config = Gpt2Config { dropout: self.dropout, ..Gpt2Config::load(folder)? };
                (Gpt2::load_with(folder, &config)?, config)
            }
            None => {
                let config = self.config(tokenizer.len())?;
                let init = jit(move |key: random::Key| Gpt2::new(key, &config)).name("init");
                (init.call(random::key(i64::from(self.seed)))?, config)
            }
        };
        if self.scan {
            model.h = model.h.stacked();
        }
        if self.flash_attention {
            model = model.with_attention(nn::AttentionImplementation::Flash);
        }
        Ok((model, config))
    }

    fn config(&self, vocabulary: usize) -> anyhow::Result<Gpt2Config> {
        let Train { layers, heads, width, block, dropout, .. } = *self;
        if let Some(name) = &self.size {
            let config = Gpt2Config::published(name);
            let config = config.with_context(|| format!("there is no published size `{name}`"))?;
            let vocabulary = vocabulary.max(config.vocabulary);
            return Ok(Gpt2Config { vocabulary, dropout, ..config });
        }
        ensure!(
            layers > 0 && heads > 0 && width > 0 && width.is_multiple_of(heads),
            "{layers} layers of width {width} with {heads} heads: sizes must be positive, and the \
             heads must divide the width"
        );
        let positions = block;
        Ok(Gpt2Config { vocabulary, positions, width, heads, layers, epsilon: 1e-5, dropout })
    }
}

impl Sample {
    fn run(&self) -> anyhow::Result<()> {
        let Sample { weights, prompt, temperature, top_k, .. } = self;
        ensure!(*temperature >= 0.0, "the temperature is {temperature}, it must not be negative");
        let (tokenizer, mut model) = (Gpt2Tokenizer::load(weights)?, Gpt2::load(weights)?);
        if self.scan {
            model.h = model.h.stacked();
        }
        let sampling = Sampling { temperature: *temperature, top_k: *top_k };
        let policy =
            if self.bf16 { nn::DTypePolicy::mixed_bf16() } else { nn::DTypePolicy::full() };
        let generator = TextGenerator::with_policy(sampling, policy);
        let (tokens, key) = (tokenizer.encode(prompt)?, random::key(i64::from(self.seed)));
        let clock = Instant::now();
        let tokens = generator.generate(&model, &tokens, self.tokens, key)?;
        let stats = generator.stats();
        let compiling = stats.compile_time + stats.load_time;
        let seconds = (clock.elapsed() - compiling).as_secs_f64();
        println!("{prompt}{}", tokenizer.decode(&tokens)?);
        println!("\n{:.0} tokens/s", tokens.len() as f64 / seconds);
        Ok(())
    }
}

/// Returns the peak memory of this process in bytes, on Linux.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
