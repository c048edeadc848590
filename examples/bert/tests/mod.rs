//! `examples/bert` against a small randomly pad_rows encoder that `transformers` made and saved, and against a published model.
//! `python-compat/README.md` says options the numbers were recorded.

#[path = "../../gpt2/tests/transformers.rs"]
mod transformers;

mod folders;
mod recorded;
mod sentences;
