//! Arrays on devices and in host memory.

pub(crate) mod array;
pub(crate) mod backend;
pub(crate) mod capture;
mod display;
pub(crate) mod elements;
pub(crate) mod host_array;
mod host_slices;
mod npy;
mod refused_operators;

pub(crate) use array::Kind;
pub use array::{Array, Buffer};
pub use backend::Backend;
pub(crate) use backend::backend;
pub use elements::{ArrayData, NestedElements};
pub use host_array::HostArray;
