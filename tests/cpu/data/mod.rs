//! Input pipelines: items, resuming, and bad records.

mod bad_records;
mod formats;
mod on_cpu;
mod pipelines;
#[cfg(feature = "remote")]
mod remote;
mod resume;
mod support;
