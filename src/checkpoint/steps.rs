//! The folder of a run: one folder per step, created, replaced and removed by renaming.
//!
//! Names of unfinished operations begin with a dot. At every instant the names without a dot are
//! complete checkpoints, and what a killed process leaves behind can be recognized and repaired. On
//! a storage that cannot rename, files have their final place from the beginning: a step exists
//! once it has a manifest, and files that the manifest does not list are left over.

use super::fault::{io_error, refused};
use super::manifest::{self, Manifest};
use super::storage::{EntryKind, SharedStorage};
use crate::core::Error;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

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
}

fn name(step: u64) -> String {
    format!("step-{step:09}")
}

/// Parses a folder name created by [`name`].
fn step_of(text: &str) -> Option<u64> {
    let step = text.strip_prefix("step-")?.parse().ok()?;
    (name(step) == text).then_some(step)
}

/// Parses the name of an unfinished operation, `.STEP.STAGE` or `.STEP.ATTEMPT.STAGE`: its step and
/// stage.
fn leftover(text: &str) -> Option<(u64, Stage)> {
    let (step, rest) = text.strip_prefix('.')?.split_once('.')?;
    let stage = match rest.split_once('.') {
        Some((attempt, stage)) if is_attempt(attempt) => stage,
        Some(_) => return None,
        None => rest,
    };
    let stage = Stage::ALL.into_iter().find(|known| known.name() == stage)?;
    Some((step_of(step)?, stage))
}

/// Number of digits of an attempt.
const ATTEMPT_DIGITS: usize = 16;

fn is_attempt(text: &str) -> bool {
    text.len() == ATTEMPT_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns a number for an attempt to save, which no other attempt has.
pub(super) fn new_attempt() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    format!("{:0width$x}", RandomState::new().build_hasher().finish(), width = ATTEMPT_DIGITS)
}

/// The folder of a run's steps in a storage.
#[derive(Clone)]
pub(super) struct StepFolder {
    pub(super) storage: SharedStorage,
    pub(super) folder: PathBuf,
}

impl StepFolder {
    pub(super) fn new(storage: SharedStorage, folder: &Path) -> StepFolder {
        StepFolder { storage, folder: folder.to_path_buf() }
    }

    /// Returns the path of a step's checkpoint.
    pub(super) fn path(&self, step: u64) -> PathBuf {
        self.folder.join(name(step))
    }

    fn stage(&self, step: u64, stage: Stage) -> PathBuf {
        self.folder.join(format!(".{}.{}", name(step), stage.name()))
    }

    /// Returns the folder in which an attempt writes a step's files. Several processes use a new
    /// name for each attempt: a late process must not write into the next one.
    pub(super) fn staging(&self, step: u64, attempt: Option<&str>) -> PathBuf {
        match attempt {
            _ if !self.storage.renames() => self.path(step),
            Some(attempt) => {
                let stage = Stage::Written.name();
                self.folder.join(format!(".{}.{attempt}.{stage}", name(step)))
            }
            None => self.stage(step, Stage::Written),
        }
    }

    fn names(&self) -> Result<Vec<(String, EntryKind)>, Error> {
        self.storage.list(&self.folder).map_err(|error| io_error(&self.folder, error))
    }

    /// Returns the saved steps, oldest first.
    pub(super) fn list(&self) -> Result<Vec<u64>, Error> {
        let mut steps = Vec::new();
        for (name, kind) in self.names()? {
            if let (Some(step), EntryKind::Folder) = (step_of(&name), kind)
                && self.is_visible(step)?
            {
                steps.push(step);
            }
        }
        steps.sort_unstable();
        Ok(steps)
    }

    fn is_visible(&self, step: u64) -> Result<bool, Error> {
        // A renamed folder was complete; if its manifest is missing, it was damaged.
        if self.storage.renames() {
            return Ok(true);
        }
        let manifest = self.path(step).join(manifest::NAME);
        let kind = self.storage.kind(&manifest).map_err(|error| io_error(&manifest, error))?;
        Ok(kind.is_some())
    }

    /// Repairs what killed processes left behind.
    pub(super) fn clean(&self) -> Result<(), Error> {
        let mut changed = false;
        for (name, _) in self.names()? {
            if let Some((step, stage)) = leftover(&name) {
                let (aside, place) = (self.folder.join(&name), self.path(step));
                changed = true;
                let is_missing = self.kind(&place)?.is_none();
                if stage == Stage::Replaced && is_missing {
                    self.storage.rename(&aside, &place).map_err(|e| io_error(&aside, e))?;
                } else {
                    self.delete(&aside)?;
                }
            } else if let (Some(step), false) = (step_of(&name), self.storage.renames()) {
                self.delete_unlisted(step)?;
            }
        }
        if changed { self.sync(&self.folder) } else { Ok(()) }
    }

