//! Compares GPT-2 with a small model that `transformers` trained, and with itself.
//! `python-compat/README.md` describes the recordings.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

#[path = "../support/transformers.rs"]
mod transformers;

#[allow(dead_code, reason = "the tests of the crate of stores use the rest")]
#[path = "../../../storage/tests/servers/start.rs"]
mod start;

mod folders;
mod formats;
mod generation;
mod layers;
mod recorded;
mod stores;
mod tokens;
