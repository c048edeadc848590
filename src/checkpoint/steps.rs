//! The folder of a run on the disk: one folder per step, created, replaced and removed by renaming.
//!
//! Names of unfinished operations begin with a dot. At every instant the names without a dot are
//! complete checkpoints, and what a killed process leaves behind can be recognized and repaired.

use super::coverage::expect_complete;
use super::fault::{io_error, refused};
use super::file::sync_folder;
use super::manifest::{FileRecord, Manifest};
use super::save::{self, HostArray};
use crate::core::{Aval, Error};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The array file in a step's folder.
const ARRAYS: &str = "arrays.safetensors";

/// An unfinished operation on a step's folder.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// A new checkpoint is being written.
    Written,
    /// An old checkpoint is being replaced by a new one of the same step.
    Replaced,
    /// A checkpoint is being removed.
    Removed,
}

impl Stage {
    const ALL: [Stage; 3] = [Stage::Written, Stage::Replaced, Stage::Removed];

    fn name(self) -> &'static str {
        match self {
            Stage::Written => "written",
            Stage::Replaced => "replaced",
            Stage::Removed => "removed",
        }
    }

    fn path(self, folder: &Path, step: u64) -> PathBuf {
        folder.join(format!(".{}.{}", name(step), self.name()))
    }
}

fn name(step: u64) -> String {
    format!("step-{step:09}")
}

/// Returns the path of a step's checkpoint.
pub(super) fn path(folder: &Path, step: u64) -> PathBuf {
    folder.join(name(step))
}

/// Parses a folder name created by [`name`].
fn step_of(text: &str) -> Option<u64> {
    let step = text.strip_prefix("step-")?.parse().ok()?;
    (name(step) == text).then_some(step)
}

/// Parses the name of an unfinished operation: its step and stage.
fn leftover(text: &str) -> Option<(u64, Stage)> {
    let (step, stage) = text.strip_prefix('.')?.split_once('.')?;
    let stage = Stage::ALL.into_iter().find(|known| known.name() == stage)?;
    Some((step_of(step)?, stage))
}

fn names(folder: &Path) -> Result<Vec<String>, Error> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|error| io_error(folder, error))?;
    Ok(entries.iter().filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

/// Returns the steps that have a folder, oldest first.
pub(super) fn list(folder: &Path) -> Result<Vec<u64>, Error> {
    let found = names(folder)?.into_iter().filter_map(|name| step_of(&name));
    let mut steps: Vec<u64> = found.filter(|step| path(folder, *step).is_dir()).collect();
    steps.sort_unstable();
    Ok(steps)
}

/// Repairs what a killed process left behind.
pub(super) fn clean(folder: &Path) -> Result<(), Error> {
    let mut changed = false;
    for (step, stage) in names(folder)?.iter().filter_map(|name| leftover(name)) {
        let (aside, place) = (stage.path(folder, step), path(folder, step));
        changed = true;
        match stage {
            Stage::Replaced if !place.exists() => {
                fs::rename(&aside, &place).map_err(|error| io_error(&aside, error))?;
            }
            Stage::Written | Stage::Replaced | Stage::Removed => delete(&aside)?,
        }
    }
    if changed { sync_folder(folder) } else { Ok(()) }
}

fn delete(path: &Path) -> Result<(), Error> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(path, error)),
    };
    let deleted = if metadata.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    deleted.map_err(|error| io_error(path, error))
}

/// Removes a checkpoint: first its name, atomically, then its files.
pub(super) fn remove(folder: &Path, step: u64) -> Result<(), Error> {
    let aside = Stage::Removed.path(folder, step);
    delete(&aside)?;
    fs::rename(path(folder, step), &aside).map_err(|error| io_error(&path(folder, step), error))?;
    sync_folder(folder)?;
    delete(&aside)
}

/// Writes a checkpoint and checks that it holds all `leaves`, then renames its folder to the final
/// name. Until the rename, an older checkpoint of the same step stays in place.
pub(super) fn write(
    folder: &Path,
    arrays: Vec<HostArray>,
    mut manifest: Manifest,
    leaves: &BTreeMap<String, Aval>,
) -> Result<(), Error> {
    let (temporary, place) =
        (Stage::Written.path(folder, manifest.step), path(folder, manifest.step));
    delete(&temporary)?;
    let written = fill(&temporary, arrays, &mut manifest)
        .and_then(|()| expect_complete(&temporary, leaves))
        .and_then(|()| publish(folder, &temporary, &place, manifest.step));
    if written.is_err() {
        // Best effort: the original error is returned. Opening the folder again removes the rest.
        drop(delete(&temporary));
    }
    written
}

