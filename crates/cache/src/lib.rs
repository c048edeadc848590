//! The cache folder, and the compiled programs stored in it.
//!
//! ```text
//! CACHE/plugins/…               plugins (`oxidax-plugin`)
//! CACHE/programs/KEY.program    a compiled program
//! CACHE/programs/.plugins       hashes of plugin files, so that each is read once
//! CACHE/programs/.new-…         a program that is being written
//! ```
//!
//! | task | items |
//! |------|-------|
//! | folder and limits | [`Settings`] |
//! | cache keys | [`CacheKey`], [`file_hash`], [`processor`] |
//! | lookup and storage | [`Store::get`], [`Store::put`] |
//! | summary and deletion | [`Store::summary`], [`Store::clear`] |
//! | permissions | [`danger`], [`create_private`] |
//!
//! # Guarantees
//!
//! - A lookup returns exactly what was stored: a SHA-256 over the whole entry is checked first, and
//!   a damaged or truncated entry is deleted.
//! - An entry is renamed into place after it was written, so an entry with its final name is
//!   complete, however many processes write and however they end. No process waits for another.
//! - A folder or entry that others own or can write is refused, because entries contain machine
//!   code.
//! - The environment is read only in [`Settings::from_env`], and never changed.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod config;
mod entry;
mod error;
mod hash;
mod inventory;
mod key;
mod permissions;
mod processor;
mod store;

pub use config::{Settings, folder};
pub use entry::{About, CacheEntry};
pub use error::Error;
pub use hash::file_hash;
pub use inventory::{CacheSummary, Cleared, Share};
pub use key::{CacheKey, CacheKeyBuilder, ParseCacheKeyError};
pub use permissions::{Danger, create_private, danger};
pub use processor::processor;
pub use store::{Lookup, Put, Store};
