//! Views of an array's elements without a copy, and arrays that share memory of the host.

#[cfg(feature = "ndarray")]
mod ndarray;
mod view;

pub use view::HostElements;
