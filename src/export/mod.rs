//! Functions as files that [`jax.export`](https://docs.jax.dev/en/latest/export/export.html) reads.
//!
//! [`Lowered::export`](crate::jit::Lowered::export) makes an [`Export`], whose options are the
//! platforms and the number of derivatives. In Python, `jax.export.deserialize` reads the file;
//! `docs/guide` has a page with both sides.
//!
//! | oxidax | Python |
//! |---|---|
//! | tuple, tuple struct | `tuple` |
//! | `Vec`, array | `list` |
//! | struct, map | `dict` with the names of fields, or the text of keys |
//! | `None`, static value | `None` |
//! | random key | `uint32[2]`, for `jax.random.wrap_key_data` |
//!
//! Programs are lowered for the platform's name alone, without rewrites for one compiler. Special
//! functions such as `erf`, `lgamma` and `top_k` are written as their expansions. `bessel_i1e`,
//! `polygamma`, `zeta`, `nextafter`, and inverse functions of complex numbers, are operations of
//! the dialect CHLO, which JAX reads from version 0.10 on.
//!
//! Not yet: symbolic dimensions, typed keys, arrays in the host's memory, ordered effects, and
//! source positions of operations.

mod check;
mod expand;
#[allow(clippy::module_inception, reason = "the type `Export` is in `export.rs`")]
mod export;
mod flat;
mod module;
mod pytree;
#[cfg(test)]
mod tests;
mod types;

pub use export::Export;
pub use oxidax_jax_export::Exported;
pub use oxidax_vhlo::VhloVersion;
