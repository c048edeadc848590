//! Tests that start processes: several processes that communicate, and measurements of a whole
//! process. Each process is this test binary, started again for one test.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

mod alone;
#[cfg(unix)]
mod caching;
mod damaged_checkpoints;
mod damaged_data;
mod damaged_programs;
#[cfg(feature = "distributed")]
mod distributed;
mod eager;
mod memory;
mod options;
mod platforms;
mod precision;
mod recordings;
#[cfg(feature = "remote")]
mod stores;
#[cfg(feature = "train")]
mod watchdog;
