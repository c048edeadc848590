//! The recorded results: lines of JSON in a file.

use super::steps::{Devices, Step};
use anyhow::Context as _;
use oxidax::doctor::Report;
use oxidax::prelude::*;
use oxidax::roofline::{Exchange, Prediction};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The result of one step on one topology.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub step: String,
    pub about: String,
    /// Batch over all devices.
    pub batch: usize,
    pub unit: String,
    pub topology: String,
    pub devices: usize,
    /// libtpu's build.
    pub libtpu: String,
    /// A hash of the StableHLO module.
    pub program: String,

    /// The date of compilation, UTC.
    pub date: String,
    pub mesh: Option<String>,
    /// `None` if compilation failed.
    pub fits: Option<bool>,
    /// Bytes per device: needed, available, and by kind.
    pub needed: u64,
    pub available: Option<u64>,
    pub memory: BTreeMap<String, u64>,
    /// FLOPs of a step over all devices.
    pub flops: u64,
    pub collectives: Option<String>,
    /// The exchanges of the compiled program. `None` on one device, and in rows that are older
    /// than this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchanges: Option<Vec<Exchange>>,
    pub prediction: Option<Predicted>,
    pub compile_seconds: f64,
    /// The error, if the row is incomplete.
    pub error: Option<String>,
}

/// The roofline's prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Step time if everything overlaps.
    pub seconds: f64,
    /// Step time if nothing overlaps.
    pub serial_seconds: f64,
    pub bound: String,
    /// In `0..=1`.
    pub mfu: f64,
}

impl From<&Prediction> for Predicted {
    fn from(prediction: &Prediction) -> Predicted {
        Predicted {
            seconds: prediction.seconds,
            serial_seconds: prediction.serial_seconds,
            bound: prediction.bound.to_string(),
            mfu: prediction.mfu,
        }
    }
}

impl Row {
    /// Returns a row with the fields that are known before compilation.
    pub fn new_row(
        step: &Step,
        batch: usize,
        devices_of_step: Devices<'_>,
        topology: &Topology,
        text: &str,
    ) -> Result<Row, Error> {
        Ok(Row {
            step: step.name.into(),
            about: step.about.into(),
            batch,
            unit: step.unit.into(),
            topology: topology.name().into(),
            devices: devices_of_step.devices(),
            // The first line describes the devices.
            libtpu: topology.platform_version()?.lines().next_back().unwrap_or_default().into(),
            program: program_hash(text),
            ..Row::default()
        })
    }

    /// Returns true if program, devices and compiler are equal.
    fn is_of(&self, other: &Row) -> bool {
        let key = |row: &Row| {
            let Row { step, about, batch, topology, devices, libtpu, program, .. } = row.clone();
            (step, about, batch, topology, devices, libtpu, program)
        };
        key(self) == key(other)
    }

    /// Returns true for a row of a slice that is older than [`Row::exchanges`].
    pub fn lacks_exchanges(&self) -> bool {
        self.devices > 1 && self.fits == Some(true) && self.exchanges.is_none()
    }

    pub fn finished(self, examined: Result<Report, Error>) -> Row {
        let new_row = Row { date: today(), ..self };
        let report = match examined {
            Ok(report) => report,
            Err(error) => return Row { error: Some(first_lines(&error.to_string())), ..new_row },
        };
        // Exchanges are known only if the program compiled.
        let prediction = report.prediction.as_ref().filter(|_| report.fits);
        let exchanges = prediction.filter(|_| report.devices > 1);
        let exchanges = exchanges
            .map(|prediction| merged(prediction.exchanges.iter().map(|timed| &timed.exchange)));
        let memory = report.memory.iter().map(|share| (share.kind.name().into(), share.bytes));
        Row {
            mesh: report.mesh,
            fits: Some(report.fits),
            needed: report.needed,
            available: report.available,
            memory: memory.collect(),
            flops: report.flops,
            collectives: report.collectives,
            exchanges,
            prediction: prediction.map(Predicted::from),
            compile_seconds: (report.compile_seconds * 10.0).round() / 10.0,
            error: report.too_large.as_deref().map(first_lines),
            ..new_row
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { step, batch, unit, topology, devices, compile_seconds, .. } = self;
        write!(f, "{step}, {batch} {unit}, {devices} of {topology}: ")?;
        match (&self.error, &self.prediction) {
            (Some(error), _) => write!(f, "{error}")?,
            (None, Some(Predicted { seconds, mfu, bound, .. })) => {
                write!(f, "{:.2} ms, MFU {:.0} %, {bound}, ", seconds * 1e3, mfu * 100.0)?;
                write!(f, "{:.2} GiB", gib(self.needed))?;
            }
            (None, None) => write!(f, "{:.2} GiB", gib(self.needed))?,
        }
        write!(f, "; {compile_seconds:.1} s")
    }
}

/// Returns exchanges with equal ones as one that runs more often.
pub fn merged<'a>(exchanges: impl Iterator<Item = &'a Exchange>) -> Vec<Exchange> {
    let mut merged: Vec<Exchange> = Vec::new();
    for exchange in exchanges {
        let equal = |other: &&mut Exchange| {
            Exchange { times: exchange.times, ..(*other).clone() } == *exchange
        };
        match merged.iter_mut().find(equal) {
            Some(other) => other.times += exchange.times,
            None => merged.push(exchange.clone()),
        }
    }
    merged
}

