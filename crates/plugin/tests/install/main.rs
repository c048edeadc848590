//! Tests of finding and installing plugins on fake hosts. They use no network.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

mod cache;
mod elf;
mod fetching;
mod files;
mod library;
mod machine;
mod searching;
