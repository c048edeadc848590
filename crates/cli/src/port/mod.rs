//! `oxidax port`: turns traced JAX functions into Rust.

mod command;
mod package;

pub(crate) use command::{Port, run};
