//! Metrics as CSV and JSON Lines files.

use super::io_error;
use super::log_file::{LogFile, open};
use super::metrics::{Row, Sink};
use crate::core::Error;
use serde_json::{Map, Value};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Columns that every row has.
pub(super) const BASE_COLUMNS: [&str; 2] = ["step", "seconds"];

pub(super) struct Csv {
    path: PathBuf,
    columns: Vec<String>,
    writer: csv::Writer<LogFile>,
}

impl Csv {
    pub(super) fn open(path: &Path, columns: Vec<String>, first_step: u64) -> Result<Csv, Error> {
        let names = BASE_COLUMNS.iter().map(|own| (*own).to_owned()).chain(columns.iter().cloned());
        let mut names: Vec<String> = names.collect();
        if let Some(twice) = (1..names.len()).find(|&at| names[..at].contains(&names[at])) {
            let message = format!("{} would have two columns `{}`", path.display(), names[twice]);
            return Err(Error::data("csv", message));
        }
        let is_header = |line: &str| match fields(line) {
            Some(found) if found == names => Ok(true),
            found => {
                let found = found.unwrap_or_default().join(", ");
                Err(format!("the columns are [{found}], to be resumed as [{}]", names.join(", ")))
            }
        };
        let n_columns = names.len();
        let step_of = |line: &str| {
            let fields = fields(line)?;
            // A truncated line has fewer fields.
            if fields.len() == n_columns { fields[0].parse().ok() } else { None }
        };
        let (writer, is_empty) = open(path, first_step, is_header, step_of)?;
        let mut writer = csv::WriterBuilder::new().from_writer(writer);
        if is_empty {
            let header = writer.write_record(&names);
            header.map_err(|error| io_error(path, error.into()))?;
        }
        names.drain(..BASE_COLUMNS.len());
        Ok(Csv { path: path.to_path_buf(), columns: names, writer })
    }
}

/// Splits a line into fields. Names and numbers contain no line ends.
fn fields(line: &str) -> Option<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
    let record = reader.records().next()?.ok()?;
    Some(record.iter().map(str::to_owned).collect())
}

impl Sink for Csv {
    fn row(&mut self, row: &Row) -> Result<(), Error> {
        let of = |column: &String| {
            let found = row.values.iter().find(|(name, _)| **name == **column);
            found.map(|(_, value)| value.to_string()).unwrap_or_default()
        };
        let own = [row.step.to_string(), format!("{:.3}", row.time)];
        let record = own.into_iter().chain(self.columns.iter().map(of));
        self.writer.write_record(record).map_err(|error| io_error(&self.path, error.into()))
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.writer.flush().map_err(|error| io_error(&self.path, error))
    }
}

pub(super) struct JsonLines {
    path: PathBuf,
    writer: LogFile,
}

impl JsonLines {
    pub(super) fn open(path: &Path, first_step: u64) -> Result<JsonLines, Error> {
        let step_of = |line: &str| {
            let object: Map<String, Value> = serde_json::from_str(line).ok()?;
            object.get("step")?.as_u64()
        };
        let (writer, _) = open(path, first_step, |_| Ok(false), step_of)?;
        Ok(JsonLines { path: path.to_path_buf(), writer })
    }
}

/// Converts a number to JSON. Non-finite numbers become strings.
fn json(value: f64) -> Value {
    let name = match value {
        _ if value.is_nan() => "NaN",
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => return value.into(),
    };
    name.into()
}

impl Sink for JsonLines {
    fn row(&mut self, row: &Row) -> Result<(), Error> {
        let mut object = Map::new();
        object.insert("step".into(), row.step.into());
        // Milliseconds are precise enough.
        object.insert("seconds".into(), ((row.time * 1e3).round() / 1e3).into());
        for (name, value) in &row.values {
            object.insert(name.to_string(), json(*value));
        }
        writeln!(self.writer, "{}", Value::Object(object))
            .map_err(|error| io_error(&self.path, error))
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.writer.flush().map_err(|error| io_error(&self.path, error))
    }
}
