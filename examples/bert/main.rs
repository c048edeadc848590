//! Computes sentence similarity with pretrained BERT encoders.
//!
//! ```text
//! examples/bert/weights.sh target/minilm                            all-MiniLM-L6-v2, 91 MB
//! cargo run --release -p bert -- --weights target/minilm "A cat sits." "A feline rests."
//! cargo run --release -p bert -- --weights target/minilm --file LINES "Which line is nearest?"
//! ```
//!
//! `--weights` accepts any `BertModel` folder in Hugging Face's layout: `config.json`,
//! `model.safetensors` or its shards, and `tokenizer.json`. README.md has details.

#![allow(clippy::print_stdout, reason = "an example shows its results")]

use anyhow::{Context, ensure};
use clap::Parser;
use oxidax::prelude::*;
use oxidax_models::bert::{SentenceEncoder, SentenceEncoderOptions};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Prints the similarity of sentences to each other, or to the lines of a file.
#[derive(Parser)]
struct Options {
    /// A folder with weights and tokenizer.
    #[arg(long)]
    weights: PathBuf,
    /// A text file to search; each non-empty line is a sentence.
    #[arg(long)]
    file: Option<PathBuf>,
    /// Number of lines of the file to print per sentence.
    #[arg(long, default_value_t = 5)]
    nearest: usize,
    /// Number of sentences per batch.
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// Truncate sentences to this many tokens [the folder's setting].
    #[arg(long)]
    longest: Option<usize>,
    /// Compute in bf16.
    #[arg(long)]
    bf16: bool,
    /// Save the vectors to this file: `sentences` and `lines`, `f32[n, width]` each.
    #[arg(long)]
    out: Option<PathBuf>,
    /// The sentences.
    sentences: Vec<String>,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let Options { sentences, batch, .. } = &options;
    ensure!(*batch > 0, "a batch of 0 sentences");
    ensure!(
        options.file.is_some() || !sentences.is_empty(),
        "no sentence and no `--file`: nothing to do"
    );
    let policy = if options.bf16 { nn::DTypePolicy::mixed_bf16() } else { nn::DTypePolicy::full() };
    let encoder_options = SentenceEncoderOptions { max_tokens: options.longest, policy };
    let encoder = SentenceEncoder::load_with(&options.weights, encoder_options)?;
    let parameters = nn::summary(encoder.model()).parameters();
    let config = encoder.config();
    println!(
        "model     {} layers, {} heads, width {}: {parameters} parameters",
        config.layers, config.heads, config.width
    );

    let mut saved = BTreeMap::new();
    if let Some(path) = &options.file {
        let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        let lines: Vec<String> =
            text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
        ensure!(!lines.is_empty(), "{} has no lines", path.display());
        let found = encoder.embed(&lines, *batch)?;
        println!(
            "lines     {} at {:.0} a second; {} programs compiled in {:.1} s",
            lines.len(),
            lines.len() as f64 / found.compute_time.as_secs_f64(),
            found.compiled_programs,
            found.compile_time.as_secs_f64()
        );
        if !sentences.is_empty() {
            let queries = encoder.embed(sentences, sentences.len().min(*batch))?.vectors;
            let (cosines, indices) = nearest(&queries, &found.vectors, options.nearest)?;
            let each = cosines.chunks(indices.len() / sentences.len());
            let mut indices = indices.iter();
            for (sentence, cosines) in sentences.iter().zip(each) {
                println!("\n{sentence}");
                for (cosine, &place) in cosines.iter().zip(&mut indices) {
                    println!("  {cosine:6.3}  {}", lines[place as usize]);
                }
            }
            saved.insert("sentences", queries);
        }
        saved.insert("lines", found.vectors);
    } else {
        let queries = encoder.embed(sentences, sentences.len().min(*batch))?.vectors;
        let cosines = queries.matmul(&queries.swapaxes(0, 1)).to_vec::<f32>()?;
        println!();
        for (sentence, row) in sentences.iter().zip(cosines.chunks(sentences.len())) {
            let row: Vec<String> = row.iter().map(|cosine| format!("{cosine:6.3}")).collect();
            println!("{}  {sentence}", row.join(" "));
        }
        saved.insert("sentences", queries);
    }
    if let Some(path) = &options.out {
        checkpoint::save(path, &saved)?;
        println!("\nsaved     {}", path.display());
    }
    Ok(())
}

/// Returns the cosines and indices of the `n` nearest `lines` (`f32[l, width]`) for each row of
/// `queries` (`f32[s, width]`), nearest first.
fn nearest(queries: &Array, lines: &Array, n: usize) -> anyhow::Result<(Vec<f32>, Vec<i32>)> {
    let n = n.clamp(1, lines.shape()[0]);
    let found = jit(move |queries: Array, lines: Array| {
        top_k(&queries.matmul(&lines.swapaxes(0, 1)), n, -1)
    });
    let (cosines, indices) = found.call(queries, lines)?;
    Ok((cosines.to_vec()?, indices.to_vec()?))
}
