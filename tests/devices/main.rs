//! Tests on eight CPU devices, which are set once for the whole process.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

mod foreign;
mod imported;
mod parallel;
mod planted;
