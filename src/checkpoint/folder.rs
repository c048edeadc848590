//! The checkpoints of a training run, in one folder.

use super::commit::{Commit, Prepared, expect_held};
use super::contents::Contents;
use super::fault::{Fault, Read, io_error, listed, refused};
use super::group::{self, SharedGroup, agree, agree_on_read};
use super::local_shards::LocalShards;
use super::object_storage::storage_of;
use super::reader::Reader;
use super::save::CHUNK_BYTES;
use super::snapshot::{Progress, Restored, Snapshot};
use super::span;
use super::steps::{Retention, StepFolder};
use super::storage::{FolderLock, SharedStorage};
use crate::core::{Array, Error, Loc};
use crate::tree::{self, Tree, TreeDef};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// The checkpoints of a training run: one folder per saved step.
///
/// Checkpoints are atomic. A step is written under a temporary name, synced to the disk and read
/// back, then renamed. If the process is killed at any instant, the previous checkpoint is intact,
/// and opening the folder again removes what was left. Checksums cover all bytes, and damaged
/// checkpoints are skipped when restoring.
///
/// Arrays sharded over a mesh are saved shard by shard. They are restored with the sharding of the
/// template, which may use another mesh.
///
/// [`Folder::save`] copies the arrays to the host and writes them on a background thread, one
/// checkpoint at a time. The next call reports an error of that thread. Dropping the folder waits
/// for it, and can only log an error: end with [`close`](Folder::close).
///
/// Only one program can have a folder open. On a disk this is checked. A step's folder holds
/// safetensors files, so [`open`](super::open) and [`load`](super::load) can read it at any time.
///
/// # Object stores
///
/// With the feature `remote`, `gs://bucket/run` and `s3://bucket/run` are folders like others. An
/// object appears complete or not at all. A step is visible once its manifest is, which is written
/// last, and it is removed by deleting the manifest first. Object stores have no locks: a program
/// that opens the folder takes it over, so that a restarted program need not wait. If the earlier
/// program still runs, its next save is an [`Error::Checkpoint`] that names both programs, and
/// saved steps are unchanged.
///
/// # Several processes
///
/// After `distributed::initialize`, all processes open one folder that they share, under the same
/// path, and call its methods in the same order with the same steps. Each process writes the shards
/// on its devices. The step appears after process 0 has checked that the files of all processes
/// hold every leaf exactly once. Each process reads the bytes that its devices need, also of
/// checkpoints from another number of processes.
///
/// - If a process fails, dies or does not arrive within `ClusterConfig::timeout`, the call fails on
///   all processes and older steps are unchanged. [`save`](Folder::save) itself returns only the
///   error of the previous save; its own is returned by the next call, on all processes.
/// - A leaf that is not on a mesh of several processes must have the same elements on all of them,
///   and is written by process 0.
/// - Notes are those of process 0. Each process restores its own position. If positions differ,
///   the checkpoint can be restored by the same number of processes only.
///
/// ```no_run
/// use oxidax::prelude::*;
/// use checkpoint::{Folder, Snapshot};
///
/// #[derive(Tree)]
/// struct Run { model: nn::Linear, optimizer: optim::State, key: random::Key }
/// # let pipeline = || data::Stream::new((0..9).map(Ok));
/// # fn step(run: Run, _: i32) -> Run { run }
///
/// let model = nn::Linear::new(random::key(0), 784, 10);
/// let optimizer = optim::adam(1e-3).init(&model);
/// let mut run = Run { model, optimizer, key: random::key(1) };
/// let mut folder = Folder::open("run")?.keep_last(3).keep_every(10_000);
/// let (mut batches, mut done) = (pipeline(), 0);
/// if let Some(restored) = folder.restore_latest(&run)? {
///     (run, done) = (restored.state, restored.step);
///     batches = batches.resume(&restored.position.unwrap_or_default())?;
/// }
/// while let Some(batch) = batches.next() {
///     run = step(run, batch?);
///     done += 1;
///     if done % 1000 == 0 {
///         folder.save(Snapshot::new(done, &run).position(batches.position()))?;
///     }
/// }
/// folder.close()?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "CheckpointManager")]
#[doc(alias = "AsyncCheckpointer")]
pub struct Folder {
    steps: StepFolder,
    group: SharedGroup,
    retention: Retention,
    /// Steps whose checkpoints are damaged.
    damaged: BTreeSet<u64>,
    /// The step being written, and the thread that writes it.
    writing: Option<(u64, JoinHandle<Result<(), Error>>)>,
    /// The lock. Process 0 has it.
    lock: Option<Arc<FolderLock>>,
}

