//! What surrounds a training loop: progress, metrics on disk, curves, and ways to stop.
//!
//! None of it owns the loop. Numbers are handed over as arrays and read when the device has them, so that
//! watching a run does not slow it down.
//!
//! ```no_run
//! use oxidax::prelude::*;
//! use oxidax::train::{Interrupt, Metrics, NanGuard, Progress};
//!
//! # fn run(step: Jit<(Array, Array), (Array, Array)>, batches: Vec<Array>) -> Result<(), Error> {
//! let interrupt = Interrupt::catch()?;
//! let mut metrics = Metrics::new().csv("run/metrics.csv", ["loss"])?.tensorboard("run")?;
//! let mut progress = Progress::new(batches.len() as u64);
//! let mut guard = NanGuard::new("run/nan.safetensors");
//! let mut model = zeros([784, 10], DType::F32);
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
mod canvas;
mod chart;
mod events;
mod files;
mod history;
mod interrupt;
mod metrics;
mod nan_guard;
mod number;
mod progress;

pub use chart::{Chart, Scale};
pub use history::History;
pub use interrupt::Interrupt;
pub use metrics::Metrics;
pub use nan_guard::NanGuard;
pub use number::Metric;
pub use progress::{Pace, Progress};

use crate::core::Error;
use std::io;
use std::path::Path;

fn io_error(path: &Path, source: io::Error) -> Error {
    Error::Io { path: path.to_path_buf(), source }
}

/// Makes the folder in which a file is to lie.
fn make_parent(path: &Path) -> Result<(), Error> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => {
            std::fs::create_dir_all(folder).map_err(|error| io_error(folder, error))
        }
        _ => Ok(()),
    }
}
