//! The rendezvous of a program's processes: a coordinator on process 0, and a link to it from each
//! process.
//!
//! `message` defines the protocol. `members`, `store` and `meetings` hold the coordinator's state,
//! `hub` combines them, `service` answers requests, and `coordinator` serves a socket. `joining`
//! and `link` are the client side. There is no authentication: the network must be trusted.

mod coordinator;
mod failure;
mod hub;
mod joining;
mod link;
mod meetings;
mod members;
mod message;
mod service;
mod store;
#[cfg(test)]
mod tests;

pub(super) use coordinator::Coordinator;
pub(super) use failure::{Failure, listed};
pub(super) use hub::Terms;
pub(super) use joining::Identity;
pub(super) use link::Link;
pub(super) use message::MAX_KEY;
