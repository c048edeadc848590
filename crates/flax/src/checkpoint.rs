//! Checkpoints of a training run that are kept by a metric.
//!
//! [`CheckpointManager`] has the names of Orbax and stores its checkpoints in a
//! [`Folder`], which documents the format and its guarantees.
//!
//! ```
//! use oxidax::prelude::*;
//! use oxidax_flax::checkpoint::{CheckpointManager, CheckpointManagerOptions};
//! # let directory = tempfile::tempdir().expect("a temporary folder");
//! let options = CheckpointManagerOptions::new().max_to_keep(2);
//! let options = options.best_metric("loss").lowest_is_best();
//! let mut manager = CheckpointManager::new(directory.path(), options)?;
//! let mut weights = zeros([3]);
//! for (step, loss) in [(1, 0.5), (2, 0.1), (3, 0.4), (4, 0.3)] {
//!     weights = weights + 1.0;
//!     manager.save(step, &weights, &[("loss", loss)])?;
//! }
//! manager.wait_until_finished()?;
//! assert_eq!(manager.all_steps()?, [2, 4]);
//! assert_eq!(manager.best_step()?, Some(2));
//! let restored = manager.restore(2, &weights)?;
//! assert_eq!(restored.to_vec::<f32>()?, [2.0; 3]);
//! # Ok::<(), oxidax::Error>(())
//! ```

mod handlers;

use handlers::IndexEntry;
pub use handlers::{
    ArrayCheckpointHandler, CheckpointHandler, CheckpointItems, ItemContents,
    JsonCheckpointHandler, KeyCheckpointHandler, StandardCheckpointHandler, StoredItem,
};
use oxidax::checkpoint::{Folder, Snapshot};
use oxidax::prelude::*;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The note of a checkpoint that holds its metrics.
const METRICS: &str = "metrics";

/// The note of a checkpoint that lists its items.
const ITEMS: &str = "items";

type Metrics = BTreeMap<String, f64>;
type Score = Arc<dyn Fn(&Metrics) -> f64 + Send + Sync>;
type ShouldSave = Arc<dyn Fn(u64, Option<u64>) -> bool + Send + Sync>;

/// Options of a [`CheckpointManager`]. Without options every step is saved and kept.
#[derive(Clone, Default)]
pub struct CheckpointManagerOptions {
    max_to_keep: Option<usize>,
    keep_period: Option<u64>,
    keep_time_interval: Option<Duration>,
    save_interval_steps: Option<u64>,
    should_save: Option<ShouldSave>,
    best: Option<Score>,
    lowest_is_best: bool,
    save_dtype: Option<DType>,
    preemption: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl fmt::Debug for CheckpointManagerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointManagerOptions")
            .field("max_to_keep", &self.max_to_keep)
            .field("keep_period", &self.keep_period)
            .field("keep_time_interval", &self.keep_time_interval)
            .field("save_interval_steps", &self.save_interval_steps)
            .field("lowest_is_best", &self.lowest_is_best)
            .finish_non_exhaustive()
    }
}

impl CheckpointManagerOptions {
    /// Returns the default options.
    pub fn new() -> CheckpointManagerOptions {
        CheckpointManagerOptions::default()
    }

    /// Keeps this number of checkpoints: those of the best scores, or the newest ones without a
    /// score.
    #[must_use]
    pub fn max_to_keep(mut self, count: usize) -> CheckpointManagerOptions {
        self.max_to_keep = Some(count);
        self
    }

    /// Also keeps checkpoints whose step is a multiple of `steps`.
    #[must_use]
    pub fn keep_period(mut self, steps: u64) -> CheckpointManagerOptions {
        self.keep_period = Some(steps);
        self
    }

    /// Also keeps a checkpoint of this run for each interval of time.
    #[must_use]
    pub fn keep_time_interval(mut self, interval: Duration) -> CheckpointManagerOptions {
        self.keep_time_interval = Some(interval);
        self
    }

    /// Saves only steps that are a multiple of `steps`.
    #[must_use]
    pub fn save_interval_steps(mut self, steps: u64) -> CheckpointManagerOptions {
        self.save_interval_steps = Some(steps);
        self
    }

    /// Saves only steps for which a function of the step and the latest saved step returns true.
    #[doc(alias = "should_save_fn")]
    #[must_use]
    pub fn should_save(
        mut self,
        f: impl Fn(u64, Option<u64>) -> bool + Send + Sync + 'static,
    ) -> CheckpointManagerOptions {
        self.should_save = Some(Arc::new(f));
        self
    }

