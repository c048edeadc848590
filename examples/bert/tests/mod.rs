//! `examples/bert` against a small randomly filled encoder that `transformers` made and saved, and against a published model.
//! `python-compat/README.md` says how the numbers were recorded.

#[path = "../../gpt2/tests/transformers.rs"]
mod transformers;

mod folders;
mod recorded;
mod sentences;
