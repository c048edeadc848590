//! `examples/bert` against a small randomly filled encoder that `transformers` made and saved, and against a published model.
//! `python-compat/README.md` says how the numbers were recorded.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../examples/bert/embed.rs"]
mod embed;
#[path = "../../examples/bert/model.rs"]
mod model;
#[path = "../../examples/bert/text.rs"]
mod text;
#[path = "../../examples/bert/weights.rs"]
mod weights;

#[path = "../support/transformers.rs"]
mod transformers;

mod folders;
mod recorded;
mod sentences;