    /// Orders checkpoints by a score of their metrics. The highest is the best.
    #[must_use]
    pub fn best_fn(
        mut self,
        score: impl Fn(&BTreeMap<String, f64>) -> f64 + Send + Sync + 'static,
    ) -> CheckpointManagerOptions {
        self.best = Some(Arc::new(score));
        self
    }

    /// Orders checkpoints by one metric. A checkpoint without it is the worst.
    #[must_use]
    pub fn best_metric(self, name: &str) -> CheckpointManagerOptions {
        let name = name.to_owned();
        self.best_fn(move |metrics| metrics.get(&name).copied().unwrap_or(f64::NAN))
    }

    /// Stores float arrays in this dtype. They are restored in the dtype of the template.
    #[doc(alias = "SaveArgs")]
    #[must_use]
    pub fn save_dtype(mut self, dtype: DType) -> CheckpointManagerOptions {
        self.save_dtype = Some(dtype);
        self
    }

    /// Saves the next step in any case once a function returns true, such as
    /// `train::Interrupt::requested`, which notices that the machine is reclaimed.
    #[doc(alias = "reached_preemption")]
    #[must_use]
    pub fn preemption(
        mut self,
        requested: impl Fn() -> bool + Send + Sync + 'static,
    ) -> CheckpointManagerOptions {
        self.preemption = Some(Arc::new(requested));
        self
    }

    /// Takes the lowest score for the best one.
    #[doc(alias = "best_mode")]
    #[must_use]
    pub fn lowest_is_best(mut self) -> CheckpointManagerOptions {
        self.lowest_is_best = true;
        self
    }
}

/// The checkpoints of a training run, of which the best or the newest are kept.
///
/// A checkpoint is removed when a later one is safely stored.
pub struct CheckpointManager {
    folder: Folder,
    options: CheckpointManagerOptions,
    metrics: BTreeMap<u64, Metrics>,
    /// Steps that are kept by their time, and the time of the last one.
    timed: Vec<u64>,
    last_timed: Option<Instant>,
    /// The step that is being written.
    latest: Option<u64>,
}

impl CheckpointManager {
    /// Opens the folder of a run, creating it if necessary.
    ///
    /// # Errors
    /// As [`Folder::open`], and errors of reading the metrics of its checkpoints.
    pub fn new(
        directory: impl AsRef<Path>,
        options: CheckpointManagerOptions,
    ) -> Result<CheckpointManager, Error> {
        let folder = Folder::open(directory)?;
        let mut metrics = BTreeMap::new();
        let steps = folder.steps()?;
        for &step in &steps {
            // A damaged checkpoint does not have metrics, and is the worst.
            metrics.insert(step, folder.note(step, METRICS).ok().flatten().unwrap_or_default());
        }
        let latest = steps.last().copied();
        let (timed, last_timed) = (Vec::new(), None);
        Ok(CheckpointManager { folder, options, metrics, timed, last_timed, latest })
    }

    /// Returns true if the options ask for a checkpoint of this step.
    pub fn should_save(&self, step: u64) -> bool {
        if self.latest.is_some_and(|latest| latest >= step) {
            return false;
        }
        if self.reached_preemption() {
            return true;
        }
        let CheckpointManagerOptions { save_interval_steps, should_save, .. } = &self.options;
        save_interval_steps.is_none_or(|interval| step.is_multiple_of(interval.max(1)))
            && should_save.as_ref().is_none_or(|f| f(step, self.latest))
    }

    /// Returns true if the run is about to be ended: if the function of
    /// [`preemption`](CheckpointManagerOptions::preemption) returns true.
    pub fn reached_preemption(&self) -> bool {
        self.options.preemption.as_ref().is_some_and(|requested| requested())
    }

    /// Saves a checkpoint with its metrics, if [`should_save`](Self::should_save) returns true.
    /// Returns true if it was saved.
    ///
    /// Copies the arrays to the host and returns while a thread writes them.
    ///
    /// # Errors
    /// As [`Folder::save`], and errors of removing older checkpoints.
    #[track_caller]
    pub fn save<T: Tree>(
        &mut self,
        step: u64,
        state: &T,
        metrics: &[(&str, f64)],
    ) -> Result<bool, Error> {
        self.save_notes(step, state, None, metrics)
    }

