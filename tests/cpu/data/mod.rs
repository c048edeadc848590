//! Input pipelines: items, resuming, and bad records.

mod archives;
mod arrow;
mod bad_records;
mod caches;
mod error_lines;
mod formats;
mod on_cpu;
mod packing;
mod pipelines;
#[cfg(feature = "remote")]
mod remote;
mod resume;
mod support;
