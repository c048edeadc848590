//! Metrics by step, written to files when the device delivers them.

use super::events::Events;
use super::files::{BASE_COLUMNS, Csv, JsonLines};
use super::history::History;
use super::metric::Metric;
use crate::core::Error;
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Number of pending steps from which writing waits for the oldest.
const MAX_PENDING_STEPS: usize = 1024;

/// A file that receives the metrics of a step.
pub(super) trait Sink: Send {
    fn row(&mut self, row: &Row) -> Result<(), Error>;
    fn flush(&mut self) -> Result<(), Error>;
}

/// The metrics of one step, and their time in seconds since 1970.
pub(super) struct Row {
    pub(super) step: u64,
    pub(super) time: f64,
    pub(super) values: Vec<(Arc<str>, f64)>,
}

/// Writes metrics by step to CSV, JSON Lines and TensorBoard event files, or several of them.
///
/// Arrays are read in a later call, when the device has computed them, so the loop never waits. A
/// step is written when all its numbers are available, in the order of steps. Everything written is
/// also kept in memory, for a [`chart`](History::chart) at the end.
///
/// ```no_run
/// use oxidax::prelude::*;
/// use oxidax::train::Metrics;
/// let metrics = Metrics::new().csv("metrics.csv", ["loss", "accuracy"])?;
/// let mut metrics = metrics.jsonl("metrics.jsonl")?;
/// let loss = full([], 0.5f32);
/// metrics.scalar(0, "loss", &loss)?;
/// metrics.scalar(0, "rate", 1e-3)?; // No column of the CSV file, so in the other alone.
/// metrics.finish()?;
/// # Ok::<(), Error>(())
/// ```
///
/// Dropping it writes what is available without waiting, and ignores errors. Call
/// [`finish`](Metrics::finish) instead.
#[doc(alias = "Learner")]
#[doc(alias = "SummaryWriter")]
#[derive(Default)]
pub struct Metrics {
    sinks: Vec<Box<dyn Sink>>,
    first_step: u64,
    /// Steps with pending numbers, and the current step.
    waiting: VecDeque<Waiting>,
    names: Vec<Arc<str>>,
    history: History,
}

struct Waiting {
    step: u64,
    time: f64,
    values: Vec<(Arc<str>, Metric)>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metrics({} files, {} steps waiting)", self.sinks.len(), self.waiting.len())
    }
}

impl Metrics {
    /// Creates metrics without files.
    pub fn new() -> Metrics {
        Metrics::default()
    }

    /// Resumes at a step. Files opened after this call keep earlier steps and lose later ones,
    /// which the previous run wrote after its checkpoint.
    pub fn from_step(mut self, step: u64) -> Metrics {
        self.first_step = step;
        self
    }

    /// Writes a CSV file with the columns `step`, `seconds` since 1970, and the named ones. A
    /// missing number leaves its field empty. Other names are left out.
    ///
    /// # Errors
    /// `Io` if the file cannot be written. `Data` if a resumed file has other columns, or a damaged
    /// row before the step.
    pub fn csv<N: Into<String>>(
        mut self,
        path: impl AsRef<Path>,
        columns: impl IntoIterator<Item = N>,
    ) -> Result<Metrics, Error> {
        let columns = columns.into_iter().map(Into::into).collect();
        self.sinks.push(Box::new(Csv::open(path.as_ref(), columns, self.first_step)?));
        Ok(self)
    }

    /// Writes a JSON Lines file: objects with `step`, `seconds` since 1970, and every number of the
    /// step. NaN and infinities, which JSON does not have, are the strings `"NaN"`, `"Infinity"`,
    /// `"-Infinity"`.
    ///
    /// # Errors
    /// `Io` if the file cannot be written. `Data` if a resumed file has a damaged line before the
    /// step.
    pub fn jsonl(mut self, path: impl AsRef<Path>) -> Result<Metrics, Error> {
        self.sinks.push(Box::new(JsonLines::open(path.as_ref(), self.first_step)?));
        Ok(self)
    }

