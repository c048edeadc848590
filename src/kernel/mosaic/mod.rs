//! Mosaic: kernels for TPUs, as text that libtpu compiles.
//!
//! The text is of the stable form, version 11: generic MLIR whose operations begin with
//! `stable_mosaic.`. Compilers upgrade it, so one text serves several versions of libtpu. It is an
//! argument of the custom call `tpu_custom_call` (`custom_call`).
//!
//! Unlike passes, an emitter for another compiler must know each operation. The families of
//! primitives (`elementwise`, `convert`, `structure`, `reduction`, `dot`, `control`, `ref_access`)
//! find their primitives by type.
//!
//! The text is written when a kernel is traced too, so that what Mosaic does not support is refused
//! at the user's line. Each operation carries this line, which libtpu's errors repeat.
//!
//! The kernels compile for v4, v5e, v5p, v6e and 7x. They have not run on a TPU.

mod base64;
mod control;
mod convert;
mod custom_call;
mod dot;
mod elementwise;
mod emitter;
mod reduction;
mod ref_access;
mod structure;
mod text;
mod windows;

pub(super) use custom_call::lower;
pub(super) use windows::{check, vmem};
