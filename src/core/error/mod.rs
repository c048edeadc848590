//! Errors, source locations, and throwing.

pub(crate) mod error;
pub(crate) mod loc;
mod manual;
pub(crate) mod throw;

pub use error::{
    DistributedErrorKind, Error, OpError, OpErrorKind, RuleError, RuleResult, TracerError,
    TreeError,
};
pub use loc::Loc;
pub use throw::{catch, throw};
