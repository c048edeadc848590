//! Values recorded from JAX (`python-compat/`) against ours, within each case's tolerance.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fixtures;
mod nn;
mod random;
