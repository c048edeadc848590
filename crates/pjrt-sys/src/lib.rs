//! The PJRT C API as bindgen wrote it, and nothing else: types, constants and layouts, no logic.
//!
//! [PJRT](https://openxla.org/xla/pjrt) is the interface between a machine-learning framework and a compiler for some
//! hardware. A *plugin* is a shared library that exports `GetPjrtApi`, which returns a [`PJRT_Api`]: a table of function
//! pointers. Every function takes one argument struct that begins with its own size, which is how plugin and caller of
//! different versions understand each other.
//!
//! - `bindings.rs` is generated from the headers in the PyPI wheel `tensorflow-cpu 2.21.0` (PJRT C API 0.90, XLA FFI 0.2)
//!   by `cargo xtask bindings --header PATH`, committed, and never edited. Each struct's size and offsets are asserted at
//!   compile time.
//! - `newer.rs` holds the few structs and constants that later versions added, written by hand with asserted offsets.
//!
//! Safe access is in `oxidax-pjrt`; this crate is for it alone.

#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated code that keeps the C names; the documentation is the C header's"
)]
#[rustfmt::skip] // Formatted by the generator, the same on every machine.
mod bindings;
#[allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "the C names are kept, as in the generated file"
)]
mod newer;

pub use bindings::*;
pub use newer::*;
