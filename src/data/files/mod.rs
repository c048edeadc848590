//! Files, wherever they lie: named, found by pattern, read by position, and told of when damaged.

mod file;
mod reader;
#[cfg(feature = "remote")]
mod remote;

pub use file::{File, files};
pub(super) use file::{Handle, io_error};
pub(super) use reader::{Packing, Reader};
#[cfg(feature = "remote")]
pub use remote::Bucket;
