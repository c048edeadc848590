//! Turns sentences into batches of WordPiece tokens, grouped by length.

use super::TextBatch;
use crate::hugging_face::{exists, read, read_json, refused};
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
///
/// ```no_run
/// use oxidax_models::bert::BertTokenizer;
/// let tokenizer = BertTokenizer::load("bert-base-uncased", 512, None)?;
/// let sentence = tokenizer.encode("A cat sits.")?;
/// println!("{:?}", sentence.tokens.to_vec::<i32>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BertTokenizer {
    tokenizer: Tokenizer,
    max_tokens: usize,
}

/// `sentence_bert_config.json`: the sentence length in training.
#[derive(Deserialize)]
struct SentenceConfig {
    max_seq_length: usize,
}

/// A sentence as arrays in the memory of the host.
#[derive(Clone, Debug)]
pub struct EncodedSentence {
    /// Tokens, with start and end, `i32[t]`.
    pub tokens: HostArray,
    /// Segments, `i32[t]`.
    pub segments: HostArray,
    /// Number of tokens, `i32[]`.
    pub length: HostArray,
}

impl BertTokenizer {
    /// Loads `tokenizer.json` in a folder or at an address, for a model with the given number of
    /// positions.
    ///
    /// Sentences are truncated to `max_tokens`, with start and end token. `None` takes the length
    /// in `sentence_bert_config.json`, or in the tokenizer's file, or the number of positions.
    ///
    /// # Errors
    /// `Io` if a file cannot be read. `Checkpoint` if the folder has no tokenizer, or a file has
    /// unexpected contents. `Data` if the maximum length is shorter than 3 or longer than the
    /// positions.
    #[doc(alias = "from_pretrained")]
    pub fn load(
        folder: impl AsRef<Path>,
        positions: usize,
        max_tokens: Option<usize>,
    ) -> Result<BertTokenizer, Error> {
        let folder = folder.as_ref();
        let path = folder.join(TOKENIZER);
        if !exists(&path)? {
            return Err(refused(folder, format!("the folder has no {TOKENIZER}")));
        }
        let wrong = |error: tokenizers::Error| refused(&path, error.to_string());
        let mut tokenizer = Tokenizer::from_bytes(read(&path)?).map_err(wrong)?;
        let stored_length = match folder.join(SENTENCES) {
            path if exists(&path)? => Some(read_json::<SentenceConfig>(&path)?.max_seq_length),
            _ => tokenizer.get_truncation().map(|truncation| truncation.max_length),
        };
        let max_tokens = max_tokens.unwrap_or(stored_length.unwrap_or(positions).min(positions));
        // Every sentence gets a start token and an end token.
        if !(3..=positions).contains(&max_tokens) {
            let possible = format!("3 to {positions} are possible with this model");
            let problem = format!("sentences of {max_tokens} tokens; {possible}");
            return Err(Error::data("tokenizer", problem));
        }
        let truncation = TruncationParams { max_length: max_tokens, ..TruncationParams::default() };
        tokenizer.with_truncation(Some(truncation)).map_err(wrong)?;
        tokenizer.with_padding(None);
        Ok(BertTokenizer { tokenizer, max_tokens })
    }

    /// Encodes a sentence, including its start and end tokens.
    ///
    /// # Errors
    /// `Data` if the tokenizer refuses the sentence.
    pub fn encode(&self, sentence: &str) -> Result<EncodedSentence, Error> {
        let encoding_error = |error| Error::data("tokenizer", format!("{sentence:?}: {error}"));
        let encoding = self.tokenizer.encode(sentence, true).map_err(encoding_error)?;
        let row = |ids: &[u32]| {
            let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
            HostArray::from_slice(&ids, [ids.len()])
        };
        Ok(EncodedSentence {
            tokens: row(encoding.get_ids())?,
            segments: row(encoding.get_type_ids())?,
            length: HostArray::from_slice(&[encoding.len() as i32], [])?,
        })
    }

    /// The padded lengths of batches: 16, 32, 64, … tokens, up to the maximum length. They limit
    /// the number of compiled programs.
    pub fn padded_lengths(&self) -> Vec<usize> {
        let doubled = std::iter::successors(Some(SHORTEST), |length| Some(2 * length));
        let shorter = doubled.take_while(|&length| length < self.max_tokens);
        shorter.chain([self.max_tokens]).collect()
    }

    /// Returns batches of `size` sentences with their indices `i32[size]`, grouped by length.
    ///
    /// Padding rows of an incomplete batch have no tokens and the index -1.
    ///
    /// # Errors
    /// The stream returns `Data` if a sentence cannot be encoded.
    pub fn batches(&self, sentences: Vec<String>, size: usize) -> Stream<(TextBatch, Array)> {
        let tokenizer = self.clone();
        let padded_lengths = self.padded_lengths();
        let padding = BatchPadding::with(0.0).remainder(Remainder::Keep);
        Stream::new(sentences.into_iter().map(Ok))
            .enumerate()
            .parallel_map(2, move |(index, sentence)| {
                let EncodedSentence { tokens, segments, length } = tokenizer.encode(&sentence)?;
                let index = HostArray::from_slice(&[index as i32], [])?;
                Ok(((tokens, segments, length), index))
            })
            .bucket_by_length(|(text, _)| text.0.shape()[0], &padded_lengths, size, padding)
            .map(move |((tokens, segments, lengths), indices)| {
                let full = |x: &HostArray, with| pad_rows(x, size, with);
                let texts = (full(&tokens, 0)?, full(&segments, 0)?, full(&lengths, 0)?);
                Ok((texts, full(&indices, -1)?))
            })
            .to_device(2)
            .map(|((tokens, segments, lengths), indices)| {
                Ok((TextBatch { tokens, segments, lengths }, indices))
            })
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
