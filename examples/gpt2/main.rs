//! GPT-2: loads the published weights, trains, and writes.
//!
//! ```text
//! cargo run --release -p gpt2 -- train                       a character-level baby GPT on four tragedies
//! cargo run --release -p gpt2 -- sample --weights target/gpt2 --prompt HAMLET.
//! cargo run --release -p gpt2 -- sample --weights DIR --prompt "To be" --temperature 0
//! cargo run --release -p gpt2 -- train --weights DIR --data TEXT --block 256 --batch 4 --bf16 --run runs/tuned
//! OXIDAX_CPU_DEVICES=8 cargo run --release -p gpt2 -- train --mesh data=2,model=4
//! ```
//!
//! `DIR` is a folder as Hugging Face has it: `config.json`, `model.safetensors` or its shards, and `tokenizer.json` or
//! `vocab.json` with `merges.txt`; any of the four sizes. What `train` saves is such a folder. README.md beside this
//! file tells more.

#![allow(clippy::print_stdout, reason = "an example shows its results")]

mod model;
mod run;
mod sample;
mod spread;
#[cfg(test)]
mod tests;
mod text;
mod tokenizer;
mod train;
mod weights;

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};
use model::{Config, Gpt2};
use oxidax::prelude::*;
use sample::Sampling;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tokenizer::Tokenizer;

/// GPT-2: train it, or let it write.
#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train from scratch, or on from saved weights; save the model.
    Train(Box<Train>),
    /// Write on from a prompt.
    Sample(Sample),
}

#[derive(clap::Args)]
struct Train {
    /// Text files, gzipped or not [the tragedies beside this file].
    #[arg(long, num_args = 1..)]
    data: Vec<PathBuf>,
    /// Go on from the weights and with the tokenizer of this folder.
    #[arg(long)]
    weights: Option<PathBuf>,
    /// A folder with `tokenizer.json`, or `vocab.json` and `merges.txt` [one token for each character].
    #[arg(long)]
    tokenizer: Option<PathBuf>,
    /// Where the model is saved.
    #[arg(long, default_value = "target/gpt2")]
    out: PathBuf,
    /// Keep checkpoints, metrics and a chart of the losses in this folder; called again, go on from there.
    #[arg(long)]
    run: Option<PathBuf>,
    /// With `--run`, save a checkpoint every so many steps.
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
    /// How many tokens of context a window has.
    #[arg(long, default_value_t = 64)]
    block: usize,
    /// How many windows a batch has, all parts together.
    #[arg(long, default_value_t = 12)]
    batch: usize,
    /// The chance that an element is dropped.
    #[arg(long, default_value_t = 0.0)]
    dropout: f64,
    /// A loop over the layers instead of writing them out: compiles faster.
    #[arg(long)]
    scan: bool,
    /// Decides the initial weights, the order of the windows and what is dropped.
    #[arg(long, default_value_t = 1337)]
    seed: u32,
    /// Print a line every so many steps.
    #[arg(long, default_value_t = 100)]
    log_every: u32,
    /// Measure the held-out loss, on 20 batches, every so many steps.
    #[arg(long, default_value_t = 500)]
    eval_every: u32,
    /// How many held-out batches to measure at the end [all].
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    held_out: u64,
    /// Write every step's loss to this file, one a line.
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
    /// How many tokens to write.
    #[arg(long, default_value_t = 200)]
    tokens: usize,
    /// Below 1 likely tokens become likelier; 0 takes the likeliest.
    #[arg(long, default_value_t = 0.8)]
    temperature: f64,
    /// Choose among so many of the likeliest alone.
    #[arg(long)]
    top_k: Option<usize>,
    #[arg(long, default_value_t = 1337)]
    seed: u32,
    /// A loop over the layers instead of writing them out: compiles faster.
    #[arg(long)]
    scan: bool,
    /// Compute in bf16.
    #[arg(long)]
    bf16: bool,
}

fn main() -> anyhow::Result<()> {
    match Options::parse().command {
        Command::Train(options) => options.run(),
        Command::Sample(options) => options.run(),
    }
}

