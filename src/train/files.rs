//! Metrics as CSV and JSON Lines files.

use super::metrics::{Row, Sink};
use super::{io_error, make_parent};
use crate::core::Error;
use serde_json::{Map, Value};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Columns that every row has.
pub(super) const BASE_COLUMNS: [&str; 2] = ["step", "seconds"];

/// Renames the file of another run to the first free name with a number.
fn put_aside(path: &Path) -> Result<(), Error> {
    if !path.exists() {
        return Ok(());
    }
    if path.is_dir() {
        return Err(io_error(path, std::io::ErrorKind::IsADirectory.into()));
    }
    let numbered = |n: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{n}"));
        PathBuf::from(name)
    };
    let free = (1..).map(numbered).find(|name| !name.exists());
    let free = free.expect("a free number exists");
    std::fs::rename(path, free).map_err(|error| io_error(path, error))
}

/// Opens a file for writing from `first_step` on. Keeps lines of earlier steps, determined by
/// `step_of`, and the first line if it `is_header`.
fn open(
    path: &Path,
    first_step: u64,
    is_header: impl Fn(&str) -> Result<bool, String>,
    step_of: impl Fn(&str) -> Option<u64>,
) -> Result<(BufWriter<File>, bool), Error> {
    let io = |error| io_error(path, error);
    make_parent(path)?;
    if first_step == 0 {
        put_aside(path)?;
        return Ok((BufWriter::new(File::create(path).map_err(io)?), true));
    }
    let old = match File::open(path) {
        Ok(old) => BufReader::new(old),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok((BufWriter::new(File::create(path).map_err(io)?), true));
        }
        Err(error) => return Err(io(error)),
    };
    let damaged = |line: usize, what: &str| Error::Data {
        doing: "resume".into(),
        place: Some(format!("{}:{}", path.display(), line + 1)),
        message: what.to_owned(),
        help: Some("repair the line, or move the file away".into()),
    };
    // The old file stays until the new one is complete.
    let mut name = path.as_os_str().to_owned();
    name.push(".resumed");
    let next = PathBuf::from(name);
    let mut writer = BufWriter::new(File::create(&next).map_err(io)?);
    let (mut is_empty, mut torn) = (true, None);
    for (number, line) in old.split(b'\n').enumerate() {
        // A line truncated by a kill is the last one.
        if let Some(torn) = torn {
            return Err(damaged(torn, "the line has no step"));
        }
        let line = line.map_err(io)?;
        let Ok(line) = std::str::from_utf8(&line) else {
            torn = Some(number);
            continue;
        };
        if number == 0 && is_header(line).map_err(|what| damaged(0, &what))? {
        } else {
            match step_of(line) {
                Some(step) if step < first_step => {}
                Some(_) => break,
                None => {
                    torn = Some(number);
                    continue;
                }
            }
        }
        writeln!(writer, "{line}").map_err(io)?;
        is_empty = false;
    }
    let file = writer.into_inner().map_err(|error| io(error.into_error()))?;
    file.sync_all().map_err(io)?;
    std::fs::rename(&next, path).map_err(io)?;
    let file = OpenOptions::new().append(true).open(path).map_err(io)?;
    Ok((BufWriter::new(file), is_empty))
}

pub(super) struct Csv {
    path: PathBuf,
    columns: Vec<String>,
    writer: csv::Writer<BufWriter<File>>,
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
    writer: BufWriter<File>,
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