    /// Saves a checkpoint of several items by name, each by its handler, as
    /// [`save`](Self::save) does for one tree.
    ///
    /// # Errors
    /// As [`save`](Self::save).
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax_flax::checkpoint::{
    ///     CheckpointItems, CheckpointManager, CheckpointManagerOptions, JsonCheckpointHandler,
    ///     KeyCheckpointHandler, StandardCheckpointHandler,
    /// };
    /// # let directory = tempfile::tempdir().expect("a temporary folder");
    /// let mut manager =
    ///     CheckpointManager::new(directory.path(), CheckpointManagerOptions::new())?;
    /// let model = nn::Linear::new(random::key(0), 3, 2);
    /// let state = StandardCheckpointHandler::new(model.clone());
    /// let config = JsonCheckpointHandler::<Vec<u32>>::new();
    /// let items = CheckpointItems::new()
    ///     .item("state", &state, &model)?
    ///     .item("config", &config, &vec![3, 2])?
    ///     .item("key", &KeyCheckpointHandler, &random::key(7))?;
    /// manager.save_items(1, items, &[])?;
    /// manager.wait_until_finished()?;
    /// assert_eq!(manager.item_names(1)?, ["config", "key", "state"]);
    /// assert_eq!(manager.restore_item(1, "config", &config)?, [3, 2]);
    /// let restored = manager.restore_item(1, "state", &state)?;
    /// assert_eq!(restored.weight.to_vec::<f32>()?, model.weight.to_vec::<f32>()?);
    /// let key = manager.restore_item(1, "key", &KeyCheckpointHandler)?;
    /// assert_eq!(key.data().to_vec::<u32>()?, [0, 7]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn save_items(
        &mut self,
        step: u64,
        items: CheckpointItems,
        metrics: &[(&str, f64)],
    ) -> Result<bool, Error> {
        let (arrays, index) = items.into_parts();
        self.save_notes(step, &arrays, Some(&index), metrics)
    }

    #[track_caller]
    fn save_notes<T: Tree>(
        &mut self,
        step: u64,
        state: &T,
        items: Option<&BTreeMap<String, IndexEntry>>,
        metrics: &[(&str, f64)],
    ) -> Result<bool, Error> {
        if !self.should_save(step) {
            return Ok(false);
        }
        // Older checkpoints are removed after the one before this is stored.
        self.folder.wait()?;
        self.prune()?;
        let metrics: Metrics =
            metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        // JSON does not have NaN and infinities.
        let stored: BTreeMap<&String, f64> =
            metrics.iter().filter(|(_, v)| v.is_finite()).map(|(name, v)| (name, *v)).collect();
        let narrow = self.options.save_dtype.map(|dtype| stored_as(state, dtype));
        let snapshot = Snapshot::new(step, narrow.as_ref().unwrap_or(state)).note(METRICS, &stored);
        self.folder.save(match items {
            Some(items) => snapshot.note(ITEMS, items),
            None => snapshot,
        })?;
        self.metrics.insert(step, metrics);
        self.latest = Some(step);
        let due = |interval: Duration| self.last_timed.is_none_or(|at| at.elapsed() >= interval);
        if self.options.keep_time_interval.is_some_and(due) {
            self.timed.push(step);
            self.last_timed = Some(Instant::now());
        }
        Ok(true)
    }

    /// Restores the arrays of a step in the structure of a template.
    ///
    /// # Errors
    /// As [`Folder::restore`].
    #[track_caller]
    pub fn restore<T: Tree>(&mut self, step: u64, template: &T) -> Result<T, Error> {
        let Some(dtype) = self.options.save_dtype else {
            return Ok(self.folder.restore(step, template)?.state);
        };
        let stored = self.folder.restore(step, &stored_as(template, dtype))?.state;
        Ok(tree::zip_map(&stored, template, |stored, leaf| stored.astype(leaf.dtype())))
    }

    /// Returns the names of a checkpoint's items, sorted; none if it was saved by
    /// [`save`](Self::save).
    ///
    /// # Errors
    /// As [`Folder::note`].
    #[doc(alias = "item_metadata")]
    pub fn item_names(&self, step: u64) -> Result<Vec<String>, Error> {
        Ok(self.index(step)?.into_keys().collect())
    }

