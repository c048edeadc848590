//! [`Error`]: the reason why bytes are not an exported function.

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The bytes are not a function that `jax.export` has serialized, or one that this version cannot
/// read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("exported function, byte {offset}: {message}")]
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
