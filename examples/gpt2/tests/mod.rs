//! Compares `examples/gpt2` with a small GPT-2 that `transformers` trained, with JAX, and with
//! itself. `python-compat/README.md` describes the recordings.

mod folders;
mod recorded;
mod sampling;
mod tokens;
mod training;
mod transformers;
