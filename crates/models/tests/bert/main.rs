//! Compares BERT with a small random encoder that `transformers` saved, and with a
//! published model. `python-compat/README.md` describes the recordings.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

#[path = "../support/transformers.rs"]
mod transformers;

mod folders;
mod recorded;
mod sentences;
