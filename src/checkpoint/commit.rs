//! Saving a step by one or several processes.
//!
//! 1. Process 0 creates the folder of an attempt and tells its number to the others.
//! 2. Each process writes a file of its shards, and lists it in a part of the manifest.
//! 3. Process 0 reads the parts back, merges them, checks that the listed files hold every leaf
//!    exactly once, writes the manifest, and makes the step visible. Older steps are removed only
//!    after that.
//!
//! After each stage the processes exchange their outcomes. If a stage fails on one process, is not
//! reached in time, or a process dies, the stage fails on all of them and no step appears. See
//! docs/decisions/0034.

use super::Position;
use super::coverage::expect_complete;
use super::fault::{Read, abridged, io_error, refused};
use super::group::{Group, SharedGroup, agree};
use super::local_shards::{LeafType, LocalShards};
use super::manifest::{FileRecord, Manifest, ShardedArrays, inside, read_checked, with_checksum};
use super::save;
use super::steps::{StepFolder, new_attempt};
use super::storage::{FolderLock, Storage};
use crate::core::Error;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A step that is ready to be written: the shards of this process, and what belongs to the step.
pub(super) struct Prepared {
    pub(super) shards: LocalShards,
    pub(super) position: Option<Position>,
    pub(super) notes: BTreeMap<String, serde_json::Value>,
}

/// The part of a manifest that one process contributes.
#[derive(Serialize, Deserialize)]
struct Part {
    attempt: String,
    step: u64,
    process: usize,
    processes: usize,
    file: Option<FileRecord>,
    #[serde(rename = "pieces")]
    sharded: ShardedArrays,
    leaves: BTreeMap<String, LeafType>,
    copies: BTreeMap<String, u32>,
    position: Option<Position>,
}

/// The processes and the folder of an attempt to save a step.
pub(super) struct Commit {
    pub(super) steps: StepFolder,
    pub(super) group: SharedGroup,
    /// The folder's lock, which process 0 has.
    pub(super) lock: Option<Arc<FolderLock>>,
    pub(super) step: u64,
    /// Length of the parts of arrays that have their own checksum.
    pub(super) chunk_bytes: usize,
}

/// Returns an error if another program has taken the folder over.
pub(super) fn expect_held(lock: Option<&FolderLock>, folder: &Path) -> Result<(), Error> {
    let Some(lock) = lock else { return Ok(()) };
    lock.check().map_err(|error| io_error(folder, error))?.map_err(|both| {
        refused(
            folder,
            format!(
                "{both}, and only one program can save into it\n  help: end one of them, or open \
                 another folder; the steps that were saved are unchanged"
            ),
        )
    })
}

impl Commit {
    /// Writes a step, and returns after it is visible or has failed on all processes. A process
    /// that could not prepare its part tells the others by passing the error.
    ///
    /// `prune` removes older steps. It runs on process 0 after the step is visible.
    pub(super) fn run(
        &self,
        prepared: Result<Prepared, Error>,
        prune: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let place = self.steps.path(self.step);
        let group = &*self.group;
        let is_first = group.index() == 0;
        let stage = |what: &str| format!("saving step {}: {what}", self.step);

        let own = new_attempt();
        let begun = prepared.and_then(|prepared| {
            if is_first {
                self.expect_held()?;
                self.steps.begin(self.step, self.attempt(&own))?;
            }
            Ok(prepared)
        });
        let (prepared, begun) = match begun {
            Ok(prepared) => (Some(prepared), Ok(own.clone())),
            Err(error) => (None, Err(error)),
        };
        let attempts = agree(group, &place, &stage("beginning"), begun);
        let (attempts, prepared) = match (attempts, prepared) {
            (Ok(attempts), Some(prepared)) => (attempts, prepared),
            (Err(error), prepared) => {
                if is_first && prepared.is_some() && self.expect_held().is_ok() {
                    self.steps.abandon(self.step, self.attempt(&own));
                }
                return Err(error);
            }
            (Ok(_), None) => unreachable!("an own error is an error for all"),
        };
        let attempt = attempts[0].clone();
        let outcome = self.write_and_publish(&attempt, prepared, prune);
        if outcome.is_err() && is_first {
            // Another program that has the folder now removes these files, and has its own there.
            self.expect_held()?;
            self.steps.abandon(self.step, self.attempt(&attempt));
        }
        outcome
    }

    fn expect_held(&self) -> Result<(), Error> {
        expect_held(self.lock.as_deref(), &self.steps.folder)
    }

