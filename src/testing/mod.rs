//! Checks of primitives, public so that users can run them on their own primitives, and of the
//! derivatives of users' functions.
//!
//! [`check_grads`] compares the derivatives of a function with differences.
//! [`check_primitive`] checks every law on a primitive's exemplars. The laws compare numbers, so
//! they need a plugin.

mod axes;
mod derivatives;
mod dtypes;
mod edges;
mod extremes;
mod gradients;
mod jobs;
mod laws;
mod narrow;
mod numbers;
mod structure;
mod subject;

pub use dtypes::{Variant, check_dtypes, joined, variants};
pub use edges::is_elementwise;
pub use extremes::{ExtremeCase, extreme_cases};
pub use gradients::{CheckGradsOptions, check_grads, check_grads_with, check_jvp, check_vjp};
pub use laws::{check_exemplar, check_primitive};
pub use numbers::{Numbers, numbers, sample};
