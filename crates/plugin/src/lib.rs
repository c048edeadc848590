//! Finds PJRT plugins on this machine and installs pinned ones.
mod cache;
mod config;
mod error;
mod fetch;
mod hash;
mod install;
mod library;
mod permissions;
pub mod pins;
mod platform;
mod progress;

pub use config::Config;
pub use error::Error;
pub use install::{install, install_file, reinstall, reinstall_file};
pub use library::check_library;
pub use pins::{Pin, Tags};
pub use platform::{Choice, Platform, choose_platform};
pub use progress::{Progress, Silent, Stderr};
