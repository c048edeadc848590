//! Clients of object stores.

mod client;
mod connect;
mod connector;
mod credentials;
mod emulator;
mod profile;
mod runtime;
mod upload;

pub(crate) use client::Client;
pub(crate) use upload::Upload;
