//! [`Error`]: the reason why bytes are not a module.

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The bytes are not a portable artifact of StableHLO, or one that this version cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("StableHLO bytecode, byte {offset}: {message}")]
pub struct Error {
    /// The position of the part that is wrong.
    pub offset: usize,
    /// The problem.
    pub message: String,
}

impl Error {
    pub(crate) fn at(offset: usize, message: impl Into<String>) -> Error {
        Error { offset, message: message.into() }
    }
}