    /// Returns the attempt's number if it appears in names.
    fn attempt<'a>(&self, attempt: &'a str) -> Option<&'a str> {
        (self.group.count() > 1 || !self.steps.storage.renames()).then_some(attempt)
    }

    fn write_and_publish(
        &self,
        attempt: &str,
        prepared: Prepared,
        prune: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let place = self.steps.path(self.step);
        let group = &*self.group;
        let stage = |what: &str| format!("saving step {}: {what}", self.step);
        let staging = self.steps.staging(self.step, self.attempt(attempt));
        let Prepared { shards, position, notes } = prepared;

        let part = self.write_shards(&staging, attempt, shards, position);
        // A single process needs no file for its part.
        let (own, written) = match part {
            Ok(part) if group.count() == 1 => (Some(part), Ok(0)),
            Ok(part) => (None, self.write_part(&staging, &part)),
            Err(error) => (None, Err(error)),
        };
        let crcs = agree(group, &place, &stage("writing shards"), written)?;
        let published = if group.index() == 0 {
            let parts = match own {
                Some(part) => Ok(vec![part]),
                None => self.read_parts(&staging, attempt, &crcs),
            };
            let published = self.expect_held().and(parts);
            let published = published.and_then(|parts| self.publish(&staging, parts, notes));
            published.and_then(|()| self.expect_held()).and_then(|()| prune())
        } else {
            Ok(())
        };
        agree(group, &place, &stage("writing the manifest"), published).map(drop)
    }

    /// Writes the file of this process's shards, if it has any.
    fn write_shards(
        &self,
        staging: &Path,
        attempt: &str,
        shards: LocalShards,
        position: Option<Position>,
    ) -> Result<Part, Error> {
        let LocalShards { arrays, sharded, leaves, copies } = shards;
        let (process, processes) = (self.group.index(), self.group.count());
        let storage = &*self.steps.storage;
        let mut file = None;
        // A single process writes an empty file for a tree without leaves, as before.
        if !arrays.is_empty() || processes == 1 {
            let path = staging.join(self.array_file(attempt));
            let written = save::write(storage, &path, arrays, self.chunk_bytes);
            file = Some(written.map_err(|error| io_error(&path, error))?);
        }
        let (attempt, step) = (attempt.to_owned(), self.step);
        Ok(Part { attempt, step, process, processes, file, sharded, leaves, copies, position })
    }

    /// Returns the name of this process's file. Where files are not renamed, another attempt must
    /// not find a file of its name.
    fn array_file(&self, attempt: &str) -> String {
        let (process, processes) = (self.group.index(), self.group.count());
        let mut name = String::from("arrays");
        if processes > 1 {
            name += &format!("-{process:05}-of-{processes:05}");
        }
        if !self.steps.storage.renames() {
            name += &format!(".{attempt}");
        }
        name + ".safetensors"
    }

    fn part_file(&self, staging: &Path, attempt: &str, process: usize) -> PathBuf {
        staging.join(format!("part-{process:05}.{attempt}.jsonl"))
    }

    /// Writes the part, and returns its CRC-32C.
    fn write_part(&self, staging: &Path, part: &Part) -> Result<u32, Error> {
        let path = self.part_file(staging, &part.attempt, part.process);
        let text = with_checksum(&path, part)?;
        let storage = &*self.steps.storage;
        let written = storage.put(&path, &text).and_then(|()| storage.sync_folder(staging));
        written.map_err(|error| io_error(&path, error))?;
        Ok(first_line_crc(&text))
    }

    /// Reads the parts of all processes, and compares them with what the processes have reported.
    fn read_parts(&self, staging: &Path, attempt: &str, crcs: &[u32]) -> Result<Vec<Part>, Error> {
        let mut parts = Vec::with_capacity(crcs.len());
        for (process, &crc) in crcs.iter().enumerate() {
            let path = self.part_file(staging, attempt, process);
            let read = read_part(&*self.steps.storage, &path, crc).map_err(|fault| {
                let help = "all processes must save into one folder that they share, under the \
                            same path";
                let name = self.group.name(process);
                let message =
                    format!("the part of {name} cannot be read: {}\n  help: {help}", fault.error);
                refused(&path, message)
            })?;
            let expected = (attempt, self.step, process, self.group.count());
            if (&*read.attempt, read.step, read.process, read.processes) != expected {
                return Err(refused(&path, "it belongs to another attempt or process"));
            }
            parts.push(read);
        }
        Ok(parts)
    }

    /// Merges the parts, checks that they are complete, and makes the step visible.
    fn publish(
        &self,
        staging: &Path,
        parts: Vec<Part>,
        notes: BTreeMap<String, serde_json::Value>,
    ) -> Result<(), Error> {
        let names: Vec<PathBuf> =
            parts.iter().map(|part| self.part_file(staging, &part.attempt, part.process)).collect();
        let has_parts = parts.len() > 1;
        let (manifest, leaves) = self.merge(parts, notes)?;
        let storage = &self.steps.storage;
        expect_complete(storage, staging, &manifest, &leaves)?;
        if has_parts {
            let mut names = names.iter();
            names.try_for_each(|path| storage.remove(path).map_err(|e| io_error(path, e)))?;
        }
        self.steps.publish(staging, &manifest)
    }

    fn merge(
        &self,
        parts: Vec<Part>,
        notes: BTreeMap<String, serde_json::Value>,
    ) -> Result<(Manifest, BTreeMap<String, LeafType>), Error> {
        let place = self.steps.path(self.step);
        let group = &*self.group;
        expect_equal_trees(&place, group, &parts)?;
        let positions: Vec<Option<Position>> =
            parts.iter().map(|part| part.position.clone()).collect();
        let mut manifest = Manifest::new(self.step, positions[0].clone(), notes);
        if positions.iter().any(|position| *position != positions[0]) {
            manifest.positions = positions;
        }
        let mut leaves = BTreeMap::new();
        for part in parts {
            let name = group.name(part.process);
            let wrong = |what: String| refused(&place, format!("{name} has written {what}"));
            if let Some(file) = &part.file
                && inside(&place, &file.name).is_none()
            {
                return Err(wrong(format!("the file `{}`", abridged(&file.name))));
            }
            manifest.files.extend(part.file);
            for (leaf, shards) in part.sharded {
                let merged = manifest.sharded.entry(leaf.clone()).or_insert_with(|| {
                    let starts = BTreeMap::new();
                    super::manifest::ShardedArray { shape: shards.shape.clone(), starts }
                });
                if merged.shape != shards.shape {
                    let shape = &shards.shape;
                    return Err(wrong(format!("leaf `{}` with shape {shape:?}", abridged(&leaf))));
                }
                for (shard, start) in shards.starts {
                    if merged.starts.insert(shard.clone(), start).is_some() {
                        let shard = abridged(&shard);
                        return Err(wrong(format!("`{shard}`, which another process has written")));
                    }
                }
            }
            leaves = part.leaves;
        }
        Ok((manifest, leaves))
    }
}

