//! Finds PJRT plugins on this machine, and installs pinned ones where there is none.
//!
//! A plugin is a shared library that drives one kind of device. This crate gets as far as its
//! path: [`find_or_install`] is the whole of it for most callers. Loading the library is the
//! business of `oxidax-pjrt`, which knows nothing of downloads.
//!
//! | step | where |
//! |------|-------|
//! | which platform | [`choose_platform`] |
//! | whether its devices can be used | [`devices::check`] |
//! | where a plugin is looked for | [`find_or_install`] lists the places in order |
//! | what can be installed | [`pins`] |
//! | fetching and checking it | [`install`] |
//! | what a user sees meanwhile | [`Progress`] |
//!
//! # What it promises
//!
//! - A library in the cache has the SHA-256 that its pin names, or, for a user's own, that it had
//!   when it was installed. A half-written or altered file is never handed out.
//! - Only the pinned CPU plugin is installed unasked, and nothing is with `OXIDAX_OFFLINE=1`.
//! - No code of a downloaded package runs during installation.
//! - The cache belongs to the user (or root), and nobody else can write it; otherwise it is
//!   refused.
//! - The environment is read in [`Config::from_env`] and nowhere else; it is never changed.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

#[cfg_attr(not(feature = "install"), allow(dead_code, reason = "the installer writes the cache"))]
mod cache;
mod config;
pub mod devices;
mod error;
#[cfg(feature = "install")]
mod fetch;
#[cfg_attr(not(feature = "install"), allow(dead_code, reason = "the installer hashes wheels"))]
mod hash;
#[cfg(feature = "install")]
mod install;
mod inventory;
mod library;
mod permissions;
pub mod pins;
mod platform;
mod progress;
mod search;
mod site_packages;

pub use config::Config;
pub use error::Error;
#[cfg(feature = "install")]
pub use install::{install, install_file, reinstall, reinstall_file};
pub use inventory::{Check, Condition, Entry, list, remove};
pub use library::check_library;
pub use pins::{Pin, Tags};
pub use platform::{Choice, Platform, choose_platform};
pub use progress::{Progress, Silent, Stderr};
pub use search::{Origin, Plugin, Request, find, find_or_install, find_usable};
