//! Tools for training loops: progress, metrics on disk, pictures, and ways to stop.
//!
//! [`Chart`], [`Bars`] and [`PictureGrid`] draw SVG and PNG files.
//!
//! You write the loop. These tools take numbers as arrays and read them when the device has
//! computed them, so monitoring does not slow down a run.
//!
//! ```no_run
//! use oxidax::prelude::*;
//! use oxidax::train::{Interrupt, Metrics, NanGuard, ProgressBar};
//!
//! # type Step<'f> = Jit<'f, (Array, Array), (Array, Array)>;
//! # fn run(step: Step<'_>, batches: Vec<Array>) -> Result<(), Error> {
//! let interrupt = Interrupt::catch()?;
//! let mut metrics = Metrics::new().csv("run/metrics.csv", ["loss"])?.tensorboard("run")?;
//! let mut progress = ProgressBar::new(batches.len() as u64);
//! let mut guard = NanGuard::new("run/nan.safetensors");
//! let mut model = zeros([784, 10]);
//! for (number, batch) in batches.into_iter().enumerate() {
//!     let inputs = (model.clone(), batch.clone());
//!     let loss;
//!     (model, loss) = step.call(model, batch)?;
//!     guard.check(number as u64, inputs, &loss)?;
//!     metrics.scalar(number as u64, "loss", &loss)?;
//!     progress.inc(&loss)?;
//!     if interrupt.requested() {
//!         break;
//!     }
//! }
//! guard.finish()?;
//! progress.finish()?;
//! let history = metrics.finish()?;
//! history.chart("Training", ["loss"]).save("run/loss.svg")?;
//! checkpoint::save("run/model.safetensors", &model)
//! # }
//! ```

mod bar;
mod bars;
mod canvas;
mod chart;
mod events;
mod files;
mod history;
mod interrupt;
mod log_file;
mod metric;
mod metrics;
mod nan_guard;
mod peers;
mod picture_grid;
mod progress;
mod utilization;
mod watchdog;

pub use bars::Bars;
pub use chart::{Chart, Scale};
pub use history::History;
pub use interrupt::Interrupt;
pub use metric::Metric;
pub use metrics::Metrics;
pub use nan_guard::NanGuard;
pub use peers::ProcessProgress;
pub use picture_grid::PictureGrid;
pub use progress::{Pace, ProgressBar};
pub use utilization::{StepWork, Utilization};
pub use watchdog::{OnStall, STALLED, Stall, Watchdog, WatchdogOptions};

use crate::core::Error;
use oxidax_storage::{Location, Storage, StoragePath};
use std::io;
use std::path::{Path, PathBuf};

fn io_error(path: &Path, source: io::Error) -> Error {
    Error::io(path, source)
}

fn storage_error(error: oxidax_storage::Error) -> Error {
    io_error(&PathBuf::from(error.location()), error.without_location())
}

/// Returns the path as one of an object store, or `None` for a local path.
fn object_at(path: &Path) -> Result<Option<StoragePath>, Error> {
    if !Location::is_address(path) {
        return Ok(None);
    }
    let path = Storage::from_env().at(path).map_err(storage_error)?;
    Ok(path.as_local().is_none().then_some(path))
}

/// Returns a local path, decoded if it is a `file://` address.
fn local_path(path: &Path) -> Result<PathBuf, Error> {
    match Location::parse(path).map_err(storage_error)? {
        Location::Local(local) => Ok(local),
        Location::Object { .. } => Ok(path.to_path_buf()),
    }
}

/// Writes a whole file or object.
fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if let Some(object) = object_at(path)? {
        return object.write(bytes).map_err(storage_error);
    }
    let path = local_path(path)?;
    make_parent(&path)?;
    std::fs::write(&path, bytes).map_err(|error| io_error(&path, error))
}

/// Creates the parent folder of a file.
fn make_parent(path: &Path) -> Result<(), Error> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => {
            std::fs::create_dir_all(folder).map_err(|error| io_error(folder, error))
        }
        _ => Ok(()),
    }
}
