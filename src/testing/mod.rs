//! Checks for primitives and functions, public so that users can run them on their own.
//!
//! [`check_primitive`] runs every law of the house on a primitive's exemplars. They compare numbers,
//! so they need a plugin.

mod axes;
mod derivatives;
mod dtypes;
mod edges;
mod jobs;
mod laws;
mod narrow;
mod numbers;
mod structure;
mod subject;

pub use dtypes::{Variant, check_dtypes, joined, variants};
pub use edges::is_elementwise;
pub use laws::{check_exemplar, check_primitive};
pub use numbers::{Numbers, numbers, sample};
