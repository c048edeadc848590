//! The checkpoints of a training run, in one folder.

use super::contents::Contents;
use super::fault::{Read, io_error, listed, refused};
use super::manifest::Manifest;
use super::reader::Reader;
use super::save::{Gathered, ShardLayout, gather};
use super::snapshot::{Progress, Restored, Snapshot};
use super::steps::{self, Retention};
use crate::core::{Array, Error};
use crate::tree::{self, Tree, TreeDef};
use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

/// The file that is locked while a process has the folder open.
const LOCK: &str = ".lock";

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
/// for it.
///
/// Only one process can have a folder open. A step's folder holds safetensors files, so
/// [`open`](super::open) and [`load`](super::load) can read it at any time.
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
/// folder.wait()?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "CheckpointManager")]
pub struct Folder {
    path: PathBuf,
    retention: Retention,
    /// Steps whose checkpoints are damaged.
    damaged: BTreeSet<u64>,
    /// The step being written, and the thread that writes it.
    writing: Option<(u64, JoinHandle<Result<(), Error>>)>,
    /// Keeps the lock.
    _lock: File,
}

impl Folder {
    /// Opens a run's folder, creating it if necessary, and removes what a killed process left
    /// behind.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if another process has it open. [`Error::Io`] if it cannot be written.
    pub fn open(path: impl AsRef<Path>) -> Result<Folder, Error> {
        let path = path.as_ref();
        fs::create_dir_all(path).map_err(|error| io_error(path, error))?;
        let lock = lock(path)?;
        steps::clean(path)?;
        Ok(Folder {
            path: path.to_path_buf(),
            retention: Retention { last: None, every: None },
            damaged: BTreeSet::new(),
            writing: None,
            _lock: lock,
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
        steps::list(&self.path)
    }

    /// Returns the path of a step's checkpoint, which need not exist. Pass it to
    /// [`open`](super::open) to load a part of it, or into another model.
    pub fn path_of(&self, step: u64) -> PathBuf {
        steps::path(&self.path, step)
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
    /// if two leaves share a path, if a note is not JSON, or if a leaf has shards that are only on
    /// devices of other processes (not supported yet). `Runtime` if the computation of a leaf
    /// failed.
    #[track_caller]
    pub fn save<T: Tree>(&mut self, snapshot: Snapshot<'_, T>) -> Result<(), Error> {
        let Snapshot { state, progress } = snapshot;
        self.wait()?;
        self.save_leaves(progress, &TreeDef::of(state), &tree::leaves(state))
    }

    #[track_caller]
    fn save_leaves(
        &mut self,
        progress: Progress,
        structure: &TreeDef,
        leaves: &[Array],
    ) -> Result<(), Error> {
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
        let Gathered { arrays, sharded, leaves } =
            gather(&path, structure, leaves, ShardLayout::Separate)?;
        let manifest = Manifest::new(step, progress.position, progress.notes, sharded);
        let (folder, retention, mut damaged) =
            (self.path.clone(), self.retention, self.damaged.clone());
        let write = move || {
            // Older steps are removed only after the new one was read back and found complete.
            steps::write(&folder, arrays, manifest, &leaves)?;
            damaged.remove(&step);
            retention.prune(&folder, &damaged)
        };
        let thread = thread::Builder::new().name(format!("checkpoint of step {step}"));
        let thread = thread.spawn(write).map_err(|error| io_error(&path, error))?;
        self.writing = Some((step, thread));
        Ok(())
    }

    /// Waits until the checkpoint being written is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Checkpoint`] from the thread that writes, such as a full disk.
    /// Older checkpoints are unchanged.
    pub fn wait(&mut self) -> Result<(), Error> {
        let Some((step, thread)) = self.writing.take() else { return Ok(()) };
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

    /// Restores the newest intact checkpoint, or returns `None` if nothing was saved. Damaged
    /// checkpoints are skipped, logged through `tracing`, and listed in [`Restored::skipped`].
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if a checkpoint does not match `template` (see [`Reader::load`]), has
    /// a newer format, or if all are damaged. [`Error::Io`] if a file cannot be read. The error of
    /// the previous save.
    pub fn restore_latest<T: Tree>(&mut self, template: &T) -> Result<Option<Restored<T>>, Error> {
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
        for step in self.steps()?.into_iter().rev() {
            match self.read(step, paths, leaves) {
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
        Err(refused(&self.path, message))
    }

    /// Restores the checkpoint of one step.
    ///
    /// # Errors
    /// As [`restore_latest`](Folder::restore_latest), and [`Error::Checkpoint`] if the step was not
    /// saved or is damaged.
    pub fn restore<T: Tree>(&mut self, step: u64, template: &T) -> Result<Restored<T>, Error> {
        self.wait()?;
        let steps = self.steps()?;
        if !steps.contains(&step) {
            let saved: Vec<String> = steps.iter().map(u64::to_string).collect();
            let saved = if saved.is_empty() { "none".into() } else { saved.join(", ") };
            let message =
                format!("step {step} was not saved here, or removed; saved steps: {saved}");
            return Err(refused(&self.path, message));
        }
        let read = self.read(step, &tree::paths(template), &tree::leaves(template));
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
        // Newest first: if this is interrupted, the remaining steps are still contiguous.
        let mut later = self.steps()?.into_iter().rev().take_while(|later| *later > step);
        later.try_for_each(|later| steps::remove(&self.path, later))
    }

    fn read(&self, step: u64, paths: &[String], leaves: &[Array]) -> Read<Restored<Vec<Array>>> {
        let path = self.path_of(step);
        let reader = Reader::of(Contents::checkpoint(&path)?);
        let state = reader.read(paths, leaves.to_vec())?;
        let manifest = reader.into_contents().manifest.expect("a checkpoint has a manifest");
        if manifest.step != step {
            let message = format!(
                "this is the checkpoint of step {}\n  help: rename the folder to its original name",
                manifest.step
            );
            return Err(refused(&path, message).into());
        }
        Ok(Restored {
            step,
            state,
            #[cfg(feature = "data")]
            position: manifest.position,
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
        write!(f, "Folder({})", self.path.display())
    }
}

/// Locks the folder for this process until the file is closed.
fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join(LOCK);
    let open = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = open.map_err(|error| io_error(&path, error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = fs::read_to_string(&path).unwrap_or_default();
            let holder = holder.trim().parse::<u32>();
            let holder = holder.map_or("a process".into(), |id| format!("process {id}"));
            let message = format!(
                "{holder} has the folder open, and only one run can save into it\n  help: wait for its \
                 end, or open another folder; `checkpoint::open` can read a step's folder meanwhile"
            );
            return Err(refused(folder, message));
        }
        Err(TryLockError::Error(error)) => return Err(io_error(&path, error)),
    }
    let id = std::process::id().to_string();
    let noted = file.set_len(0).and_then(|()| file.write_all(id.as_bytes()));
    noted.map_err(|error| io_error(&path, error))?;
    Ok(file)
}
