//! Summary and deletion of entries.

use std::collections::BTreeMap;
use std::fs::File;
use std::time::{Duration, SystemTime};

use crate::entry::Header;
use crate::error::Error;
use crate::store::{Store, is_absent, remove};

/// The contents of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheSummary {
    /// Number of entries.
    pub entries: usize,
    /// Total size in bytes.
    pub bytes: u64,
    /// Totals per platform. Entries with unreadable headers are not included.
    pub platforms: BTreeMap<String, Share>,
    /// Entries with unreadable headers or wrong sizes. A lookup deletes them.
    pub damaged: usize,
    /// Last use of the least recently used entry.
    pub oldest: Option<SystemTime>,
    /// Last use of the most recently used entry.
    pub newest: Option<SystemTime>,
    /// Files being written, or left behind by a killed process.
    pub unfinished: usize,
}

/// Totals of one platform.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Number of entries.
    pub entries: usize,
    /// Total size in bytes.
    pub bytes: u64,
    /// Total compile time.
    pub compile_time: Duration,
}

/// Entries deleted by [`Store::clear`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleared {
    /// Number of entries.
    pub entries: usize,
    /// Total size in bytes.
    pub bytes: u64,
}

impl Store {
    /// Summarizes the store. Reads headers without checking hashes.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn summary(&self) -> Result<CacheSummary, Error> {
        let (entries, unfinished) = self.list()?;
        let mut summary = CacheSummary { unfinished: unfinished.len(), ..CacheSummary::default() };
        for entry in entries {
            let header = match File::open(&entry.path) {
                Ok(mut file) => Header::read(&mut file).map_err(Error::io("read", &entry.path))?,
                // Another process deleted it.
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err(Error::io("read", &entry.path)(error)),
            };
            summary.entries += 1;
            summary.bytes += entry.bytes;
            summary.oldest = Some(summary.oldest.map_or(entry.used, |other| other.min(entry.used)));
            summary.newest = Some(summary.newest.map_or(entry.used, |other| other.max(entry.used)));
            match header {
                Ok((header, _)) => {
                    let share = summary.platforms.entry(header.about.platform).or_default();
                    share.entries += 1;
                    share.bytes += entry.bytes;
                    share.compile_time += header.about.compile_time;
                }
                Err(_) => summary.damaged += 1,
            }
        }
        Ok(summary)
    }

    /// Deletes all entries, or those unused for longer than `age`. Processes that have loaded an
    /// entry keep it, and writes in progress finish.
    ///
    /// # Errors
    /// [`Error::Io`] with the file. Earlier deletions are not undone.
    pub fn clear(&self, unused_for: Option<Duration>) -> Result<Cleared, Error> {
        let now = SystemTime::now();
        let is_old = |used: SystemTime| match unused_for {
            Some(limit) => now.duration_since(used).is_ok_and(|age| age > limit),
            None => true,
        };
        let (entries, unfinished) = self.list()?;
        let mut cleared = Cleared::default();
        for entry in entries.iter().filter(|entry| is_old(entry.used)) {
            if remove(&entry.path)? {
                cleared.entries += 1;
                cleared.bytes += entry.bytes;
            }
        }
        // Keeps files that another process may still be writing.
        self.remove_left_behind(&unfinished)?;
        Ok(cleared)
    }
}
