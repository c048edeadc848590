//! Compares GPT-2 with a small model that `transformers` trained, and with itself.
//! `python-compat/README.md` describes the recordings.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

#[path = "../support/transformers.rs"]
mod transformers;

mod folders;
mod generation;
mod layers;
mod recorded;
mod tokens;
