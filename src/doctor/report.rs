//! [`Report`]: what was found.

use super::advice::Advice;
use super::fit::Fitted;
use super::memory::MemoryUse;
use crate::roofline::{Prediction, SourceLine};
use serde::Serialize;

/// What a step does on the devices that it was examined for. Prints as a page, and serializes.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The step's name.
    pub step: String,
    /// What it was compiled for.
    pub topology: String,
    /// What the plugin calls a device of it.
    pub device: String,
    /// The mesh that it runs over: `Mesh(data=4, model=4)`; `None` for one device.
    pub mesh: Option<String>,
    /// How many devices it runs on.
    pub devices: usize,
    /// Whether it fits into the memory of a device.
    pub fits: bool,
    /// Bytes that it needs on a device.
    pub needed: u64,
    /// Bytes that programs may use of a device's memory; `None` where the plugin does not say.
    pub available: Option<u64>,
    /// The bytes on a device by what they are for. Of a step that does not fit only the arguments, and an estimate of the activations.
    pub memory: Vec<MemoryUse>,
    /// Why it does not fit: by how much, what fills the memory, which lines made it.
    pub too_large: Option<String>,
    /// How long the compiler took, in seconds.
    pub compile_seconds: f64,
    /// FLOPs of a step, on all devices together, counted on the program.
    pub flops: u64,
    /// How long a step takes at best, and what bounds it; `None` if the device is not in the table.
    pub prediction: Option<Prediction>,
    /// What the compiled program sends from device to device, by kind.
    pub collectives: Option<String>,
    /// The lines that take longest, the longest first.
    pub lines: Vec<Line>,
    /// What to change.
    pub advice: Vec<Advice>,
    /// What [`fit`](super::fit()) found, if it was asked.
    pub fitted: Option<Fitted>,
}

/// A line of the user's source, and what it costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Line {
    /// Where; `None` for operations that no line made.
    pub place: Option<SourceLine>,
    /// The line's text, where the file can be read.
    pub text: Option<String>,
    /// Seconds on each device, at best; `None` if the device is not in the table.
    pub seconds: Option<f64>,
    /// Its part of the sum over all lines, from 0 to 1: of the seconds, or else of the FLOPs.
    pub share: f64,
    /// FLOPs on all devices together.
    pub flops: u64,
    /// Bytes read and written on all devices together, fused.
    pub bytes: u64,
    /// The operation that costs most in it.
    pub operation: String,
}

impl Report {
    /// The report as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self)
            .unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"))
    }
}