pub fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// Returns the lines of an error message that state the problem.
fn first_lines(message: &str) -> String {
    message.lines().take(2).collect::<Vec<_>>().join(" ")
}

/// The rows in a file.
pub struct Rows {
    rows: Vec<Row>,
    file: File,
    path: PathBuf,
}

impl Rows {
    /// Opens or creates a file. An incomplete last line, from an interrupted run, is dropped.
    pub fn open(path: &Path) -> anyhow::Result<Rows> {
        let file_name = || path.display().to_string();
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(path)
            .with_context(file_name)?;
        let text = std::io::read_to_string(&mut file).with_context(file_name)?;
        let replicated = text.rfind('\n').map_or("", |end| &text[..=end]);
        if replicated.len() < text.len() {
            file.set_len(replicated.len() as u64).with_context(file_name)?;
        }
        let row = |(at, line)| {
            serde_json::from_str(line).with_context(|| format!("{}, line {}", file_name(), at + 1))
        };
        let rows = replicated.lines().enumerate().map(row).collect::<anyhow::Result<_>>()?;
        Ok(Rows { rows, file, path: path.to_owned() })
    }

    /// Returns the row with the same program, devices and compiler, if it records everything that
    /// its prediction follows from.
    pub fn find(&self, row: &Row) -> Option<&Row> {
        self.rows.iter().find(|known| known.is_of(row) && !known.lacks_exchanges())
    }

    pub fn add(&mut self, row: Row) -> anyhow::Result<&Row> {
        let line = serde_json::to_string(&row)? + "\n";
        self.file.write_all(line.as_bytes()).context("writing a row")?;
        self.file.sync_data().context("writing a row")?;
        self.rows.push(row);
        Ok(&self.rows[self.rows.len() - 1])
    }

    /// Returns the newest row of a step on these devices.
    pub fn newest_of(&self, step: &str, topology: &str, devices: usize) -> Option<&Row> {
        let is_of =
            |row: &&Row| row.step == step && row.topology == topology && row.devices == devices;
        self.rows.iter().rev().find(is_of)
    }

    /// Replaces the newest row with the same program, devices and compiler, and writes the file
    /// again.
    pub fn replace(&mut self, row: Row) -> anyhow::Result<()> {
        if let Some(known) = self.rows.iter_mut().rev().find(|known| known.is_of(&row)) {
            *known = row;
        }
        let mut text = String::new();
        for row in &self.rows {
            text += &serde_json::to_string(row)?;
            text.push('\n');
        }
        let new = self.path.with_extension("new");
        std::fs::write(&new, text).context("writing the rows")?;
        std::fs::rename(&new, &self.path).context("writing the rows")?;
        let reopened = OpenOptions::new().append(true).open(&self.path);
        self.file = reopened.context("opening the rows")?;
        Ok(())
    }

    /// Returns the rows without those that a later row of the same step and devices replaces.
    pub fn newest(&self) -> Vec<&Row> {
        let key = |row: &Row| (row.step.clone(), row.batch, row.topology.clone(), row.devices);
        let is_last = |(at, row): &(usize, &Row)| {
            self.rows[at + 1..].iter().all(|later| key(later) != key(row))
        };
        self.rows.iter().enumerate().filter(is_last).map(|(_, row)| row).collect()
    }
}

/// Returns the hash of a module: 64-bit FNV-1a (Fowler, Noll, Vo 1991), which does not change
/// between Rust releases.
pub fn program_hash(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Returns the date in UTC as `2026-11-22`.
fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // Days since 1 March of year 0, so that leap days end a year (Hinnant, "chrono-compatible
    // low-level date algorithms").
    let days = seconds / 86400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{}-{month:02}-{day:02}", era * 400 + year + next)
}