impl Folder {
    /// Opens a run's folder, creating it if necessary, and removes what a killed process left
    /// behind.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if another program has it open. [`Error::Io`] if it cannot be written,
    /// an address is wrong, or the feature `remote` is needed and not enabled.
    pub fn open(path: impl AsRef<Path>) -> Result<Folder, Error> {
        let (storage, path) = storage_of(path.as_ref())?;
        Folder::open_in(storage, group::processes(&path), &path)
    }

    /// Opens a run's folder in a storage, for a group of processes.
    pub(super) fn open_in(
        storage: SharedStorage,
        group: SharedGroup,
        path: &Path,
    ) -> Result<Folder, Error> {
        let steps = StepFolder::new(storage, path);
        let lock = if group.index() == 0 { prepare(&steps).map(Some) } else { Ok(None) };
        let (lock, opened) = match lock {
            Ok(lock) => (lock, Ok(())),
            Err(error) => (None, Err(error)),
        };
        agree(&*group, path, "opening the folder", opened)?;
        Ok(Folder {
            steps,
            group,
            retention: Retention { last: None, every: None },
            damaged: BTreeSet::new(),
            writing: None,
            lock: lock.map(Arc::new),
        })
    }

    /// Keeps the `count` newest checkpoints (at least one) and removes older ones after each save.
    /// By default all are kept.
    #[must_use]
    #[doc(alias = "max_to_keep")]
    pub fn keep_last(mut self, count: usize) -> Folder {
        self.retention.last = Some(count);
        self
    }

    /// Also keeps checkpoints whose step is a multiple of `steps`.
    #[must_use]
    #[doc(alias = "keep_period")]
    pub fn keep_every(mut self, steps: u64) -> Folder {
        self.retention.every = Some(steps);
        self
    }

    /// Returns the saved steps, oldest first. Damaged ones are included, the one being written is
    /// not.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be read.
    pub fn steps(&self) -> Result<Vec<u64>, Error> {
        self.steps.list()
    }

    /// Returns the path of a step's checkpoint, which need not exist. Pass it to
    /// [`open`](super::open) to load a part of it, or into another model.
    pub fn path_of(&self, step: u64) -> PathBuf {
        self.steps.path(step)
    }

    /// Saves a checkpoint. Waits for the previous save and for arrays that are still being
    /// computed, copies the arrays to the host, and returns while a thread writes them. The state
    /// may be donated at once.
    ///
    /// A checkpoint of the same step is replaced.
    ///
    /// Throws `Tracer` if a leaf is traced.
    ///
    /// # Errors
    /// The error of the *previous* save, in which case this one has not started.
    /// [`Error::Checkpoint`] if later steps are saved (see [`remove_after`](Folder::remove_after)),
    /// if two leaves share a path, or if a note is not JSON. `Runtime` if the computation of a leaf
    /// failed. With several processes, the next call returns these errors, on all processes.
    #[track_caller]
    pub fn save<T: Tree>(&mut self, snapshot: Snapshot<'_, T>) -> Result<(), Error> {
        let Snapshot { state, progress } = snapshot;
        let _span = span("save", Loc::caller()).with("step", progress.step);
        self.wait()?;
        let step = progress.step;
        let prepared = self.prepare(progress, &TreeDef::of(state), &tree::leaves(state));
        self.write(step, prepared)
    }

