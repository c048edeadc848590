//! Tests of the cache's guarantees: entries are complete or absent, and private.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

mod damage;
mod hashes;
mod limits;
mod ownership;
mod processes;
mod scene;
