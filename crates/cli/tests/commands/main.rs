//! Tests of the `oxidax` binary.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

mod cache;
#[path = "../../../plugin/tests/install/elf.rs"]
mod elf;
mod first_chapter;
mod jax_names;
mod new;
mod plugin;
mod port;
mod profile;
mod projects;
mod replay;
mod user;
mod verify;
mod weights;