    /// Copies what this process writes to the host.
    #[track_caller]
    fn prepare(
        &self,
        progress: Progress,
        structure: &TreeDef,
        leaves: &[Array],
    ) -> Result<Prepared, Error> {
        let step = progress.step;
        let path = self.path_of(step);
        progress.expect_valid(&path)?;
        let later = self.steps()?.into_iter().filter(|later| !self.damaged.contains(later)).max();
        if let Some(later) = later.filter(|later| *later > step) {
            let message = format!(
                "step {step} would be saved after the later step {later}\n  help: continue with \
                 `restore_latest`, remove later steps with `remove_after`, or open another folder"
            );
            return Err(refused(&path, message));
        }
        let shards = LocalShards::of_process(&path, structure, leaves, &*self.group)?;
        Ok(Prepared { shards, position: progress.position, notes: progress.notes })
    }

    /// Writes a step on a thread.
    pub(super) fn write(
        &mut self,
        step: u64,
        prepared: Result<Prepared, Error>,
    ) -> Result<(), Error> {
        // The other processes have to learn about an error, and that may take them a while.
        let prepared = match prepared {
            Err(error) if self.group.count() == 1 => return Err(error),
            prepared => prepared,
        };
        let (steps, group) = (self.steps.clone(), self.group.clone());
        let lock = self.lock.clone();
        let commit = Commit { steps, group, lock, step, chunk_bytes: CHUNK_BYTES };
        let (steps, retention, mut damaged) =
            (self.steps.clone(), self.retention, self.damaged.clone());
        let prune = move || {
            damaged.remove(&step);
            retention.prune(&steps, &damaged)
        };
        let thread = thread::Builder::new().name(format!("checkpoint of step {step}"));
        let work = move || {
            let _span = span("write", Loc::UNKNOWN).with("step", step);
            commit.run(prepared, prune)
        };
        let thread = thread.spawn(work);
        let thread = thread.map_err(|error| io_error(&self.path_of(step), error))?;
        self.writing = Some((step, thread));
        Ok(())
    }

    /// Returns true while a checkpoint is being written.
    pub fn is_saving(&self) -> bool {
        self.writing.as_ref().is_some_and(|(_, thread)| !thread.is_finished())
    }

    /// Waits until the checkpoint being written is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Checkpoint`] from the thread that writes, such as a full disk.
    /// Older checkpoints are unchanged.
    #[doc(alias = "wait_until_finished")]
    pub fn wait(&mut self) -> Result<(), Error> {
        let Some((step, thread)) = self.writing.take() else { return Ok(()) };
        let _span = span("wait", Loc::UNKNOWN).with("step", step);
        let outcome = thread.join().unwrap_or_else(|_| {
            let message = "the writing thread panicked; this is a bug in oxidax";
            Err(refused(&self.path_of(step), message))
        });
        if outcome.is_ok() {
            // A damaged checkpoint of this step has been replaced.
            self.damaged.remove(&step);
        }
        outcome
    }

    /// Waits for the last save and closes the folder. Unlike dropping it, this returns the error.
    ///
    /// # Errors
    /// As [`wait`](Folder::wait).
    pub fn close(mut self) -> Result<(), Error> {
        self.wait()
    }

    /// Restores the newest intact checkpoint, or returns `None` if nothing was saved. Damaged
    /// checkpoints are skipped, logged through `tracing`, and listed in [`Restored::skipped`].
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if a checkpoint does not match `template` (see [`Reader::load`]), has
    /// a newer format, or if all are damaged. [`Error::Io`] if a file cannot be read. The error of
    /// the previous save.
    #[track_caller]
    pub fn restore_latest<T: Tree>(&mut self, template: &T) -> Result<Option<Restored<T>>, Error> {
        let _span = span("restore", Loc::caller());
        self.wait()?;
        let restored = self.latest_leaves(&tree::paths(template), &tree::leaves(template))?;
        let unflatten = |leaves| tree::unflatten(template, leaves);
        Ok(restored.map(|restored| restored.with_state(unflatten)))
    }

