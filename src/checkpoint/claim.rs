//! The claim of a program on a folder of a storage without locks.
//!
//! A lock in an object store would have to expire, since a killed program cannot release it, and a
//! restarted program would wait for that. Instead the program that opens a folder writes its name
//! into it. A program that finds another name there stops saving.

use super::steps::new_attempt;
use super::storage::{HeldLock, SharedStorage, read_all};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The file with the name of the program that opened the folder last.
const NAME: &str = ".writer";

/// A program that has opened a folder.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
struct Writer {
    /// A number that no other opening has.
    id: String,
    process: u32,
    host: String,
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on host `{}`", self.process, self.host)
    }
}

/// A claim, which ends when another program opens the folder.
struct Claim {
    storage: SharedStorage,
    path: PathBuf,
    own: Writer,
}

/// Claims a folder. A program that had claimed it before finds out when it saves.
pub(super) fn claim(storage: SharedStorage, folder: &Path) -> io::Result<Box<dyn HeldLock>> {
    // Linux has the name in this file. Without it, the processes are named by their numbers.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let own =
        Writer { id: new_attempt(), process: std::process::id(), host: host.trim().to_owned() };
    let claim = Claim { storage, path: folder.join(NAME), own };
    if let Some(before) = claim.writer()? {
        tracing::info!(folder = %folder.display(), "claimed the folder, which {before} had opened");
    }
    claim.write()?;
    Ok(Box::new(claim))
}

impl Claim {
    fn write(&self) -> io::Result<()> {
        let text = serde_json::to_vec(&self.own).map_err(io::Error::other)?;
        self.storage.put(&self.path, &text)
    }

    /// Returns the program that opened the folder last, or `None` if there is no name.
    fn writer(&self) -> io::Result<Option<Writer>> {
        let text = match self.storage.open(&self.path).and_then(|file| read_all(&*file)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let unknown = || Writer { id: String::new(), process: 0, host: "unknown".into() };
        Ok(Some(serde_json::from_slice(&text).unwrap_or_else(|_| unknown())))
    }
}

impl HeldLock for Claim {
    fn check(&self) -> io::Result<Result<(), String>> {
        match self.writer()? {
            Some(writer) if writer.id == self.own.id => Ok(Ok(())),
            Some(writer) => Ok(Err(format!("{writer} has opened the folder after {}", self.own))),
            // The file was deleted, for example with older steps.
            None => self.write().map(Ok),
        }
    }
}
