//! The processes that save and restore together.

use super::fault::{Fault, Read, refused};
use crate::core::Error;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// The processes that save and restore together. All of them take the same steps in the same order.
pub(super) trait Group: Send + Sync {
    /// Returns the index of this process.
    fn index(&self) -> usize;

    /// Returns the number of processes.
    fn count(&self) -> usize;

    /// Returns the name of a process for messages.
    fn name(&self, index: usize) -> String;

    /// Sends a message to all processes and waits for theirs, in the order of the processes.
    ///
    /// # Errors
    /// `Distributed` if a process died or does not arrive in time.
    fn exchange(&self, message: Vec<u8>) -> Result<Vec<Vec<u8>>, Error>;
}

pub(super) type SharedGroup = Arc<dyn Group>;

/// A single process.
struct Solo;

impl Group for Solo {
    fn index(&self) -> usize {
        0
    }

    fn count(&self) -> usize {
        1
    }

    fn name(&self, _index: usize) -> String {
        "this process".into()
    }

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<Vec<u8>>, Error> {
        Ok(vec![message])
    }
}

/// A group of this process alone.
pub(super) fn solo() -> SharedGroup {
    Arc::new(Solo)
}

/// Returns the processes of this program, for saving into `folder`.
#[cfg(not(feature = "distributed"))]
pub(super) fn processes(_folder: &Path) -> SharedGroup {
    solo()
}

/// Returns the processes of this program, for saving into `folder`.
#[cfg(feature = "distributed")]
pub(super) fn processes(folder: &Path) -> SharedGroup {
    use crate::distributed::{is_initialized, process_count};
    if process_count() > 1 && is_initialized() { cluster::open(folder) } else { solo() }
}

#[cfg(feature = "distributed")]
mod cluster {
    use super::{Error, Group, Path, SharedGroup};
    use crate::distributed::{exchange_bytes, process_count, process_index, process_names};
    use std::collections::BTreeMap;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex, PoisonError};

    /// All processes of the program.
    struct Cluster {
        /// Prefix of the names of exchanges.
        prefix: String,
        next: AtomicU64,
    }

    /// Numbers the openings of a folder, so that a late process of an earlier opening does not meet
    /// the processes of a later one.
    static OPENINGS: Mutex<BTreeMap<PathBuf, u64>> = Mutex::new(BTreeMap::new());

    pub(super) fn open(folder: &Path) -> SharedGroup {
        let mut openings = OPENINGS.lock().unwrap_or_else(PoisonError::into_inner);
        let opening = openings.entry(folder.to_path_buf()).or_default();
        *opening += 1;
        let prefix = format!("checkpoints in {}, opening {opening}", folder.display());
        Arc::new(Cluster { prefix, next: AtomicU64::new(0) })
    }

    impl Group for Cluster {
        fn index(&self) -> usize {
            process_index()
        }

        fn count(&self) -> usize {
            process_count()
        }

        fn name(&self, index: usize) -> String {
            process_names().get(index).cloned().unwrap_or_else(|| format!("process {index}"))
        }

        fn exchange(&self, message: Vec<u8>) -> Result<Vec<Vec<u8>>, Error> {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            exchange_bytes(&format!("{}, exchange {number}", self.prefix), &message)
        }
    }
}

/// The outcome of a stage on one process.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Report<T> {
    /// The stage, which must be the same on all processes.
    stage: String,
    outcome: Result<T, Failure>,
}

#[derive(Serialize, Deserialize)]
struct Failure {
    text: String,
    damage: bool,
}

/// Exchanges the outcomes of a stage. If it failed on a process, it fails on all of them, with the
/// error of the first such process.
pub(super) fn agree<T: Serialize + DeserializeOwned>(
    group: &dyn Group,
    path: &Path,
    stage: &str,
    outcome: Result<T, Error>,
) -> Result<Vec<T>, Error> {
    agree_on_read(group, path, stage, outcome.map_err(Fault::from)).map_err(Error::from)
}

/// As [`agree`]. Damage found by one process is damage for all, unless another process has another
/// error.
pub(super) fn agree_on_read<T: Serialize + DeserializeOwned>(
    group: &dyn Group,
    path: &Path,
    stage: &str,
    outcome: Read<T>,
) -> Read<Vec<T>> {
    if group.count() == 1 {
        return outcome.map(|value| vec![value]);
    }
    let (outcome, mut own) = match outcome {
        Ok(value) => (Ok(value), None),
        Err(fault) => {
            let failure = Failure { text: fault.error.to_string(), damage: fault.damage };
            (Err(failure), Some(fault))
        }
    };
    let report = serde_json::to_vec(&Report { stage: stage.to_owned(), outcome })
        .map_err(|error| refused(path, format!("{stage}: {error}")))?;
    let all = match group.exchange(report) {
        Ok(all) => all,
        Err(error) => {
            // Its cause may be that the others have given up.
            if let Some(own) = own {
                tracing::error!(error = %own.error, "{stage} failed, and others were not told");
            }
            return Err(error.into());
        }
    };
    let mut values = Vec::with_capacity(all.len());
    let mut failures = Vec::new();
    for (index, report) in all.iter().enumerate() {
        let wrong = |what: String| {
            let help = "all processes must call the methods of `Folder` in the same order, with \
                        the same steps";
            refused(path, format!("{stage}: {} {what}\n  help: {help}", group.name(index)))
        };
        let report: Report<T> = match serde_json::from_slice(report) {
            Ok(report) => report,
            Err(error) => match serde_json::from_slice::<Report<serde_json::Value>>(report) {
                Ok(other) => return Err(wrong(format!("is at `{}` instead", other.stage)).into()),
                Err(_) => return Err(wrong(format!("sent an invalid report: {error}")).into()),
            },
        };
        if report.stage != stage {
            return Err(wrong(format!("is at `{}` instead", report.stage)).into());
        }
        match report.outcome {
            Ok(value) => values.push(value),
            Err(failure) => failures.push((index, failure)),
        }
    }
    let serious = failures.iter().position(|(_, failure)| !failure.damage).unwrap_or(0);
    if failures.is_empty() {
        return Ok(values);
    }
    let (index, failure) = failures.swap_remove(serious);
    if index == group.index()
        && let Some(own) = own.take()
    {
        return Err(own);
    }
    let error = refused(path, format!("{stage}, on {}: {}", group.name(index), failure.text));
    Err(Fault { error, damage: failure.damage })
}
