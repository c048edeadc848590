//! Finds PJRT plugins on this host, and installs pinned ones if there are none.
//!
//! A plugin is a shared library that drives one kind of device. This crate returns its path; most
//! callers only need [`find_or_install`]. The crate `oxidax-pjrt` loads the library and never
//! downloads anything.
//!
//! | task | items |
//! |------|-------|
//! | choice of platform | [`choose_platform`] |
//! | check of its devices | [`devices::check`] |
//! | search for a plugin | [`find_or_install`] lists the locations in order |
//! | available plugins | [`pins`] |
//! | fetching and checking | [`install`] |
//! | progress messages | [`Progress`] |
//!
//! # Guarantees
//!
//! - A library in the cache has the SHA-256 of its pin, or, if the user installed it from a file,
//!   the one that it had at installation. A half-written or changed file is never returned.
//! - Only the pinned CPU plugin is installed without a request. With `OXIDAX_OFFLINE=1`, nothing is
//!   downloaded.
//! - No code of a downloaded package runs during installation.
//! - The cache is owned by the user or root and nobody else can write to it. Otherwise it is
//!   refused.
//! - The environment is read only in [`Config::from_env`], and never changed.

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
pub use inventory::{Check, Condition, InventoryEntry, list, remove};
pub use library::check_library;
pub use pins::{Pin, Tags};
pub use platform::{Choice, Platform, choose_platform};
pub use progress::{Progress, Silent, Stderr};
pub use search::{Origin, PluginFile, Request, find, find_or_install, find_usable};