/// Returns an error if processes save different trees, or copies of a leaf that differ.
fn expect_equal_trees(place: &Path, group: &dyn Group, parts: &[Part]) -> Result<(), Error> {
    let Some((first, others)) = parts.split_first() else { return Ok(()) };
    for part in others {
        let (here, there) = (group.name(first.process), group.name(part.process));
        let names = first.leaves.keys().chain(part.leaves.keys());
        for name in names {
            let typed = |leaf: Option<&LeafType>| match leaf {
                Some(leaf) => leaf.aval().to_string(),
                None => "missing".into(),
            };
            let (mine, theirs) = (first.leaves.get(name), part.leaves.get(name));
            if mine != theirs {
                let message = format!(
                    "leaf `{}` is {} on {here} and {} on {there}\n  help: all processes must save \
                     the same tree",
                    abridged(name),
                    typed(mine),
                    typed(theirs)
                );
                return Err(refused(place, message));
            }
        }
        for (name, crc) in &part.copies {
            if first.copies.get(name).is_some_and(|other| other != crc) {
                let message = format!(
                    "leaf `{}` has different elements on {here} and {there}, and is not on a mesh \
                     of both\n  help: give all processes the same elements with \
                     `distributed::broadcast_one_to_all`, or put the leaf on a mesh of all devices",
                    abridged(name)
                );
                return Err(refused(place, message));
            }
        }
    }
    Ok(())
}

/// Returns the CRC-32C of the first line of a text of two lines.
fn first_line_crc(text: &[u8]) -> u32 {
    let end = text.iter().position(|&byte| byte == b'\n').map_or(text.len(), |end| end + 1);
    crc32c::crc32c(&text[..end])
}

fn read_part(storage: &dyn Storage, path: &Path, expected: u32) -> Read<Part> {
    let first = read_checked(storage, path)?;
    let found = crc32c::crc32c(&first);
    if found != expected {
        let message =
            format!("its first line has the CRC-32C {found:08x}, {expected:08x} was reported");
        return Err(refused(path, message).into());
    }
    let part = serde_json::from_slice(&first).map_err(|error| {
        refused(path, format!("the first line: {}", abridged(&error.to_string())))
    })?;
    Ok(part)
}
