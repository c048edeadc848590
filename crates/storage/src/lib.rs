//! Files on disks and objects of `gs://` and `s3://` behind one interface.
//!
//! ```
//! use oxidax_storage::Storage;
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path().join("run");
//! # let text = folder.to_str().unwrap();
//! let run = Storage::from_env().at(text)?; // or gs://bucket/run, s3://bucket/run
//! run.join("step/4/0.bin").write(b"leaf")?;
//! run.join("step/4/manifest").write(b"complete")?; // the last write makes the step visible
//! let steps = run.join("step").folder()?;
//! assert_eq!(steps[0].name, "4");
//! assert_eq!(run.join("step/4/0.bin").read()?, b"leaf");
//! run.join("step/4").delete_all()?;
//! assert!(run.join("step").list()?.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | task | items |
//! |------|-------|
//! | addresses | [`Location::parse`] |
//! | clients and credentials | [`Storage`], [`StorageSettings`] |
//! | whole files | [`StoragePath::read`], [`write`](StoragePath::write), [`delete`](StoragePath::delete) |
//! | ranges | [`StoragePath::open`], [`ObjectReader::read_at`] |
//! | large files | [`StoragePath::create`], [`ObjectWriter`] |
//! | folders | [`StoragePath::list`], [`folder`](StoragePath::folder), [`delete_all`](StoragePath::delete_all) |
//!
//! # Guarantees
//!
//! - A file or object that is being written is not visible. It appears complete, or not at all,
//!   however the process ends.
//! - Requests are repeated after a server error (5xx), a time-out and a cut connection, with
//!   growing pauses. A body that is cut is continued at the byte where it stopped.
//! - A [`ObjectReader`] never mixes two versions of an object.
//! - One runtime of four threads sends the requests of all clients of a process, and at most 64 at
//!   a time.
//!
//! Addresses of objects need the feature `remote`. Without it they are errors that name the
//! feature.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod config;
mod error;
mod local;
mod location;
mod path;
mod reader;
#[cfg(feature = "remote")]
mod remote;
mod storage;
mod writer;

pub use config::StorageSettings;
pub use error::Error;
pub use location::{Location, Scheme};
pub use path::{FolderEntry, Listed, StoragePath};
pub use reader::ObjectReader;
pub use storage::Storage;
pub use writer::ObjectWriter;