    /// Restores one item of a checkpoint that was saved by [`save_items`](Self::save_items).
    /// The others are not read.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if the checkpoint does not have the item, and errors of the handler.
    #[track_caller]
    pub fn restore_item<H: CheckpointHandler>(
        &mut self,
        step: u64,
        name: &str,
        handler: &H,
    ) -> Result<H::Item, Error> {
        self.folder.wait()?;
        let (mut index, path) = (self.index(step)?, self.folder.path_of(step));
        let Some(entry) = index.remove(name) else {
            let names: Vec<String> = index.into_keys().collect();
            let message = format!("there is no item `{name}`; the items are {names:?}");
            return Err(Error::Checkpoint { path, message });
        };
        handler.restore(&StoredItem::new(path, name, entry))
    }

    fn index(&self, step: u64) -> Result<BTreeMap<String, IndexEntry>, Error> {
        Ok(self.folder.note(step, ITEMS)?.unwrap_or_default())
    }

    /// Returns the newest step that is stored, or `None`.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be read.
    pub fn latest_step(&self) -> Result<Option<u64>, Error> {
        Ok(self.folder.steps()?.last().copied())
    }

    /// Returns the stored step of the best score, or `None` without one. Of equal scores the newest
    /// is the best.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be read.
    pub fn best_step(&self) -> Result<Option<u64>, Error> {
        let scored = self.ranked(&self.folder.steps()?);
        let has_score = |step: &u64| self.score(*step).is_some_and(|score| !score.is_nan());
        Ok(scored.into_iter().next().filter(has_score))
    }

    /// Returns the stored steps, oldest first.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be read.
    pub fn all_steps(&self) -> Result<Vec<u64>, Error> {
        self.folder.steps()
    }

    /// Returns the metrics of a step, or `None` if it was not saved. NaN and infinities are missing
    /// after the folder was opened again.
    pub fn metrics(&self, step: u64) -> Option<&BTreeMap<String, f64>> {
        self.metrics.get(&step)
    }

    /// Removes the checkpoint of a step. Does nothing if there is none.
    ///
    /// # Errors
    /// As [`Folder::remove`].
    pub fn delete(&mut self, step: u64) -> Result<(), Error> {
        self.folder.remove(step)?;
        self.metrics.remove(&step);
        self.latest = self.latest_step()?;
        Ok(())
    }

    /// Waits until the last checkpoint is stored, and removes those that are not kept.
    ///
    /// # Errors
    /// Errors of the last save, and of removing checkpoints.
    pub fn wait_until_finished(&mut self) -> Result<(), Error> {
        self.folder.wait()?;
        self.prune()
    }

    /// Returns true while a checkpoint is being written.
    pub fn is_saving_in_progress(&self) -> bool {
        self.folder.is_saving()
    }

    /// Returns the folder of the checkpoints.
    pub fn folder(&mut self) -> &mut Folder {
        &mut self.folder
    }

    /// Waits for the last save and closes the folder.
    ///
    /// # Errors
    /// As [`wait_until_finished`](Self::wait_until_finished).
    pub fn close(mut self) -> Result<(), Error> {
        self.wait_until_finished()?;
        self.folder.close()
    }

    /// Removes the checkpoints that are not kept.
    fn prune(&mut self) -> Result<(), Error> {
        let Some(count) = self.options.max_to_keep else { return Ok(()) };
        let steps = self.folder.steps()?;
        for step in self.ranked(&steps).into_iter().skip(count) {
            let periodic =
                self.options.keep_period.is_some_and(|period| step.is_multiple_of(period.max(1)));
            if !periodic && !self.timed.contains(&step) {
                self.folder.remove(step)?;
                self.metrics.remove(&step);
            }
        }
        Ok(())
    }

    /// Returns the score of a step, with the highest as the best.
    fn score(&self, step: u64) -> Option<f64> {
        let score = self.options.best.as_ref()?(self.metrics.get(&step)?);
        Some(if self.options.lowest_is_best { -score } else { score })
    }

    /// Returns steps in the order in which they are kept: by score, then the newest.
    fn ranked(&self, steps: &[u64]) -> Vec<u64> {
        let key = |step: u64| self.score(step).filter(|score| !score.is_nan());
        let mut ranked = steps.to_vec();
        ranked.sort_by(|&a, &b| match (key(a), key(b)) {
            (Some(x), Some(y)) => y.total_cmp(&x).then(b.cmp(&a)),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => b.cmp(&a),
        });
        ranked
    }
}

/// Converts the float leaves to a dtype.
#[track_caller]
fn stored_as<T: Tree>(state: &T, dtype: DType) -> T {
    tree::map(state, |leaf| match leaf.dtype().is_float() {
        true => leaf.astype(dtype),
        false => leaf.clone(),
    })
}
