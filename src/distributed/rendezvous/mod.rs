//! Where the processes of a program find each other: a coordinator, which is one of them, and a link to it from each.
//!
//! `message` is what they say; `members`, `store` and `meetings` are the coordinator's three books, `hub` holds them
//! together, `service` answers requests from it, and `coordinator` runs that on a socket. `joining` and `link` are the other side.
//! Nobody is authenticated: the socket belongs on a network where every machine is trusted.

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
