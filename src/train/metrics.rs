//! Numbers by step, written to files as the device delivers them.

use super::events::Events;
use super::files::{Csv, JsonLines, OWN};
use super::history::History;
use super::number::Metric;
use crate::core::Error;
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// How many steps may wait for their numbers before writing waits for the oldest.
const MOST_WAITING: usize = 1024;

/// A file that takes the numbers of a step.
pub(super) trait Sink: Send {
    fn row(&mut self, row: &Row) -> Result<(), Error>;
    fn flush(&mut self) -> Result<(), Error>;
}

/// The numbers of one step, and when they were handed over, in seconds since 1970.
pub(super) struct Row {
    pub(super) step: u64,
    pub(super) time: f64,
    pub(super) values: Vec<(Arc<str>, f64)>,
}

/// Writes down numbers by step: to CSV, to JSON lines, to TensorBoard's event files, to several at once.
///
/// Arrays are read when the device has them, at a later call, so that the loop never waits for a number; a
/// step is written once all of its numbers are there, in the order of steps. What was written is also kept in
/// memory, for a [`chart`](History::chart) at the end.
///
/// ```no_run
/// use oxidax::prelude::*;
/// use oxidax::train::Metrics;
/// let mut metrics = Metrics::new().csv("metrics.csv", ["loss", "accuracy"])?.jsonl("metrics.jsonl")?;
/// let loss = full([], 0.5f32);
/// metrics.scalar(0, "loss", &loss)?;
/// metrics.scalar(0, "rate", 1e-3)?; // No column of the CSV file, so in the other alone.
/// metrics.finish()?;
/// # Ok::<(), Error>(())
/// ```
///
/// Dropped, it writes what it can without waiting, and errors are lost: call [`finish`](Metrics::finish).
#[doc(alias = "SummaryWriter")]
#[derive(Default)]
pub struct Metrics {
    sinks: Vec<Box<dyn Sink>>,
    first_step: u64,
    /// Steps of which something is not there yet, and the step that is being filled.
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
    /// Writes nothing yet.
    pub fn new() -> Metrics {
        Metrics::default()
    }

    /// Goes on from a step: files that are opened after this call keep what they have of earlier steps and lose
    /// the rest, which the run before wrote after the checkpoint that is resumed.
    pub fn from_step(mut self, step: u64) -> Metrics {
        self.first_step = step;
        self
    }

    /// Writes a CSV file: `step`, `seconds` since 1970, and the named columns. A number that a step lacks leaves
    /// its field empty; names that are no column are left out.
    ///
    /// # Errors
    /// `Io` if the file cannot be written; `Data` if a file to be resumed has other columns, or a damaged row
    /// before the step.
    pub fn csv<N: Into<String>>(
        mut self,
        path: impl AsRef<Path>,
        columns: impl IntoIterator<Item = N>,
    ) -> Result<Metrics, Error> {
        let columns = columns.into_iter().map(Into::into).collect();
        self.sinks.push(Box::new(Csv::open(path.as_ref(), columns, self.first_step)?));
        Ok(self)
    }

    /// Writes JSON lines: an object of `step`, `seconds` since 1970, and every number of the step. NaN and
    /// infinities, which JSON lacks, are the strings `"NaN"`, `"Infinity"`, `"-Infinity"`.
    ///
    /// # Errors
    /// `Io` if the file cannot be written; `Data` if a file to be resumed has a damaged line before the step.
    pub fn jsonl(mut self, path: impl AsRef<Path>) -> Result<Metrics, Error> {
        self.sinks.push(Box::new(JsonLines::open(path.as_ref(), self.first_step)?));
        Ok(self)
    }

    /// Writes an event file of TensorBoard's into a folder. A name with slashes, `train/loss`, is grouped by its
    /// first part. One that resumes makes TensorBoard forget the steps from there on in the folder's other files.
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

    /// Takes a number of a step: a number, or an array of one element. Writes what has arrived of the steps
    /// before.
    ///
    /// # Errors
    /// `Data` if the step lies before the last one or has the name already, or the array is traced or not one
    /// real number; `Runtime` if the computation of an earlier number failed; `Io` if a file cannot be written.
    #[doc(alias = "add_scalar")]
    pub fn scalar(&mut self, step: u64, name: &str, value: impl Into<Metric>) -> Result<(), Error> {
        let value = value.into().checked("scalar", name)?;
        let last = self.waiting.back().map(|row| row.step).or(self.history.last_step());
        let refused = |what: String| Err(Error::data("scalar", what));
        if OWN.contains(&name) {
            return refused(format!("`{name}` is written beside every number: take another name"));
        }
        match last {
            Some(last) if step < last => {
                return refused(format!("`{name}` of step {step} comes after step {last}"));
            }
            None if step < self.first_step => {
                let first = self.first_step;
                return refused(format!("`{name}` of step {step} lies before {first}, the first"));
            }
            _ => {}
        }
        let name = self.name(name);
        match self.waiting.back_mut().filter(|row| row.step == step) {
            Some(row) if row.values.iter().any(|(known, _)| *known == name) => {
                return refused(format!("step {step} has a `{name}` already"));
            }
            Some(row) => row.values.push((name, value)),
            // It was written by `flush`.
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

    /// One name for all steps.
    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.iter().find(|known| ***known == *name) {
            return known.clone();
        }
        self.names.push(name.into());
        self.names[self.names.len() - 1].clone()
    }

    /// Writes steps that are complete and there; waits only if too many are not.
    fn write_ready(&mut self) -> Result<(), Error> {
        // The last one may get more numbers.
        while self.waiting.len() > 1 {
            let first = &self.waiting[0];
            let is_late = self.waiting.len() > MOST_WAITING;
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

    /// Waits for every number and writes them all to the files. The last step takes no more.
    ///
    /// # Errors
    /// `Runtime` if the computation of a number failed; `Io` if a file cannot be written.
    pub fn flush(&mut self) -> Result<(), Error> {
        while !self.waiting.is_empty() {
            self.write_first()?;
        }
        self.sinks.iter_mut().try_for_each(|sink| sink.flush())
    }

    /// What has been written so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Waits for every number, writes them all, and gives them back.
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
            // Whoever wants to know calls `finish`.
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
