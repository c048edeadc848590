//! Looking at what is kept, and clearing it.

use std::collections::BTreeMap;
use std::fs::File;
use std::time::{Duration, SystemTime};

use crate::entry::Header;
use crate::error::Error;
use crate::store::{Store, is_absent, remove};

/// What a store holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many entries.
    pub entries: usize,
    /// Their sizes together, in bytes.
    pub bytes: u64,
    /// The same for each platform. Entries whose header cannot be read are in none.
    pub platforms: BTreeMap<String, Share>,
    /// Entries whose header cannot be read, or says another size. Whoever looks for them deletes them.
    pub damaged: usize,
    /// When the entry that was not used for longest was used.
    pub oldest: Option<SystemTime>,
    /// When the entry that was used last was used.
    pub newest: Option<SystemTime>,
    /// What is being written now, or was left behind by a process that was killed.
    pub unfinished: usize,
}

/// The part of one platform.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// How many entries.
    pub entries: usize,
    /// Their sizes together, in bytes.
    pub bytes: u64,
    /// What it took to compile them.
    pub compile_time: Duration,
}

/// What [`Store::clear`] has deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleared {
    /// How many entries.
    pub entries: usize,
    /// Their sizes together, in bytes.
    pub bytes: u64,
}

impl Store {
    /// What is kept. Reads the beginning of each entry, and checks no hash.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn summary(&self) -> Result<Summary, Error> {
        let (entries, unfinished) = self.list()?;
        let mut summary = Summary { unfinished: unfinished.len(), ..Summary::default() };
        for entry in entries {
            let header = match File::open(&entry.path) {
                Ok(mut file) => Header::read(&mut file).map_err(Error::io("read", &entry.path))?,
                // Another process has deleted it.
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

    /// Deletes all entries, or those that were not used for so long. What other processes have loaded they keep, and what
    /// they are writing they finish.
    ///
    /// # Errors
    /// [`Error::Io`] with the file; what was deleted before stays deleted.
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
        // What another process may still be writing is not taken from it.
        self.remove_left_behind(&unfinished)?;
        Ok(cleared)
    }
}