    /// Removes the files of a step that its manifest does not list, or all if there is none.
    fn delete_unlisted(&self, step: u64) -> Result<(), Error> {
        let place = self.path(step);
        if !self.is_visible(step)? {
            return self.delete(&place);
        }
        // The files of a damaged manifest are kept: somebody may repair it.
        let Ok(manifest) = Manifest::read(&*self.storage, &place) else { return Ok(()) };
        let listed = manifest.files.iter().map(|file| file.name.as_str());
        let listed: BTreeSet<&str> = listed.chain([manifest::NAME]).collect();
        let names = self.storage.list(&place).map_err(|error| io_error(&place, error))?;
        let mut unlisted = names.iter().filter(|(name, _)| !listed.contains(name.as_str()));
        unlisted.try_for_each(|(name, _)| self.delete(&place.join(name)))
    }

    fn kind(&self, path: &Path) -> Result<Option<EntryKind>, Error> {
        self.storage.kind(path).map_err(|error| io_error(path, error))
    }

    fn delete(&self, path: &Path) -> Result<(), Error> {
        self.storage.remove(path).map_err(|error| io_error(path, error))
    }

    fn sync(&self, folder: &Path) -> Result<(), Error> {
        self.storage.sync_folder(folder).map_err(|error| io_error(folder, error))
    }

    /// Removes a checkpoint: first its name or manifest, atomically, then its files.
    pub(super) fn remove(&self, step: u64) -> Result<(), Error> {
        let place = self.path(step);
        if !self.storage.renames() {
            self.delete(&place.join(manifest::NAME))?;
            return self.delete(&place);
        }
        let aside = self.stage(step, Stage::Removed);
        self.delete(&aside)?;
        self.storage.rename(&place, &aside).map_err(|error| io_error(&place, error))?;
        self.sync(&self.folder)?;
        self.delete(&aside)
    }

    /// Creates the folder for an attempt to save a step.
    pub(super) fn begin(&self, step: u64, attempt: Option<&str>) -> Result<PathBuf, Error> {
        let staging = self.staging(step, attempt);
        let created = if self.storage.renames() {
            self.delete(&staging)?;
            self.storage.create_folder(&staging)
        } else {
            self.storage.create_folders(&staging)
        };
        created.map_err(|error| io_error(&staging, error))?;
        Ok(staging)
    }

    /// Writes the manifest of a complete attempt, and makes the step visible. Until then an older
    /// checkpoint of the same step stays in place.
    pub(super) fn publish(&self, staging: &Path, manifest: &Manifest) -> Result<(), Error> {
        let (step, storage) = (manifest.step, &self.storage);
        if !storage.renames() {
            manifest.write(&**storage, staging)?;
            return self.delete_unlisted(step);
        }
        manifest.write(&**storage, staging)?;
        self.sync(staging)?;
        let (place, replaced) = (self.path(step), self.stage(step, Stage::Replaced));
        let occupied = self.kind(&place)?;
        if occupied == Some(EntryKind::File) {
            let message =
                "a file of this name is in the way of the checkpoint\n  help: move it away";
            return Err(refused(&place, message));
        }
        if occupied.is_some() {
            self.delete(&replaced)?;
            storage.rename(&place, &replaced).map_err(|error| io_error(&place, error))?;
        }
        if let Err(error) = storage.rename(staging, &place) {
            // Best effort: otherwise opening the folder again restores the old checkpoint.
            drop(storage.rename(&replaced, &place));
            return Err(io_error(&place, error));
        }
        self.sync(&self.folder)?;
        self.delete(&replaced)
    }

    /// Removes what a failed attempt has written.
    pub(super) fn abandon(&self, step: u64, attempt: Option<&str>) {
        // Best effort: the original error is returned. Opening the folder again removes the rest.
        if self.storage.renames() {
            drop(self.storage.remove(&self.staging(step, attempt)));
        } else {
            drop(self.delete_unlisted(step));
        }
    }
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

    pub(super) fn prune(self, steps: &StepFolder, damaged: &BTreeSet<u64>) -> Result<(), Error> {
        let expired = self.expired(&steps.list()?, damaged);
        expired.into_iter().try_for_each(|step| steps.remove(step))
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
        let attempt = format!(".step-000000007.{}.written", new_attempt());
        assert!(matches!(leftover(&attempt), Some((7, Stage::Written))));
        assert!(leftover(".step-000000007.x.written").is_none());
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
