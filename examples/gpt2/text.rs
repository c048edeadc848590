//! The training text: reading, tokenizing, and holding out the last part.

use anyhow::{Context, ensure};
use data::{File, HostArray, Source, Stream, TokenWidth, Tokens};
use flate2::read::MultiGzDecoder;
use oxidax::prelude::*;
use oxidax_models::gpt2::Gpt2Tokenizer;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Training tokens and held-out tokens.
pub struct Corpus {
    train: File,
    held_out: File,
    block: usize,
}

/// Concatenates files, unpacking those that end in `.gz`.
pub fn read(paths: &[PathBuf]) -> anyhow::Result<String> {
    let mut text = String::new();
    for path in paths {
        let name = || format!("{}", path.display());
        let bytes = std::fs::read(path).with_context(name)?;
        let added = match path.extension().is_some_and(|end| end == "gz") {
            true => MultiGzDecoder::new(&*bytes).read_to_string(&mut text),
            false => bytes.as_slice().read_to_string(&mut text),
        };
        added.with_context(name)?;
    }
    Ok(text)
}

impl Corpus {
    /// Uses the first nine tenths of the characters for training, in windows of `block` tokens.
    pub fn new(text: &str, tokenizer: &Gpt2Tokenizer, block: usize) -> anyhow::Result<Corpus> {
        let part = |name: &str, text: &str| {
            let tokens = tokenizer.encode(text)?;
            let n = tokens.len();
            ensure!(
                n > block,
                "the {name} part has {n} tokens, but a window of {block} needs one more than its size"
            );
            let bytes: Vec<u8> = tokens.into_iter().flat_map(u32::to_le_bytes).collect();
            Ok(File::in_memory(Path::new(name), bytes))
        };
        let cut = text.char_indices().nth(text.chars().count() * 9 / 10);
        let (train, held_out) = text.split_at(cut.map_or(0, |(at, _)| at));
        Ok(Corpus { train: part("training", train)?, held_out: part("held-out", held_out)?, block })
    }

    fn windows(&self, file: &File) -> anyhow::Result<Tokens> {
        Ok(Tokens::open(file, TokenWidth::U32, self.block)?)
    }

    /// Returns the number of training tokens and of held-out tokens.
    pub fn tokens(&self) -> anyhow::Result<(u64, u64)> {
        Ok((self.windows(&self.train)?.tokens(), self.windows(&self.held_out)?.tokens()))
    }

    /// Returns an endless stream of random training windows: tokens and next tokens,
    /// `i32[batch, block]` each.
    pub fn batches(&self, batch: usize, seed: u64) -> anyhow::Result<Stream<(Array, Array)>> {
        let windows = self.windows(&self.train)?.stride(1);
        Ok(windows.shuffled(seed).stream().repeat_forever().batch(batch).to_device(2))
    }

    /// Returns batches of non-overlapping held-out windows, the same at every call.
    pub fn held_out(&self, batch: usize) -> anyhow::Result<Stream<(HostArray, HostArray)>> {
        let windows = self.windows(&self.held_out)?;
        let batch = batch.min(windows.len());
        Ok(windows.shuffled(0).stream().batch(batch))
    }
}
