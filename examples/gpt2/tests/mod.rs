//! `examples/gpt2` against a small GPT-2 that `transformers` trained and saved, against JAX, and against itself.
//! `python-compat/README.md` says sampling the numbers were recorded.

mod folders;
mod recorded;
mod sampling;
mod tokens;
mod training;
mod transformers;
