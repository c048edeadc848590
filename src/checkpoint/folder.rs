//! A run's checkpoints in one folder.

use super::contents::Contents;
use super::fault::{Read, io_error, listed, refused};
use super::manifest::Manifest;
use super::reader::Reader;
use super::save::{Gathered, ShardLayout, gather};
use super::snapshot::{Restored, Snapshot};
use super::steps::{self, Keep};
use crate::core::Error;
use crate::tree::{self, Tree, TreeDef};
use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

/// The file whose lock says that a process saves here.
const LOCK: &str = ".lock";

/// A run's checkpoints: one folder for each step that was saved, the newest first to go on from.
///
/// A checkpoint is there whole or not at all: it is written under another name, through to the disk, then renamed. A process
/// that is killed at any instant leaves the last good one, and what it had begun is removed when the folder
/// is opened again. Checksums cover all bytes, and a checkpoint that was damaged later is passed over.
///
/// Arrays that are spread over a mesh are saved in the pieces that devices have, and restored to however those of the
/// template lie, on another mesh say.
///
/// Saving copies the arrays to the host and writes them from a thread of its own while training goes on; one
/// checkpoint at a time. What that thread met is told by the next call. Dropping the folder waits for it.
///
/// One process at a time has a folder open; the lock ends with the process. A step's folder
/// holds safetensors, so [`open`](super::open) and [`load`](super::load) read it from anywhere.
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
    keep: Keep,
    /// Steps whose checkpoints were found to be damaged.
    damaged: BTreeSet<u64>,
    /// The thread that writes, and its step.
    writing: Option<(u64, JoinHandle<Result<(), Error>>)>,
    /// Held for its lock.
    _lock: File,
}

impl Folder {
    /// Opens a run's folder, making it if it is not there, and removes what a process that was killed had begun.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if another process has it open; [`Error::Io`] if it cannot be written.
    pub fn open(path: impl AsRef<Path>) -> Result<Folder, Error> {
        let path = path.as_ref();
        fs::create_dir_all(path).map_err(|error| io_error(path, error))?;
        let lock = lock(path)?;
        steps::clean(path)?;
        Ok(Folder {
            path: path.to_path_buf(),
            keep: Keep { last: None, every: None },
            damaged: BTreeSet::new(),
            writing: None,
            _lock: lock,
        })
    }

    /// Keeps the `count` newest checkpoints and removes older ones after each save; without this all are kept.
    /// At least one is.
    #[must_use]
    #[doc(alias = "max_to_keep")]
    pub fn keep_last(mut self, count: usize) -> Folder {
        self.keep.last = Some(count);
        self
    }

    /// Keeps, besides, those whose step is a multiple of `steps`.
    #[must_use]
    #[doc(alias = "keep_period")]
    pub fn keep_every(mut self, steps: u64) -> Folder {
        self.keep.every = Some(steps);
        self
    }

    /// The steps that have a checkpoint on the disk, the oldest first; damaged ones too, and not the one that is
    /// being written.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be read.
    pub fn steps(&self) -> Result<Vec<u64>, Error> {
        steps::list(&self.path)
    }

    /// Where the checkpoint of a step lies, or would lie: for [`open`](super::open), which loads a part of it, or
    /// into another model.
    pub fn path_of(&self, step: u64) -> PathBuf {
        steps::path(&self.path, step)
    }

    /// Saves a checkpoint. Waits for the one before, copies the arrays to the host, waiting for those that are
    /// still being computed, and returns while a thread writes them: the state may be donated at once.
    ///
    /// A checkpoint of the same step is replaced.
    ///
    /// Throws `Tracer` if a leaf is traced.
    ///
    /// # Errors
    /// What writing the checkpoint *before* met, in which case this one was not begun.
    /// [`Error::Checkpoint`] if there are checkpoints of later steps, as when an older one was gone back to
    /// (see [`remove_after`](Folder::remove_after)), if two leaves share a path, or if a note is no JSON;
    /// `Runtime` if the computation of a leaf failed.
    #[track_caller]
    pub fn save<T: Tree>(&mut self, snapshot: Snapshot<'_, T>) -> Result<(), Error> {
        self.wait()?;
        let step = snapshot.step;
        let place = self.path_of(step);
        snapshot.expect_sound(&place)?;
        let later = self.steps()?.into_iter().filter(|later| !self.damaged.contains(later)).max();
        if let Some(later) = later.filter(|later| *later > step) {
            let message = format!(
                "step {step} would be saved behind step {later}, and would not be the latest\n  help: go on \
                 with `restore_latest`, give up later steps with `remove_after`, or open another folder"
            );
            return Err(refused(&place, message));
        }
        let state = snapshot.state;
        let (structure, leaves) = (TreeDef::of(state), tree::leaves(state));
        let Gathered { arrays, sharded, leaves } =
            gather(&place, &structure, &leaves, ShardLayout::Separate)?;
        let manifest = Manifest::new(step, snapshot.position, snapshot.notes, sharded);
        let (folder, keep, mut damaged) = (self.path.clone(), self.keep, self.damaged.clone());
        let write = move || {
            // Older steps are removed only after the new one was read back and found complete.
            steps::write(&folder, arrays, manifest, &leaves)?;
            damaged.remove(&step);
            keep.prune(&folder, &damaged)
        };
        let thread = thread::Builder::new().name(format!("checkpoint of step {step}"));
        let thread = thread.spawn(write).map_err(|error| io_error(&place, error))?;
        self.writing = Some((step, thread));
        Ok(())
    }

