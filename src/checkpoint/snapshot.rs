//! What is saved of a run, and what comes back.

use super::Position;
use super::fault::refused;
use crate::core::Error;
use crate::tree::Tree;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A run after some step: its arrays, and what is no array. Saved by [`Folder::save`](super::Folder::save).
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
    pub(super) step: u64,
    pub(super) state: &'a T,
    pub(super) position: Option<Position>,
    pub(super) notes: BTreeMap<String, serde_json::Value>,
    /// Notes that could not be written.
    wrong: Vec<String>,
}

impl<'a, T: Tree> Snapshot<'a, T> {
    /// The arrays of `state` (model, optimizer's state, random keys: any tree) after `step` steps.
    pub fn new(step: u64, state: &'a T) -> Snapshot<'a, T> {
        let (notes, wrong) = (BTreeMap::new(), Vec::new());
        Snapshot { step, state, position: None, notes, wrong }
    }

    /// Where the training data stands: the [`position`](crate::data::Stream::position) behind the batch
    /// of the step. Streams besides this one go into notes.
    #[cfg(feature = "data")]
    #[must_use]
    pub fn position(mut self, position: Position) -> Snapshot<'a, T> {
        self.position = Some(position);
        self
    }

    /// A small value of your own: whatever serde writes as JSON. Numbers come back exactly; NaN and the
    /// infinities, which JSON lacks, as nothing: an `Option` of a float reads them as `None`.
    #[must_use]
    pub fn note(mut self, name: &str, value: &impl Serialize) -> Snapshot<'a, T> {
        match serde_json::to_value(value) {
            Ok(value) => drop(self.notes.insert(name.to_owned(), value)),
            Err(error) => self.wrong.push(format!("note `{name}`: {error}")),
        }
        self
    }

    /// Refuses notes that cannot be written.
    pub(super) fn expect_sound(&self, path: &Path) -> Result<(), Error> {
        match self.wrong.is_empty() {
            true => Ok(()),
            false => Err(refused(path, self.wrong.join("\n  "))),
        }
    }
}

/// A run as it was after some step: what [`Folder::restore_latest`](super::Folder::restore_latest) gives.
#[derive(Debug)]
#[non_exhaustive]
pub struct Restored<T> {
    /// How many steps had been made.
    pub step: u64,
    /// The arrays, in the template's structure.
    pub state: T,
    /// The position of the training data, if it was saved.
    #[cfg(feature = "data")]
    pub position: Option<Position>,
    /// Why newer checkpoints were passed over, the newest first: they are damaged.
    pub passed_over: Vec<Error>,
    pub(super) path: PathBuf,
    pub(super) notes: BTreeMap<String, serde_json::Value>,
}

impl<T> Restored<T> {
    /// A value that was saved with [`Snapshot::note`].
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if there is none of this name, or it is of another type.
    pub fn note<V: DeserializeOwned>(&self, name: &str) -> Result<V, Error> {
        let Some(value) = self.notes.get(name) else {
            let names: Vec<String> = self.notes.keys().map(|name| format!("`{name}`")).collect();
            let there = if names.is_empty() { "no note".into() } else { names.join(", ") };
            return Err(refused(
                &self.path,
                format!("there is no note `{name}`, there is {there}"),
            ));
        };
        V::deserialize(value)
            .map_err(|error| refused(&self.path, format!("note `{name}` is {value}: {error}")))
    }
}
