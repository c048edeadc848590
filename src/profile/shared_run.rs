//! [`SharedRun`]: one folder for the profiles that the processes of a program record at the same
//! time.
//!
//! Each process announces its profile in the coordinator's store when it starts to record. When it
//! ends, it reads what the others have announced, and all whose profiles overlap write to the
//! folder of the one that started first. No process waits for another one.

use crate::core::spans::unix_nanos;
use crate::distributed::{self, process_count, process_index};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::SystemTime;

/// A profile that a process records or has recorded. Times are nanoseconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Announced {
    /// The folder that the program named.
    dir: String,
    /// The name of the folder below it.
    run: String,
    started: u64,
    /// `None` while it is recorded.
    ended: Option<u64>,
}

/// The announced profile of this process. Dropping it announces the end.
#[derive(Debug)]
pub(super) struct SharedRun(Announced);

fn now() -> u64 {
    unix_nanos(SystemTime::now())
}

fn key(process: usize) -> String {
    format!("oxidax/profile/{process}")
}

impl SharedRun {
    /// Announces a profile, if this process belongs to a program of several.
    pub(super) fn announce(dir: &Path, run: &str) -> Option<SharedRun> {
        if !distributed::is_initialized() || process_count() < 2 {
            return None;
        }
        let dir = dir.to_string_lossy().into_owned();
        let own = Announced { dir, run: run.to_owned(), started: now(), ended: None };
        own.write();
        Some(SharedRun(own))
    }

    /// Ends the profile, and returns the name of the folder to which it is written.
    pub(super) fn end(mut self) -> String {
        let own = &mut self.0;
        own.ended = Some(now());
        let others = (0..process_count()).filter(|process| *process != process_index());
        let others = others.filter_map(read);
        own.run = own.folder_with(others);
        own.run.clone()
    }

    /// Returns the beginning of the names of this process's files.
    pub(super) fn file_prefix(host: &str) -> String {
        format!("{host}_{}.", process_index())
    }
}

impl Drop for SharedRun {
    fn drop(&mut self) {
        self.0.ended.get_or_insert_with(now);
        self.0.write();
    }
}

fn read(process: usize) -> Option<Announced> {
    let written = distributed::try_get(&key(process)).ok().flatten()?;
    serde_json::from_slice(&written).ok()
}

impl Announced {
    /// Writes it for the other processes. A lost coordinator is the error of another call, and this
    /// profile then has its own folder.
    fn write(&self) {
        if let Ok(text) = serde_json::to_vec(self) {
            drop(distributed::put(&key(process_index()), &text));
        }
    }

    /// Returns the name of the first folder among this profile and those that overlap with it.
    /// Names begin with the time.
    fn folder_with(&self, others: impl Iterator<Item = Announced>) -> String {
        let end = self.ended.unwrap_or(u64::MAX);
        let overlaps = |other: &Announced| {
            other.dir == self.dir
                && other.started <= end
                && other.ended.is_none_or(|ended| ended >= self.started)
        };
        let runs = others.filter(overlaps).map(|other| other.run);
        runs.chain([self.run.clone()]).min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(dir: &str, run: &str, started: u64, ended: Option<u64>) -> Announced {
        Announced { dir: dir.to_owned(), run: run.to_owned(), started, ended }
    }

    #[test]
    fn profiles_that_overlap_share_the_first_folder() {
        let own = announced("runs", "2026_01_02", 100, Some(200));
        let folder = |others: &[Announced]| own.folder_with(others.iter().cloned());
        assert_eq!(folder(&[]), "2026_01_02");
        let earlier = |ended| announced("runs", "2026_01_01", 50, ended);
        assert_eq!(folder(&[earlier(Some(150))]), "2026_01_01");
        assert_eq!(folder(&[earlier(None)]), "2026_01_01");
        // One that ended before, one that starts later, and one of another folder.
        assert_eq!(folder(&[earlier(Some(99))]), "2026_01_02");
        assert_eq!(folder(&[announced("runs", "2025", 201, None)]), "2026_01_02");
        assert_eq!(folder(&[announced("other", "2025", 120, None)]), "2026_01_02");
        // The other one comes to the same folder.
        let other = announced("runs", "2026_01_03", 120, Some(220));
        assert_eq!(folder(std::slice::from_ref(&other)), "2026_01_02");
        assert_eq!(other.folder_with([own].into_iter()), "2026_01_02");
    }
}