fn fill(temporary: &Path, arrays: Vec<HostArray>, manifest: &mut Manifest) -> Result<(), Error> {
    fs::create_dir(temporary).map_err(|error| io_error(temporary, error))?;
    let path = temporary.join(ARRAYS);
    let written = save::write(&path, arrays).map_err(|error| io_error(&path, error))?;
    manifest.files = vec![FileRecord {
        name: ARRAYS.into(),
        bytes: written.bytes,
        header: written.header_crc,
        arrays: written.crcs,
    }];
    manifest.write(temporary)?;
    sync_folder(temporary)
}

fn publish(folder: &Path, temporary: &Path, place: &Path, step: u64) -> Result<(), Error> {
    let replaced = Stage::Replaced.path(folder, step);
    let occupied = fs::symlink_metadata(place).ok();
    if occupied.as_ref().is_some_and(|metadata| !metadata.is_dir()) {
        let message = "a file of this name is in the way of the checkpoint\n  help: move it away";
        return Err(refused(place, message));
    }
    if occupied.is_some() {
        delete(&replaced)?;
        fs::rename(place, &replaced).map_err(|error| io_error(place, error))?;
    }
    if let Err(error) = fs::rename(temporary, place) {
        // Best effort: otherwise opening the folder again restores the old checkpoint.
        drop(fs::rename(&replaced, place));
        return Err(io_error(place, error));
    }
    sync_folder(folder)?;
    delete(&replaced)
}

/// Retention policy: the checkpoints that are kept after a save.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retention {
    /// The number of newest checkpoints to keep.
    pub(super) last: Option<usize>,
    /// Keep steps that are a multiple of this number.
    pub(super) every: Option<u64>,
}

impl Retention {
    /// Returns the steps to remove. Damaged checkpoints do not count as kept. They are removed with
    /// the steps older than the oldest kept one.
    fn expired(self, steps: &[u64], damaged: &BTreeSet<u64>) -> Vec<u64> {
        let Some(last) = self.last else { return Vec::new() };
        let intact: Vec<u64> =
            steps.iter().copied().filter(|step| !damaged.contains(step)).collect();
        let Some(&oldest) = intact.get(intact.len().saturating_sub(last.max(1))) else {
            return Vec::new();
        };
        let stays = |step: u64| {
            step >= oldest
                || !damaged.contains(&step)
                    && self.every.is_some_and(|every| step.is_multiple_of(every))
        };
        steps.iter().copied().filter(|step| !stays(*step)).collect()
    }

    pub(super) fn prune(self, folder: &Path, damaged: &BTreeSet<u64>) -> Result<(), Error> {
        let expired = self.expired(&list(folder)?, damaged);
        expired.into_iter().try_for_each(|step| remove(folder, step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_step_names_are_parsed() {
        for step in [0, 7, 999_999_999, 1_000_000_000, u64::MAX] {
            assert_eq!(step_of(&name(step)), Some(step));
        }
        for text in ["step-7", "step-+00000007", "step-", "step-000000007x", "model"] {
            assert_eq!(step_of(text), None, "{text}");
        }
        assert!(matches!(leftover(".step-000000007.written"), Some((7, Stage::Written))));
        for text in
            ["step-000000007", ".step-000000007", ".step-7.written", ".lock", ".step-000000007.x"]
        {
            assert!(leftover(text).is_none(), "{text}");
        }
    }

    #[test]
    fn newest_steps_and_multiples_are_kept() {
        let expired = |last, every, steps: &[u64], damaged: &[u64]| {
            Retention { last, every }.expired(steps, &damaged.iter().copied().collect())
        };
        let steps = [100, 150, 200, 250, 300];
        assert_eq!(expired(None, None, &steps, &[]), [0u64; 0]);
        assert_eq!(expired(Some(2), None, &steps, &[]), [100, 150, 200]);
        assert_eq!(expired(Some(2), Some(100), &steps, &[]), [150]);
        assert_eq!(expired(Some(9), None, &steps, &[]), [0u64; 0]);
        assert_eq!(expired(Some(0), None, &steps, &[]), [100, 150, 200, 250]);
        // Steps 300 and 200 are damaged: the two intact ones stay, and 200 is between them.
        assert_eq!(expired(Some(2), Some(100), &steps, &[200, 300]), [0u64; 0]);
        assert_eq!(expired(Some(2), None, &steps, &[100, 300]), [100, 150]);
        assert_eq!(expired(Some(2), Some(100), &steps, &[100]), [100, 150]);
        assert_eq!(expired(Some(2), None, &[], &[]), [0u64; 0]);
        assert_eq!(expired(Some(2), None, &[100], &[100]), [0u64; 0]);
    }
}
