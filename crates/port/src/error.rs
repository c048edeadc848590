//! Errors of reading a traced function and of writing Rust.

/// An error of `oxidax port`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The file is not one that `port.py` writes.
    #[error("{place}: {problem}\n  help: write the file again with `python port.py`")]
    File {
        /// The part of the file.
        place: String,
        /// The problem, with numbers.
        problem: String,
    },
    /// A newer or older format.
    #[error(
        "the file has version {found}, this command reads version {expected}\n  help: use the \
             `port.py` that belongs to this version of oxidax"
    )]
    Version {
        /// The version of the file.
        found: u64,
        /// The version that is read.
        expected: u64,
    },
    /// An operation or a form of it that has no translation yet.
    #[error("{primitive}: {problem}\n   --> {line}\n  help: {help}")]
    Unsupported {
        /// The primitive of JAX.
        primitive: String,
        /// The reason.
        problem: String,
        /// The Python line, with its text.
        line: String,
        /// The remedy.
        help: String,
    },
}

impl PortError {
    pub(crate) fn file(place: impl Into<String>, problem: impl Into<String>) -> PortError {
        PortError::File { place: place.into(), problem: problem.into() }
    }
}

/// Why an equation cannot be written; the caller adds the primitive and the line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Obstacle(pub(crate) String);

impl Obstacle {
    pub(crate) fn new(problem: impl Into<String>) -> Obstacle {
        Obstacle(problem.into())
    }
}
