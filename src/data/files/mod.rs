//! Files on disks, in memory and in object stores: naming, finding, reading, and errors.

mod file;
mod reader;
#[cfg(feature = "remote")]
mod remote;

pub use file::{File, files};
pub(super) use file::{Handle, io_error, storage_error};
pub(super) use reader::{Packing, Reader};
#[cfg(feature = "remote")]
pub use remote::Bucket;
