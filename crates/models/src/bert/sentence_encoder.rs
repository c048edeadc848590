//! Sentence vectors: the model, its tokenizer, and the compiled programs.

use super::{Bert, BertConfig, BertTokenizer, TextBatch};
use crate::argument_error::argument_error;
use oxidax::prelude::*;
use std::path::Path;
use std::time::{Duration, Instant};

/// Computes the vectors of sentences with a [`Bert`]. The dot product of two vectors is their
/// cosine similarity.
///
/// Sentences are sorted into batches of similar length, which are padded to 16, 32, 64, … tokens.
/// One program is compiled per length.
///
/// ```no_run
/// use oxidax_models::bert::SentenceEncoder;
/// let encoder = SentenceEncoder::load("all-MiniLM-L6-v2")?;
/// let found = encoder.embed(&["A cat sits.", "A feline rests."], 2)?;
/// println!("{}", found.vectors);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "SentenceTransformer")]
pub struct SentenceEncoder {
    model: Bert,
    config: BertConfig,
    tokenizer: BertTokenizer,
    program: Jit<'static, (Bert, TextBatch), Array>,
}

/// Options of a [`SentenceEncoder`].
#[derive(Clone, Copy, Debug)]
pub struct SentenceEncoderOptions {
    /// Sentences are truncated to this number of tokens. `None` takes the folder's setting.
    #[doc(alias = "max_seq_length")]
    pub max_tokens: Option<usize>,
    /// Dtypes of the computation, such as [`mixed_bf16`](nn::DTypePolicy::mixed_bf16).
    pub policy: nn::DTypePolicy,
}

impl Default for SentenceEncoderOptions {
    /// The folder's setting, and `f32`.
    fn default() -> SentenceEncoderOptions {
        SentenceEncoderOptions { max_tokens: None, policy: nn::DTypePolicy::full() }
    }
}

/// Sentence vectors, and the time spent computing them.
#[derive(Clone, Debug)]
pub struct SentenceEmbeddings {
    /// `f32[n, width]`, each of length 1.
    pub vectors: Array,
    /// Number of compiled programs, one per length.
    pub compiled_programs: u64,
    /// Time spent compiling.
    pub compile_time: Duration,
    /// The remaining time.
    pub compute_time: Duration,
}

impl SentenceEncoder {
    /// Loads the model and the tokenizer of a folder: the files that [`Bert::load`] and
    /// [`BertTokenizer::load`] read.
    ///
    /// # Errors
    /// Those of the two functions.
    pub fn load(folder: impl AsRef<Path>) -> Result<SentenceEncoder, Error> {
        SentenceEncoder::load_with(folder, SentenceEncoderOptions::default())
    }

    /// Loads the model and the tokenizer of a folder, with options.
    ///
    /// # Errors
    /// Those of [`load`](Self::load). `Data` if the model does not have positions for the maximum
    /// length.
    pub fn load_with(
        folder: impl AsRef<Path>,
        options: SentenceEncoderOptions,
    ) -> Result<SentenceEncoder, Error> {
        let (folder, policy) = (folder.as_ref(), options.policy);
        let config = BertConfig::load(folder)?;
        let model = Bert::load_with(folder, &config)?;
        let tokenizer = BertTokenizer::load(folder, config.positions, options.max_tokens)?;
        let embed =
            move |model: Bert, texts: TextBatch| policy.cast_to_compute(&model).embed(&texts);
        Ok(SentenceEncoder { model, config, tokenizer, program: jit(embed).name("embed") })
    }

    /// Returns the model.
    pub fn model(&self) -> &Bert {
        &self.model
    }

    /// Returns the sizes of the model.
    pub fn config(&self) -> &BertConfig {
        &self.config
    }

    /// Returns the tokenizer.
    pub fn tokenizer(&self) -> &BertTokenizer {
        &self.tokenizer
    }

    /// Computes the vectors of sentences in order, in batches of `batch` sentences.
    ///
    /// # Errors
    /// `Op` (value) if `batch` is 0. `Data` if a sentence cannot be encoded. Errors of compilation
    /// and execution.
    #[doc(alias = "encode")]
    #[track_caller]
    pub fn embed(
        &self,
        sentences: &[impl AsRef<str>],
        batch: usize,
    ) -> Result<SentenceEmbeddings, Error> {
        if batch == 0 {
            return Err(argument_error("embed", "batches of 0 sentences"));
        }
        let (start, before) = (Instant::now(), self.program.stats());
        let width = self.config.width;
        let mut vectors = vec![0.0f32; sentences.len() * width];
        let texts = sentences.iter().map(|sentence| sentence.as_ref().to_owned()).collect();
        for batch in self.tokenizer.batches(texts, batch) {
            let (texts, numbers) = batch?;
            let found = self.program.call(&self.model, texts)?.to_vec::<f32>()?;
            for (number, vector) in numbers.to_vec::<i32>()?.into_iter().zip(found.chunks(width)) {
                // Padding rows have a negative number.
                if let Ok(number) = usize::try_from(number) {
                    vectors[number * width..][..width].copy_from_slice(vector);
                }
            }
        }
        let after = self.program.stats();
        let compile_time =
            after.compile_time + after.load_time - before.compile_time - before.load_time;
        Ok(SentenceEmbeddings {
            vectors: Array::from_slice(&vectors, [sentences.len(), width])?,
            compiled_programs: after.compiles - before.compiles,
            compile_time,
            compute_time: start.elapsed().saturating_sub(compile_time),
        })
    }
}