impl Train {
    fn run(&self) -> anyhow::Result<()> {
        let Train { recipe, batch, block, .. } = self;
        ensure!(
            recipe.accumulate > 0 && batch.is_multiple_of(recipe.accumulate) && *batch > 0,
            "a batch of {batch} is not divisible into {} parts",
            recipe.accumulate
        );
        let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/data/tragedies.txt.gz");
        let text = match self.data.as_slice() {
            [] => text::read(&[beside.into()])?,
            paths => text::read(paths)?,
        };
        let tokenizer = match self.tokenizer.as_ref().or(self.weights.as_ref()) {
            Some(folder) => Tokenizer::open(folder)?,
            None => Tokenizer::characters(&text),
        };
        let (mut model, config) = self.start(&tokenizer)?;
        ensure!(
            (1..=config.positions).contains(block),
            "a block of {block}; the model has {} positions",
            config.positions
        );
        ensure!(
            tokenizer.len() <= config.vocabulary,
            "{} tokens; the model knows {}",
            tokenizer.len(),
            config.vocabulary
        );
        let corpus = text::Corpus::new(&text, &tokenizer, *block)?;
        let (seen, held_out) = corpus.tokens()?;
        let parameters = nn::summary(&model).parameters();
        println!(
            "model     {} layers, {} heads, width {}: {parameters} parameters",
            config.layers, config.heads, config.width
        );
        println!(
            "text      {} kinds of tokens, {seen} to train on, {held_out} held out",
            tokenizer.len()
        );
        if recipe.steps > 0 {
            model = run::train(self, model, &corpus)?;
        }
        weights::save(&self.out, &model, &config)?;
        tokenizer.save(&self.out)?;
        println!("saved     {}", self.out.display());
        if let Some(peak) = peak_memory() {
            println!("memory    {:.2} GB at most", peak as f64 / 1e9);
        }
        Ok(())
    }

    /// The model to begin with.
    fn start(&self, tokenizer: &Tokenizer) -> anyhow::Result<(Gpt2, Config)> {
        let (model, config) = match &self.weights {
            Some(folder) => weights::load(folder, self.dropout)?,
            None => {
                let config = self.config(tokenizer)?;
                let key = random::key(i64::from(self.seed));
                let fresh = jit(move |key: random::Key| Gpt2::new(key, &config)).name("new");
                (fresh.call(key)?, config)
            }
        };
        Ok(if self.scan {
            (Gpt2 { h: model.h.stacked(), ..model }, config)
        } else {
            (model, config)
        })
    }

    fn config(&self, tokenizer: &Tokenizer) -> anyhow::Result<Config> {
        let Train { layers, heads, width, block, dropout, .. } = *self;
        let vocabulary = tokenizer.len();
        if let Some(name) = &self.size {
            let published = Config::published(name);
            let config =
                published.with_context(|| format!("no published size is called `{name}`"))?;
            return Ok(Config { vocabulary: vocabulary.max(config.vocabulary), dropout, ..config });
        }
        ensure!(
            layers > 0 && heads > 0 && width.is_multiple_of(heads) && width > 0,
            "{layers} layers of width {width} in {heads} heads: a size is 0, or the heads do not divide the width"
        );
        Ok(Config { vocabulary, positions: block, width, heads, layers, epsilon: 1e-5, dropout })
    }
}

impl Sample {
    fn run(&self) -> anyhow::Result<()> {
        ensure!(
            self.temperature >= 0.0,
            "the temperature is {}, it must not be negative",
            self.temperature
        );
        let tokenizer = Tokenizer::open(&self.weights)?;
        let (mut model, _) = weights::load(&self.weights, 0.0)?;
        if self.scan {
            model.h = model.h.stacked();
        }
        let how = Sampling { temperature: self.temperature, top_k: self.top_k };
        let policy =
            if self.bf16 { nn::DTypePolicy::mixed_bf16() } else { nn::DTypePolicy::full() };
        let writer = sample::writer(how, policy);
        let (prompt, key) = (tokenizer.encode(&self.prompt)?, random::key(i64::from(self.seed)));
        let start = Instant::now();
        let tokens = sample::continued(&writer, &model, &prompt, self.tokens, key)?;
        let seconds = start.elapsed().as_secs_f64() - writer.stats().compile_time.as_secs_f64();
        println!("{}{}", self.prompt, tokenizer.decode(&tokens)?);
        println!("\n{:.0} tokens/s", tokens.len() as f64 / seconds);
        Ok(())
    }
}

/// The most memory that this process has held, in bytes, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string(Path::new("/proc/self/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
