//! TensorBoard event files.

use super::log_file::ObjectLog;
use super::metrics::{Row, Sink};
use super::{io_error, local_path, make_parent, object_at};
use crate::core::Error;
use crate::data::{TfRecordWriter, framed};
use oxidax_proto::{Message, messages};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

messages! {
    /// Field numbers of `tensorflow/core/util/event.proto`.
    pub(super) struct Event {
        pub(super) wall_time: f64 = 1,
        pub(super) step: i64 = 2,
        ; pub(super) what: Option<What>
    }

    pub(super) oneof enum What {
        FileVersion(String) = 3,
        Summary(Summary) = 5,
        SessionLog(SessionLog) = 7,
    }

    pub(super) struct Summary {
        pub(super) value: Vec<SummaryValue> = 1,
    }

    pub(super) struct SummaryValue {
        pub(super) tag: String = 1,
        ; pub(super) value: Option<ScalarValue>
    }

    /// A choice, so that a 0 is written too.
    pub(super) oneof enum ScalarValue {
        Simple(f32) = 2,
    }

    pub(super) struct SessionLog {
        /// 1 means START: TensorBoard discards events of this and later steps from other files.
        pub(super) status: i32 = 1,
    }
}

const START: i32 = 1;

/// Size in bytes from which the events of an object store go on in another object.
const PART: usize = 1 << 20;

pub(super) struct Events {
    /// The folder, and the name of the first file.
    folder: PathBuf,
    name: String,
    target: Target,
}

enum Target {
    Local {
        path: PathBuf,
        writer: TfRecordWriter,
    },
    /// Objects cannot be appended to, so events are written in numbered objects. Only the last one
    /// is written again as it grows. TensorBoard reads them in the order of their names, and reads
    /// on where it stopped when an object has grown.
    Object {
        log: ObjectLog,
        number: u32,
    },
}

impl Events {
    pub(super) fn create(folder: &Path, first_step: u64) -> Result<Events, Error> {
        // Distinguishes two files of one process in one second.
        static FILES: AtomicU32 = AtomicU32::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let seconds = seconds();
        let name = format!(
            "events.out.tfevents.{:010}.oxidax.{}.{number}",
            seconds as u64,
            std::process::id()
        );
        let target = match object_at(folder)? {
            Some(_) => part(folder, &name, 0)?,
            None => {
                let path = local_path(folder)?.join(&name);
                make_parent(&path)?;
                Target::Local { writer: TfRecordWriter::create(&path)?, path }
            }
        };
        let mut events = Events { folder: folder.to_path_buf(), name, target };
        events.write_version()?;
        if first_step > 0 {
            events.write(seconds, first_step, What::SessionLog(SessionLog { status: START }))?;
        }
        events.flush()?;
        Ok(events)
    }

    /// Every file begins with this event.
    fn write_version(&mut self) -> Result<(), Error> {
        self.write(seconds(), 0, What::FileVersion("brain.Event:2".to_owned()))
    }

    fn write(&mut self, wall_time: f64, step: u64, what: What) -> Result<(), Error> {
        let step = i64::try_from(step).map_err(|_| {
            Error::data("tensorboard", format!("step {step} is beyond {}, the largest", i64::MAX))
        })?;
        let event = Event { wall_time, step, what: Some(what) }.encode_to_vec();
        match &mut self.target {
            Target::Local { writer, .. } => writer.write(&event),
            Target::Object { log, number } => {
                log.append(&framed(&event))?;
                if log.len() < PART {
                    return Ok(());
                }
                // TensorBoard leaves an object when there is a later one, so it is complete first.
                log.flush()?;
                let next = *number + 1;
                self.target = part(&self.folder, &self.name, next)?;
                self.write_version()
            }
        }
    }
}

/// Starts a numbered object of events.
fn part(folder: &Path, name: &str, number: u32) -> Result<Target, Error> {
    let path = folder.join(format!("{name}.{number:06}"));
    let object = object_at(&path)?.ok_or_else(|| {
        io_error(&path, std::io::Error::other("the folder is not in an object store"))
    })?;
    Ok(Target::Object { log: ObjectLog::new(object, Vec::new()), number })
}

fn seconds() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

impl Sink for Events {
    fn row(&mut self, row: &Row) -> Result<(), Error> {
        let value = |(name, value): &(std::sync::Arc<str>, f64)| SummaryValue {
            tag: name.to_string(),
            value: Some(ScalarValue::Simple(*value as f32)),
        };
        let summary = Summary { value: row.values.iter().map(value).collect() };
        self.write(row.time, row.step, What::Summary(summary))
    }

    fn flush(&mut self) -> Result<(), Error> {
        match &mut self.target {
            Target::Local { path, writer } => writer.flush().map_err(|error| match error {
                Error::Io { source, .. } => io_error(path, source),
                other => other,
            }),
            Target::Object { log, .. } => log.flush(),
        }
    }
}
