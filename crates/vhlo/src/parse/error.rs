//! [`TextError`]: the reason why a text is not a module.

/// The text is not a StableHLO module, or one that this crate cannot write as an artifact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("StableHLO text, line {line}, column {column}: {message}")]
pub struct TextError {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in bytes.
    pub column: usize,
    /// The problem.
    pub message: String,
}

impl TextError {
    /// Creates an error at a position of the text, in bytes.
    pub(super) fn at(text: &str, at: usize, message: impl Into<String>) -> TextError {
        let before = &text.as_bytes()[..at.min(text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        TextError { line, column: 1 + before.len() - start, message: message.into() }
    }
}
