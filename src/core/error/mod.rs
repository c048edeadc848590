//! Errors, source locations, and throwing.

pub(crate) mod error;
pub(crate) mod loc;
mod manual;
mod named_scope;
mod no_collectives;
pub(crate) mod recompilation;
mod scope_path;
mod source_line;
pub(crate) mod throw;

pub use error::{
    DistributedErrorKind, Error, OpError, OpErrorKind, RuleError, RuleResult, TracerError,
    TreeError,
};
pub use loc::Loc;
pub use named_scope::named_scope;
pub use no_collectives::no_collectives;
pub use recompilation::{CompileLimit, Recompilation, RecompilationCause, SealedError};
pub(crate) use scope_path::Derivation;
pub use source_line::SourceLine;
pub use throw::{catch, throw};
