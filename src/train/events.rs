//! TensorBoard event files.

use super::metrics::{Row, Sink};
use super::{io_error, make_parent};
use crate::core::Error;
use crate::data::TfRecordWriter;
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
        pub(super) simple_value: f32 = 2,
    }

    pub(super) struct SessionLog {
        /// 1 means START: TensorBoard discards events of this and later steps from other files.
        pub(super) status: i32 = 1,
    }
}

const START: i32 = 1;

pub(super) struct Events {
    path: PathBuf,
    writer: TfRecordWriter,
}

impl Events {
    pub(super) fn create(folder: &Path, first_step: u64) -> Result<Events, Error> {
        // Distinguishes two files of one process in one second.
        static FILES: AtomicU32 = AtomicU32::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let seconds = since.map_or(0.0, |since| since.as_secs_f64());
        let name = format!(
            "events.out.tfevents.{:010}.oxidax.{}.{number}",
            seconds as u64,
            std::process::id()
        );
        let path = folder.join(name);
        make_parent(&path)?;
        let mut events = Events { writer: TfRecordWriter::create(&path)?, path };
        let version = What::FileVersion("brain.Event:2".to_owned());
        events.write(seconds, 0, version)?;
        if first_step > 0 {
            events.write(seconds, first_step, What::SessionLog(SessionLog { status: START }))?;
        }
        events.flush()?;
        Ok(events)
    }

    fn write(&mut self, wall_time: f64, step: u64, what: What) -> Result<(), Error> {
        let step = i64::try_from(step).map_err(|_| {
            Error::data("tensorboard", format!("step {step} is beyond {}, the largest", i64::MAX))
        })?;
        self.writer.write(&Event { wall_time, step, what: Some(what) }.encode_to_vec())
    }
}

impl Sink for Events {
    fn row(&mut self, row: &Row) -> Result<(), Error> {
        let value = |(name, value): &(std::sync::Arc<str>, f64)| SummaryValue {
            tag: name.to_string(),
            simple_value: *value as f32,
        };
        let summary = Summary { value: row.values.iter().map(value).collect() };
        self.write(row.time, row.step, What::Summary(summary))
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.writer.flush().map_err(|error| match error {
            Error::Io { source, .. } => io_error(&self.path, source),
            other => other,
        })
    }
}