    fn latest_leaves(
        &mut self,
        paths: &[String],
        leaves: &[Array],
    ) -> Result<Option<Restored<Vec<Array>>>, Error> {
        let mut skipped = Vec::new();
        // Process 0 lists the steps: another one could see a new step later.
        let listed_steps = agree(&*self.group, self.path(), "listing the steps", self.steps())?;
        for step in listed_steps.into_iter().next().unwrap_or_default().into_iter().rev() {
            match self.read_together(step, paths, leaves) {
                Ok(restored) => return Ok(Some(Restored { skipped, ..restored })),
                Err(fault) if fault.damage => {
                    tracing::warn!(step, error = %fault.error, "skipped a damaged checkpoint");
                    self.damaged.insert(step);
                    skipped.push(fault.error);
                }
                Err(fault) => return Err(fault.error),
            }
        }
        if skipped.is_empty() {
            return Ok(None);
        }
        let errors = listed(skipped.iter().map(Error::to_string).collect());
        let message = format!(
            "all {} checkpoints are damaged:\n  {errors}\n  help: start again in another folder",
            skipped.len()
        );
        Err(refused(self.path(), message))
    }

    /// Restores the checkpoint of one step.
    ///
    /// # Errors
    /// As [`restore_latest`](Folder::restore_latest), and [`Error::Checkpoint`] if the step was not
    /// saved or is damaged.
    #[track_caller]
    pub fn restore<T: Tree>(&mut self, step: u64, template: &T) -> Result<Restored<T>, Error> {
        let _span = span("restore", Loc::caller()).with("step", step);
        self.wait()?;
        let steps = self.steps().and_then(|steps| {
            if steps.contains(&step) {
                return Ok(());
            }
            let saved: Vec<String> = steps.iter().map(u64::to_string).collect();
            let saved = if saved.is_empty() { "none".into() } else { saved.join(", ") };
            let message =
                format!("step {step} was not saved here, or removed; saved steps: {saved}");
            Err(refused(self.path(), message))
        });
        agree(&*self.group, self.path(), &format!("finding step {step}"), steps)?;
        let read = self.read_together(step, &tree::paths(template), &tree::leaves(template));
        if read.as_ref().is_err_and(|fault| fault.damage) {
            self.damaged.insert(step);
        }
        Ok(read?.with_state(|leaves| tree::unflatten(template, leaves)))
    }

    /// Removes the checkpoints of all steps after `step`, to continue from there.
    ///
    /// # Errors
    /// [`Error::Io`] if one cannot be removed. The error of the previous save.
    pub fn remove_after(&mut self, step: u64) -> Result<(), Error> {
        self.wait()?;
        let remove = || {
            expect_held(self.lock.as_deref(), self.path())?;
            // Newest first: if this is interrupted, the remaining steps are still contiguous.
            let steps = self.steps()?;
            let mut later = steps.into_iter().rev().take_while(|later| *later > step);
            later.try_for_each(|later| self.steps.remove(later))
        };
        let removed = if self.group.index() == 0 { remove() } else { Ok(()) };
        let stage = format!("removing the steps after {step}");
        agree(&*self.group, self.path(), &stage, removed).map(drop)
    }

    /// Removes the checkpoint of one step. Does nothing if there is none.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be removed. The error of the previous save.
    #[doc(alias = "CheckpointManager.delete")]
    pub fn remove(&mut self, step: u64) -> Result<(), Error> {
        self.wait()?;
        let remove = || {
            expect_held(self.lock.as_deref(), self.path())?;
            match self.steps()?.contains(&step) {
                true => self.steps.remove(step),
                false => Ok(()),
            }
        };
        let removed = if self.group.index() == 0 { remove() } else { Ok(()) };
        agree(&*self.group, self.path(), &format!("removing step {step}"), removed).map(drop)
    }

