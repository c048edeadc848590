//! The cache folder, and the compiled programs that are kept in it from process to process.
//!
//! ```text
//! CACHE/plugins/…               plugins (`oxidax-plugin`)
//! CACHE/programs/KEY.program    a compiled program
//! CACHE/programs/.plugins       hashes of plugin files, so that each is read once
//! CACHE/programs/.new-…         a program that is being written
//! ```
//!
//! | step | where |
//! |------|-------|
//! | where the folder is, and what limits there are | [`Settings`] |
//! | by what a program is found | [`Key`], [`file_hash`], [`processor`] |
//! | finding and keeping | [`Store::get`], [`Store::put`] |
//! | looking and clearing | [`Store::summary`], [`Store::clear`] |
//! | who may write the folder | [`danger`], [`create_private`] |
//!
//! # What it promises
//!
//! - What comes out is what went in under this key: a SHA-256 over the whole entry is checked first, and an entry that is
//!   damaged, cut short or of another format is deleted and not handed out.
//! - An entry gets its name by one rename after it was written, so however many processes write and however they end,
//!   a name stands for a whole entry. No process waits for another.
//! - The folder belongs to the user (or root) and nobody else can write it, nor any entry; otherwise it is refused: entries
//!   hold machine code.
//! - The environment is read in [`Settings::from_env`] and nowhere else; it is never changed.

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
pub use entry::{About, Entry};
pub use error::Error;
pub use hash::file_hash;
pub use inventory::{Cleared, Share, Summary};
pub use key::{Key, KeyBuilder, NotAKey};
pub use permissions::{Danger, create_private, danger};
pub use processor::processor;
pub use store::{Lookup, Put, Store};
