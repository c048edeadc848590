//! From sentences to batches: WordPiece tokens, sentences of about the same length together.

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
/// The shortest length that a batch is padded to; the next ones double.
const SHORTEST: usize = 16;

/// The words of a model: Wu et al.: Google's neural machine translation system (2016), section 4.1.
#[derive(Clone)]
pub(crate) struct WordPiece {
    tokenizer: Tokenizer,
    longest: usize,
}

/// `sentence_bert_config.json`: how long the sentences were that the model was trained on.
#[derive(Deserialize)]
struct Sentences {
    max_seq_length: usize,
}

/// A sentence's tokens `i32[t]`, their kinds `i32[t]`, and their number `i32[]`.
pub(crate) type Encoded = (HostArray, HostArray, HostArray);

impl WordPiece {
    /// The tokenizer of a folder. Sentences are cut to `longest` tokens; if that is not given, to what
    /// `sentence_bert_config.json` says, or else the tokenizer's own file, or else to the model's positions.
    pub(crate) fn open(
        folder: &Path,
        positions: usize,
        longest: Option<usize>,
    ) -> anyhow::Result<WordPiece> {
        let path = folder.join(TOKENIZER);
        ensure!(path.exists(), "{} holds no {TOKENIZER}", folder.display());
        let wrong = |error| anyhow!("{}: {error}", path.display());
        let mut tokenizer = Tokenizer::from_file(&path).map_err(wrong)?;
        let said = match folder.join(SENTENCES) {
            path if path.exists() => Some(read::<Sentences>(&path)?.max_seq_length),
            _ => tokenizer.get_truncation().map(|said| said.max_length),
        };
        let longest = longest.unwrap_or(said.unwrap_or(positions).min(positions));
        // A sentence stands between two tokens of its own.
        ensure!(
            (3..=positions).contains(&longest),
            "sentences of {longest} tokens; 3 to {positions} are possible with this model"
        );
        let cut = TruncationParams { max_length: longest, ..TruncationParams::default() };
        tokenizer.with_truncation(Some(cut)).map_err(wrong)?;
        tokenizer.with_padding(None);
        Ok(WordPiece { tokenizer, longest })
    }

    /// A sentence's tokens, those in front and behind included.
    pub(crate) fn encode(&self, sentence: &str) -> Result<Encoded, Error> {
        let told = |error| Error::data("tokenizer", format!("{sentence:?}: {error}"));
        let encoding = self.tokenizer.encode(sentence, true).map_err(told)?;
        let row = |ids: &[u32]| {
            let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
            HostArray::from_slice(&ids, [ids.len()])
        };
        let length = HostArray::from_slice(&[encoding.len() as i32], [])?;
        Ok((row(encoding.get_ids())?, row(encoding.get_type_ids())?, length))
    }

    /// The lengths that batches are padded to: so many programs are compiled at most.
    pub(crate) fn boundaries(&self) -> Vec<usize> {
        let doubled = std::iter::successors(Some(SHORTEST), |length| Some(2 * length));
        let shorter = doubled.take_while(|&length| length < self.longest);
        shorter.chain([self.longest]).collect()
    }

    /// The sentences in batches of `size`, each with the sentences' numbers `i32[size]`. Where a batch is not
    /// full, the rows that are missing have no tokens, and the number -1.
    pub(crate) fn batches(&self, sentences: Vec<String>, size: usize) -> Stream<(Texts, Array)> {
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
                let full = |x: &HostArray, with| filled(x, size, with);
                let texts = (full(&tokens, 0)?, full(&kinds, 0)?, full(&lengths, 0)?);
                Ok((texts, full(&numbers, -1)?))
            })
            .to_device(2)
    }
}

/// The rows `i32[n, …]`, and so many more of one number that they are `size`: another size would be another
/// program to compile.
fn filled(rows: &HostArray, size: usize, with: i32) -> Result<HostArray, Error> {
    let shape = rows.shape().remove(0).insert(0, size);
    let mut elements = rows.to_vec::<i32>()?;
    elements.resize(shape.iter().product(), with);
    HostArray::from_slice(&elements, shape)
}
