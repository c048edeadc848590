//! Computes sentence vectors: the model, its tokenizer, and the compiled programs.

use super::model::{Bert, Config, Texts};
use super::text::WordPiece;
use super::weights;
use oxidax::prelude::*;
use std::path::Path;
use std::time::{Duration, Instant};

pub struct Encoder {
    pub model: Bert,
    pub config: Config,
    pub words: WordPiece,
    program: Jit<'static, (Bert, Texts), Array>,
}

/// Sentence vectors, and the time spent computing them.
pub struct Embedded {
    /// `f32[n, width]`, each of length 1.
    pub vectors: Array,
    /// Number of compiled programs, one per length, and the compile time.
    pub programs: u64,
    pub compiling: Duration,
    /// The remaining time.
    pub computing: Duration,
}

impl Encoder {
    /// Loads the model of a folder. `policy` sets the dtypes, `longest` truncates sentences.
    pub fn open(
        folder: &Path,
        longest: Option<usize>,
        policy: nn::DTypePolicy,
    ) -> anyhow::Result<Encoder> {
        let (model, config) = weights::load(folder)?;
        let words = WordPiece::open(folder, config.positions, longest)?;
        let embed = move |model: Bert, texts: Texts| policy.cast_to_compute(&model).embed(&texts);
        Ok(Encoder { model, config, words, program: jit(embed).name("embed") })
    }

    /// Returns the vectors of sentences in order, computed in batches of `size`.
    pub fn embed(&self, sentences: &[String], size: usize) -> anyhow::Result<Embedded> {
        let (start, before) = (Instant::now(), self.program.stats());
        let width = self.config.width;
        let mut vectors = vec![0.0f32; sentences.len() * width];
        for batch in self.words.batches(sentences.to_vec(), size) {
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
        let compiling = after.compile_time - before.compile_time;
        Ok(Embedded {
            vectors: Array::from_slice(&vectors, [sentences.len(), width])?,
            programs: after.compiles - before.compiles,
            compiling,
            computing: start.elapsed().saturating_sub(compiling),
        })
    }
}
