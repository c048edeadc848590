//! Input pipelines: what they give, that they go on where they stood, and what becomes of bad records.

mod bad_records;
mod formats;
mod on_cpu;
mod pipelines;
#[cfg(feature = "remote")]
mod remote;
mod resume;
mod support;
