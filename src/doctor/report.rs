//! [`Report`]: the result of an examination.

use super::advice::Advice;
use super::fit::Fitted;
use super::memory::MemoryUse;
use crate::profile::LineProfile;
use crate::roofline::{Prediction, SourceLine, TimedCollective};
use serde::Serialize;

/// Memory, time and advice for a step on a topology. Prints as a page, and serializes.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The name of the step.
    pub step: String,
    /// The topology that it was compiled for.
    pub topology: String,
    /// The kind of device, as named by the plugin.
    pub device: String,
    /// The mesh, such as `Mesh(data=4, model=4)`. `None` for one device.
    pub mesh: Option<String>,
    /// The number of devices.
    pub devices: usize,
    /// The step fits into the memory of a device.
    pub fits: bool,
    /// Bytes that the step needs on a device.
    pub needed: u64,
    /// Bytes that the step needs in host memory for each device.
    pub host_needed: u64,
    /// Bytes of device memory that programs can use. `None` if the plugin does not report it.
    pub available: Option<u64>,
    /// Bytes on a device by kind. For a step that does not fit, only the arguments and an estimate
    /// of the activations.
    pub memory: Vec<MemoryUse>,
    /// The reason why it does not fit: the excess, the largest values, and their source lines.
    pub too_large: Option<String>,
    /// The time of compilation in seconds.
    pub compile_seconds: f64,
    /// FLOPs of a step on all devices, counted on the program.
    pub flops: u64,
    /// The least time of a step and its bottleneck. `None` if the device is not in the table.
    pub prediction: Option<Prediction>,
    /// The collectives of the compiled program, by kind.
    pub collectives: Option<String>,
    /// The collectives with their lines, causes and predicted times, the longest first. Empty for
    /// one device, and for a step that does not fit.
    pub movements: Vec<TimedCollective>,
    /// The most expensive source lines, the most expensive first.
    pub lines: Vec<Line>,
    /// The predicted time of each line, for viewers of profiles. `None` if the device is not in the
    /// table.
    #[serde(skip)]
    pub predicted: Option<LineProfile>,
    /// Suggested changes.
    pub advice: Vec<Advice>,
    /// The result of [`fit`](super::fit()), if it was requested.
    pub fitted: Option<Fitted>,
}

/// A line of user code and its cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Line {
    /// The line. `None` for operations without a source location.
    pub place: Option<SourceLine>,
    /// The text of the line, if the file can be read.
    pub text: Option<String>,
    /// The least seconds on a device. `None` if the device is not in the table.
    pub seconds: Option<f64>,
    /// The fraction of the sum over all lines: of the seconds, or of the FLOPs without a device.
    pub share: f64,
    /// FLOPs on all devices.
    pub flops: u64,
    /// Bytes read and written on all devices, after fusion.
    pub bytes: u64,
    /// The most expensive operation of the line.
    pub operation: String,
}

impl Report {
    /// Returns the report as a page: one HTML file with the figures, the advice and the sections of
    /// [`profile::report_html`](crate::profile::report_html) for the predicted step.
    ///
    /// ```no_run
    /// use oxidax::{doctor, prelude::*};
    /// let step = jit(|w: Array, x: Array| x.matmul(&w));
    /// let (w, x) = (Aval::new(DType::BF16, [4096, 4096]), Aval::new(DType::BF16, [64, 4096]));
    /// let report = doctor::examine(&step.lower(w, x)?, &Topology::named("v5e:1x1")?)?;
    /// std::fs::write("doctor.html", report.to_html())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_html(&self) -> String {
        super::page::html(self)
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self)
            .unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"))
    }
}
