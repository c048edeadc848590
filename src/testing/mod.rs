//! Checks of primitives, public so that users can run them on their own primitives.
//!
//! [`check_primitive`] checks every law on a primitive's exemplars. The laws compare numbers, so
//! they need a plugin.

mod axes;
mod derivatives;
mod dtypes;
mod edges;
mod extremes;
mod jobs;
mod laws;
mod narrow;
mod numbers;
mod structure;
mod subject;

pub use dtypes::{Variant, check_dtypes, joined, variants};
pub use edges::is_elementwise;
pub use extremes::{ExtremeCase, extreme_cases};
pub use laws::{check_exemplar, check_primitive};
pub use numbers::{Numbers, numbers, sample};
