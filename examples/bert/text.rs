//! Turns sentences into batches of WordPiece tokens, grouped by length.

use super::model::Texts;
use super::weights::read;
use anyhow::{anyhow, ensure};
use data::{BatchPadding, HostArray, Remainder, Stream};
use oxidax::prelude::*;
use serde::Deserialize;
use std::path::Path;
use tokenizers::{Tokenizer, TruncationParams};

const TOKENIZER: &str = "tokenizer.json";
const SENTENCES: &str = "sentence_bert_config.json";
/// The shortest padded length of a batch. Longer ones are powers of two times it.
const SHORTEST: usize = 16;

/// A WordPiece tokenizer: Wu et al., Google's neural machine translation system (2016), section
/// 4.1.
#[derive(Clone)]
pub struct WordPiece {
    tokenizer: Tokenizer,
    longest: usize,
}

/// `sentence_bert_config.json`: the sentence length in training.
#[derive(Deserialize)]
struct Sentences {
    max_seq_length: usize,
}

/// A sentence's tokens `i32[t]`, segments `i32[t]` and length `i32[]`.
pub type Encoded = (HostArray, HostArray, HostArray);

impl WordPiece {
    /// Loads the tokenizer of a folder. Sentences are truncated to `longest` tokens, or else to the
    /// length in `sentence_bert_config.json`, in the tokenizer's file, or of the model's positions.
    pub fn open(
        folder: &Path,
        positions: usize,
        longest: Option<usize>,
    ) -> anyhow::Result<WordPiece> {
        let path = folder.join(TOKENIZER);
        ensure!(path.exists(), "{} has no {TOKENIZER}", folder.display());
        let wrong = |error| anyhow!("{}: {error}", path.display());
        let mut tokenizer = Tokenizer::from_file(&path).map_err(wrong)?;
        let stored_length = match folder.join(SENTENCES) {
            path if path.exists() => Some(read::<Sentences>(&path)?.max_seq_length),
            _ => tokenizer.get_truncation().map(|stored_length| stored_length.max_length),
        };
        let longest = longest.unwrap_or(stored_length.unwrap_or(positions).min(positions));
        // Every sentence gets a start token and an end token.
        ensure!(
            (3..=positions).contains(&longest),
            "sentences of {longest} tokens; 3 to {positions} are possible with this model"
        );
        let cut = TruncationParams { max_length: longest, ..TruncationParams::default() };
        tokenizer.with_truncation(Some(cut)).map_err(wrong)?;
        tokenizer.with_padding(None);
        Ok(WordPiece { tokenizer, longest })
    }

    /// Encodes a sentence, including its start and end tokens.
    pub fn encode(&self, sentence: &str) -> Result<Encoded, Error> {
        let encoding_error = |error| Error::data("tokenizer", format!("{sentence:?}: {error}"));
        let encoding = self.tokenizer.encode(sentence, true).map_err(encoding_error)?;
        let row = |ids: &[u32]| {
            let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
            HostArray::from_slice(&ids, [ids.len()])
        };
        let length = HostArray::from_slice(&[encoding.len() as i32], [])?;
        Ok((row(encoding.get_ids())?, row(encoding.get_type_ids())?, length))
    }

    /// The padded lengths of batches, which limit the number of compiled programs.
    pub fn boundaries(&self) -> Vec<usize> {
        let doubled = std::iter::successors(Some(SHORTEST), |length| Some(2 * length));
        let shorter = doubled.take_while(|&length| length < self.longest);
        shorter.chain([self.longest]).collect()
    }

    /// Returns batches of `size` sentences with their numbers `i32[size]`. Padding rows of an
    /// incomplete batch have no tokens and the number -1.
    pub fn batches(&self, sentences: Vec<String>, size: usize) -> Stream<(Texts, Array)> {
        let words = self.clone();
        let boundaries = self.boundaries();
        let padding = BatchPadding::with(0.0).remainder(Remainder::Keep);
        Stream::new(sentences.into_iter().map(Ok))
            .enumerate()
            .parallel_map(2, move |(number, sentence)| {
                let number = HostArray::from_slice(&[number as i32], [])?;
                Ok((words.encode(&sentence)?, number))
            })
            .bucket_by_length(|(text, _)| text.0.shape()[0], &boundaries, size, padding)
            .map(move |((tokens, kinds, lengths), numbers)| {
                let full = |x: &HostArray, with| pad_rows(x, size, with);
                let texts = (full(&tokens, 0)?, full(&kinds, 0)?, full(&lengths, 0)?);
                Ok((texts, full(&numbers, -1)?))
            })
            .to_device(2)
    }
}

/// Pads `i32[n, …]` to `size` rows of one number, because another size would compile another
/// program.
fn pad_rows(rows: &HostArray, size: usize, with: i32) -> Result<HostArray, Error> {
    let shape = rows.shape().remove(0).insert(0, size);
    let mut elements = rows.to_vec::<i32>()?;
    elements.resize(shape.iter().product(), with);
    HostArray::from_slice(&elements, shape)
}