    /// Writes a TensorBoard event file to a folder. TensorBoard groups names with slashes, such as
    /// `train/loss`, by their first part. After resuming, TensorBoard discards later steps from the
    /// folder's other files.
    ///
    /// # Errors
    /// `Io` if the file cannot be written.
    ///
    /// # Reference
    /// `tensorflow/core/util/event.proto` and `tensorflow/core/framework/summary.proto`.
    pub fn tensorboard(mut self, folder: impl AsRef<Path>) -> Result<Metrics, Error> {
        self.sinks.push(Box::new(Events::create(folder.as_ref(), self.first_step)?));
        Ok(self)
    }

    /// Adds a number of a step: a number, or an array of one element. Writes earlier steps that are
    /// available.
    ///
    /// # Errors
    /// `Data` if the step is before the last one or has the name already, or if the array is traced
    /// or not a single real number. `Runtime` if the computation of an earlier number failed. `Io`
    /// if a file cannot be written.
    #[doc(alias = "add_scalar")]
    pub fn scalar(&mut self, step: u64, name: &str, value: impl Into<Metric>) -> Result<(), Error> {
        let value = value.into().checked("scalar", name)?;
        let last = self.waiting.back().map(|row| row.step).or(self.history.last_step());
        let refused = |what: String| Err(Error::data("scalar", what));
        if BASE_COLUMNS.contains(&name) {
            return refused(format!("`{name}` is a column of every row; use another name"));
        }
        match last {
            Some(last) if step < last => {
                return refused(format!("`{name}` of step {step} comes after step {last}"));
            }
            None if step < self.first_step => {
                let first = self.first_step;
                return refused(format!(
                    "`{name}` of step {step} is before the first step, {first}"
                ));
            }
            _ => {}
        }
        let name = self.name(name);
        match self.waiting.back_mut().filter(|row| row.step == step) {
            Some(row) if row.values.iter().any(|(known, _)| *known == name) => {
                return refused(format!("step {step} has a `{name}` already"));
            }
            Some(row) => row.values.push((name, value)),
            // The step was written by `flush`.
            None if last == Some(step) => {
                return refused(format!("`{name}` of step {step} comes after its row was written"));
            }
            None => {
                let values = vec![(name, value)];
                self.waiting.push_back(Waiting { step, time: now(), values });
            }
        }
        self.write_ready()
    }

    /// Returns the shared copy of a name.
    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.iter().find(|known| ***known == *name) {
            return known.clone();
        }
        self.names.push(name.into());
        self.names[self.names.len() - 1].clone()
    }

    /// Writes complete steps. Waits only if too many are pending.
    fn write_ready(&mut self) -> Result<(), Error> {
        // The last step may get more numbers.
        while self.waiting.len() > 1 {
            let first = &self.waiting[0];
            let is_late = self.waiting.len() > MAX_PENDING_STEPS;
            if !is_late && !all_ready(&first.values)? {
                break;
            }
            self.write_first()?;
        }
        Ok(())
    }

    fn write_first(&mut self) -> Result<(), Error> {
        let Some(first) = self.waiting.pop_front() else { return Ok(()) };
        let values = first.values.into_iter().map(|(name, value)| Ok((name, value.read()?)));
        let values = values.collect::<Result<Vec<_>, Error>>()?;
        let row = Row { step: first.step, time: first.time, values };
        for sink in &mut self.sinks {
            sink.row(&row)?;
        }
        self.history.add(row);
        Ok(())
    }

    /// Waits for every number and writes them to the files. The last step accepts no more numbers.
    ///
    /// # Errors
    /// `Runtime` if the computation of a number failed. `Io` if a file cannot be written.
    pub fn flush(&mut self) -> Result<(), Error> {
        while !self.waiting.is_empty() {
            self.write_first()?;
        }
        self.sinks.iter_mut().try_for_each(|sink| sink.flush())
    }

    /// Returns the metrics written so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Waits for every number, writes them, and returns all of them.
    ///
    /// # Errors
    /// As [`flush`](Metrics::flush).
    pub fn finish(mut self) -> Result<History, Error> {
        self.flush()?;
        Ok(std::mem::take(&mut self.history))
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        while self.waiting.front().is_some_and(|row| all_ready(&row.values).unwrap_or(false)) {
            if self.write_first().is_err() {
                break;
            }
        }
        for sink in &mut self.sinks {
            // Errors are reported by `finish` only.
            drop(sink.flush());
        }
    }
}

fn all_ready(values: &[(Arc<str>, Metric)]) -> Result<bool, Error> {
    for (_, value) in values {
        if !value.is_ready()? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn now() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}