    /// Waits until the checkpoint that is being written is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Checkpoint`] with what the thread met: a full disk, a folder that is gone. The
    /// checkpoints before are as they were.
    pub fn wait(&mut self) -> Result<(), Error> {
        let Some((step, thread)) = self.writing.take() else { return Ok(()) };
        let outcome = thread.join().unwrap_or_else(|_| {
            let message = "the thread that writes panicked, which is a bug in oxidax";
            Err(refused(&self.path_of(step), message))
        });
        if outcome.is_ok() {
            // One that was damaged has been replaced.
            self.damaged.remove(&step);
        }
        outcome
    }

    /// The newest checkpoint that is whole, or `None` if nothing was ever saved. Those that were damaged are passed
    /// over, logged through `tracing`, and listed in [`Restored::passed_over`].
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if a checkpoint does not fit `template` (as [`Reader::load`] says it) or is of a newer
    /// format, and if all are damaged; [`Error::Io`] if a file cannot be read; what the thread that writes
    /// met.
    pub fn restore_latest<T: Tree>(&mut self, template: &T) -> Result<Option<Restored<T>>, Error> {
        self.wait()?;
        let mut passed_over = Vec::new();
        for step in self.steps()?.into_iter().rev() {
            match self.read(step, template) {
                Ok(restored) => return Ok(Some(Restored { passed_over, ..restored })),
                Err(fault) if fault.damage => {
                    tracing::warn!(step, error = %fault.error, "a damaged checkpoint is passed over");
                    self.damaged.insert(step);
                    passed_over.push(fault.error);
                }
                Err(fault) => return Err(fault.error),
            }
        }
        if passed_over.is_empty() {
            return Ok(None);
        }
        let why = listed(passed_over.iter().map(Error::to_string).collect());
        let message = format!(
            "all {} checkpoints are damaged:\n  {why}\n  help: begin again in another folder",
            passed_over.len()
        );
        Err(refused(&self.path, message))
    }

    /// The checkpoint of one step.
    ///
    /// # Errors
    /// As [`restore_latest`](Folder::restore_latest); [`Error::Checkpoint`] also if the step was not saved,
    /// or is damaged.
    pub fn restore<T: Tree>(&mut self, step: u64, template: &T) -> Result<Restored<T>, Error> {
        self.wait()?;
        let steps = self.steps()?;
        if !steps.contains(&step) {
            let there: Vec<String> = steps.iter().map(u64::to_string).collect();
            let there = if there.is_empty() { "none".into() } else { there.join(", ") };
            let message = format!("step {step} was not saved here, or removed; there is {there}");
            return Err(refused(&self.path, message));
        }
        let read = self.read(step, template);
        if read.as_ref().is_err_and(|fault| fault.damage) {
            self.damaged.insert(step);
        }
        Ok(read?)
    }

    /// Removes the checkpoints of all steps after `step`: to go on from there otherwise.
    ///
    /// # Errors
    /// [`Error::Io`] if one cannot be removed; what the thread that writes met.
    pub fn remove_after(&mut self, step: u64) -> Result<(), Error> {
        self.wait()?;
        // From the newest on, so that what is left when this is cut short is the beginning of the run.
        let mut later = self.steps()?.into_iter().rev().take_while(|later| *later > step);
        later.try_for_each(|later| steps::remove(&self.path, later))
    }

    fn read<T: Tree>(&self, step: u64, template: &T) -> Read<Restored<T>> {
        let path = self.path_of(step);
        let reader = Reader::of(Contents::checkpoint(&path)?);
        let state = reader.read(template)?;
        let manifest = reader.into_contents().manifest.expect("a checkpoint has a manifest");
        if manifest.step != step {
            let message = format!(
                "it is the checkpoint of step {}\n  help: give the folder its name back",
                manifest.step
            );
            return Err(refused(&path, message).into());
        }
        Ok(Restored {
            step,
            state,
            #[cfg(feature = "data")]
            position: manifest.position,
            passed_over: Vec::new(),
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

/// Takes the folder for this process, until the file is closed.
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
                "{holder} has the folder open, and one run at a time saves into a folder\n  help: wait for its \
                 end, or open another folder; `checkpoint::open` reads a step's folder meanwhile"
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