    /// Returns a note of a step's checkpoint without reading its arrays, or `None` if it does not
    /// have one of this name. See [`Snapshot::note`].
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if the step was not saved, is damaged, or the note has another type.
    pub fn note<V: DeserializeOwned>(&self, step: u64, name: &str) -> Result<Option<V>, Error> {
        let path = self.path_of(step);
        let reader = Reader::of(Contents::checkpoint(&self.steps.storage, &path)?);
        let manifest = reader.into_contents().manifest.expect("a checkpoint has a manifest");
        let Some(value) = manifest.notes.get(name) else { return Ok(None) };
        let note = V::deserialize(value);
        note.map(Some).map_err(|error| refused(&path, format!("note `{name}` is {value}: {error}")))
    }

    fn path(&self) -> &Path {
        &self.steps.folder
    }

    /// Reads a step in all processes, and fails in all of them if it fails in one.
    fn read_together(
        &self,
        step: u64,
        paths: &[String],
        leaves: &[Array],
    ) -> Read<Restored<Vec<Array>>> {
        let (restored, outcome) = match self.read(step, paths, leaves) {
            Ok(restored) => (Some(restored), Ok(())),
            Err(fault) => (None, Err(fault)),
        };
        let stage = format!("restoring step {step}");
        agree_on_read(&*self.group, &self.path_of(step), &stage, outcome)?;
        restored.ok_or_else(|| Fault::from(refused(self.path(), "an error was not reported")))
    }

    fn read(&self, step: u64, paths: &[String], leaves: &[Array]) -> Read<Restored<Vec<Array>>> {
        let path = self.path_of(step);
        let reader = Reader::of(Contents::checkpoint(&self.steps.storage, &path)?);
        let state = reader.read(paths, leaves.to_vec())?;
        let manifest = reader.into_contents().manifest.expect("a checkpoint has a manifest");
        if manifest.step != step {
            let message = format!(
                "this is the checkpoint of step {}\n  help: rename the folder to its original name",
                manifest.step
            );
            return Err(refused(&path, message).into());
        }
        #[cfg(feature = "data")]
        let position = {
            let (saved, count) = (manifest.positions.len(), self.group.count());
            if saved != 0 && saved != count {
                let message = format!(
                    "the {saved} processes that saved it had different positions in their data, and \
                     {count} restore it\n  help: read the arrays with `checkpoint::load`, and \
                     choose where the data continues"
                );
                return Err(refused(&path, message).into());
            }
            let mut positions = manifest.positions;
            if saved == 0 { manifest.position } else { positions.swap_remove(self.group.index()) }
        };
        Ok(Restored {
            step,
            state,
            #[cfg(feature = "data")]
            position,
            skipped: Vec::new(),
            path,
            notes: manifest.notes,
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = self.wait() {
            tracing::error!(%error, "the last checkpoint was not saved");
        }
    }
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Folder({})", self.path().display())
    }
}

/// Creates and locks a run's folder, and removes what killed processes left behind.
fn prepare(steps: &StepFolder) -> Result<FolderLock, Error> {
    let StepFolder { storage, folder } = steps;
    let failed = |error| io_error(folder, error);
    storage.create_folders(folder).map_err(failed)?;
    let lock = match storage.lock(folder).map_err(failed)? {
        Ok(lock) => lock,
        Err(holder) => {
            let holder = holder.trim().parse::<u32>();
            let holder = holder.map_or("a process".into(), |id| format!("process {id}"));
            let message = format!(
                "{holder} has the folder open, and only one run can save into it\n  help: wait for its \
                 end, or open another folder; `checkpoint::open` can read a step's folder meanwhile"
            );
            return Err(refused(folder, message));
        }
    };
    steps.clean()?;
    Ok(lock)
}
