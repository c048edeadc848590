//! GPT-2: the model, its weights, its tokenizers, and text generation.
//!
//! Radford, Wu, Child, Luan, Amodei, Sutskever: Language models are unsupervised multitask learners
//! (2019).
//!
//! [`Gpt2`] is the model, [`Gpt2Config`] its sizes. [`Gpt2::load`] reads a folder in Hugging Face's
//! layout, and [`Gpt2::save`] writes one. [`TextGenerator`] continues prompts of tokens, and
//! [`Gpt2Tokenizer`] converts between text and tokens. `examples/gpt2` is a training program.
//!
//! ```no_run
//! use oxidax::prelude::*;
//! use oxidax_models::gpt2::{Gpt2, Gpt2Tokenizer, Sampling, TextGenerator};
//!
//! let (model, tokenizer) = (Gpt2::load("gpt2")?, Gpt2Tokenizer::load("gpt2")?);
//! let generator = TextGenerator::new(Sampling { temperature: 0.8, top_k: Some(50) });
//! let prompt = tokenizer.encode("To be, or not to be")?;
//! let tokens = generator.generate(&model, &prompt, 40, random::key(0))?;
//! println!("{}", tokenizer.decode(&tokens)?);
//! # Ok::<(), oxidax::Error>(())
//! ```

mod config;
mod generator;
mod model;
mod tokenizer;
mod weights;

pub use config::Gpt2Config;
pub use generator::{Sampling, TextGenerator};
pub use model::{Gpt2, Gpt2Attention, Gpt2Block, Gpt2Cache, Gpt2Mlp};
pub use tokenizer::Gpt2Tokenizer;
pub use weights::hugging_face_name;
