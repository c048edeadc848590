//! What the cache promises: whole entries or none, whatever happens to the files, and private ones.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

mod damage;
mod hashes;
mod limits;
mod ownership;
mod processes;
mod scene;
