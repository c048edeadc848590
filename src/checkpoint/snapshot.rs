//! The contents of a run's checkpoint, before saving and after restoring.

use super::Position;
use super::fault::refused;
use crate::core::Error;
use crate::tree::Tree;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A run's state after a step: its arrays, the data position and notes. Saved by
/// [`Folder::save`](super::Folder::save).
///
/// ```
/// use oxidax::prelude::*;
/// # let state = (1, "no arrays here");
/// # let batches = data::Stream::new([1, 2].map(Ok));
/// let snapshot = checkpoint::Snapshot::new(1200, &state)
///     .position(batches.position())
///     .note("loss", &0.25);
/// # drop(snapshot);
/// ```
pub struct Snapshot<'a, T> {
    pub(super) state: &'a T,
    pub(super) progress: Progress,
}

/// The part of a snapshot that is not an array.
pub(super) struct Progress {
    pub(super) step: u64,
    pub(super) position: Option<Position>,
    pub(super) notes: BTreeMap<String, serde_json::Value>,
    /// Errors of notes that could not be converted to JSON.
    invalid_notes: Vec<String>,
}

impl<'a, T: Tree> Snapshot<'a, T> {
    /// Creates a snapshot of the arrays of `state` (model, optimizer state, random keys: any tree)
    /// after `step` steps.
    pub fn new(step: u64, state: &'a T) -> Snapshot<'a, T> {
        let (notes, invalid_notes) = (BTreeMap::new(), Vec::new());
        Snapshot { state, progress: Progress { step, position: None, notes, invalid_notes } }
    }

    /// Adds the position of the training data: the [`position`](crate::data::Stream::position)
    /// after the step's batch. Positions of further streams can be stored as notes.
    #[cfg(feature = "data")]
    #[must_use]
    pub fn position(mut self, position: Position) -> Snapshot<'a, T> {
        self.progress.position = Some(position);
        self
    }

    /// Adds a small value of any type that serde can write as JSON. Numbers are restored exactly.
    /// JSON has no NaN and infinities: they are stored as null, which an `Option<f64>` reads as
    /// `None`.
    #[must_use]
    pub fn note(mut self, name: &str, value: &impl Serialize) -> Snapshot<'a, T> {
        match serde_json::to_value(value) {
            Ok(value) => drop(self.progress.notes.insert(name.to_owned(), value)),
            Err(error) => self.progress.invalid_notes.push(format!("note `{name}`: {error}")),
        }
        self
    }
}

impl Progress {
    /// Returns an error if a note could not be converted.
    pub(super) fn expect_valid(&self, path: &Path) -> Result<(), Error> {
        if self.invalid_notes.is_empty() {
            return Ok(());
        }
        Err(refused(path, self.invalid_notes.join("\n  ")))
    }
}

/// A run's restored state, returned by [`Folder::restore_latest`](super::Folder::restore_latest).
#[derive(Debug)]
#[non_exhaustive]
pub struct Restored<T> {
    /// The number of completed steps.
    pub step: u64,
    /// The arrays, in the template's structure.
    pub state: T,
    /// The position of the training data, if it was saved.
    #[cfg(feature = "data")]
    pub position: Option<Position>,
    /// The errors of newer, damaged checkpoints that were skipped, newest first.
    pub skipped: Vec<Error>,
    pub(super) path: PathBuf,
    pub(super) notes: BTreeMap<String, serde_json::Value>,
}

impl<T> Restored<T> {
    pub(super) fn with_state<U>(self, state: impl FnOnce(T) -> U) -> Restored<U> {
        Restored {
            step: self.step,
            state: state(self.state),
            #[cfg(feature = "data")]
            position: self.position,
            skipped: self.skipped,
            path: self.path,
            notes: self.notes,
        }
    }

    /// Returns a value saved with [`Snapshot::note`].
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if there is no note of this name, or it has another type.
    pub fn note<V: DeserializeOwned>(&self, name: &str) -> Result<V, Error> {
        let Some(value) = self.notes.get(name) else {
            let names: Vec<String> = self.notes.keys().map(|name| format!("`{name}`")).collect();
            let saved = if names.is_empty() { "none".into() } else { names.join(", ") };
            return Err(refused(
                &self.path,
                format!("there is no note `{name}`; saved notes: {saved}"),
            ));
        };
        V::deserialize(value)
            .map_err(|error| refused(&self.path, format!("note `{name}` is {value}: {error}")))
    }
}
