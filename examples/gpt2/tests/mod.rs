//! Compares `examples/gpt2` with training steps that `transformers` took, with JAX, and with
//! itself. `python-compat/README.md` describes the recordings.

#[path = "../../../crates/models/tests/support/transformers.rs"]
#[allow(dead_code, reason = "the tests of the model also change folders")]
mod transformers;

mod recorded;
mod training;
