//! `examples/gpt2` against a small GPT-2 that `transformers` trained and saved, against JAX, and against itself.
//! `python-compat/README.md` says how the numbers were recorded.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../examples/gpt2/layers.rs"]
mod layers;
#[path = "../../examples/gpt2/model.rs"]
mod model;
#[path = "../../examples/gpt2/sample.rs"]
mod sample;
#[path = "../../examples/gpt2/text.rs"]
mod text;
#[path = "../../examples/gpt2/tokenizer.rs"]
mod tokenizer;
#[path = "../../examples/gpt2/train.rs"]
mod train;
#[path = "../../examples/gpt2/weights.rs"]
mod weights;

#[path = "../support/transformers.rs"]
mod transformers;

mod folders;
mod recorded;
mod sampling;
mod tokens;
mod training;
