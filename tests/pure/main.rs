//! Tests that need nothing but the sources: no plugin, no network.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

mod derive;
mod tidy;
