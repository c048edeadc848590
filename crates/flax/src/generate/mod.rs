//! Text generation with a cache, for any decoder.
//!
//! A model implements [`Decoder`]: an empty cache, and a step that reads tokens. A
//! [`Generator`] continues prompts greedily or by sampling. Lengths are rounded up, so that a
//! prompt of another length does not compile again.
//!
//! ```
//! use oxidax::prelude::*;
//! use oxidax_flax::generate::{Decoder, Generator, SamplingOptions};
//!
//! /// Predicts the successor of the last token.
//! #[derive(Tree, Clone)]
//! struct Successor {
//!     table: Array,
//! }
//!
//! impl Decoder for Successor {
//!     type Cache = Array;
//!
//!     fn init_cache(&self, _: usize, _: usize) -> Array {
//!         zeros(([], DType::I32))
//!     }
//!
//!     fn decode(&self, tokens: &Array, count: &Array, position: &Array) -> (Array, Array) {
//!         let last = dynamic_index_in_dim(tokens, count - 1, 1).squeeze_axes([1]);
//!         (take(&self.table, &last, 0), position + count)
//!     }
//! }
//!
//! let model = Successor { table: roll(&eye(10), 1, 1) };
//! let generator = Generator::new(SamplingOptions::greedy());
//! let prompts: [&[u32]; 2] = [&[3], &[1, 2, 8]];
//! let texts = generator.generate(&model, &prompts, 3, random::key(0))?;
//! assert_eq!(texts, [[4, 5, 6], [9, 0, 1]]);
//! # Ok::<(), oxidax::Error>(())
//! ```

mod generator;
mod sampling;

pub use generator::{Decoder, GenerateOptions, Generator};
pub use sampling::{SamplingOptions, sample_logits};
