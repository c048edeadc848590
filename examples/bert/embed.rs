//! Sentences to vectors: a model, its words, and the compiled programs.

use super::model::{Bert, Config, Texts};
use super::text::WordPiece;
use super::weights;
use oxidax::prelude::*;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) struct Encoder {
    pub(crate) model: Bert,
    pub(crate) config: Config,
    pub(crate) words: WordPiece,
    program: Jit<(Bert, Texts), Array>,
}

/// The vectors of some sentences, and what they took.
pub(crate) struct Embedded {
    /// `f32[n, width]`, each of length 1.
    pub(crate) vectors: Array,
    /// Programs compiled, one for each length, and the time it took.
    pub(crate) programs: u64,
    pub(crate) compiling: Duration,
    /// All the time but that.
    pub(crate) computing: Duration,
}

impl Encoder {
    /// The model of a folder, computing as `policy` says, with sentences cut as [`WordPiece::open`] says.
    pub(crate) fn open(
        folder: &Path,
        longest: Option<usize>,
        policy: nn::DTypePolicy,
    ) -> anyhow::Result<Encoder> {
        let (model, config) = weights::load(folder)?;
        let words = WordPiece::open(folder, config.positions, longest)?;
        let embed = move |model: Bert, texts: Texts| policy.cast_to_compute(&model).embed(&texts);
        Ok(Encoder { model, config, words, program: jit(embed).name("embed") })
    }

    /// The vectors of sentences, in their order, computed in batches of `size`.
    pub(crate) fn embed(&self, sentences: &[String], size: usize) -> anyhow::Result<Embedded> {
        let (start, before) = (Instant::now(), self.program.stats());
        let width = self.config.width;
        let mut vectors = vec![0.0f32; sentences.len() * width];
        for batch in self.words.batches(sentences.to_vec(), size) {
            let (texts, numbers) = batch?;
            let found = self.program.call(&self.model, texts)?.to_vec::<f32>()?;
            for (number, vector) in numbers.to_vec::<i32>()?.into_iter().zip(found.chunks(width)) {
                // Negative where the batch was filled up.
                if let Ok(number) = usize::try_from(number) {
                    vectors[number * width..][..width].copy_from_slice(vector);
                }
            }
        }
        let after = self.program.stats();
        let compiling = after.compile_time - before.compile_time;
        Ok(Embedded {
            vectors: Array::from_slice(&vectors, [sentences.len(), width])?,
            programs: after.compiles - before.compiles,
            compiling,
            computing: start.elapsed().saturating_sub(compiling),
        })
    }
}
