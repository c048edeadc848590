//! Compares `examples/bert` with a small random encoder that `transformers` saved, and with a
//! published model. `python-compat/README.md` describes the recordings.

#[path = "../../gpt2/tests/transformers.rs"]
mod transformers;

mod folders;
mod recorded;
mod sentences;
