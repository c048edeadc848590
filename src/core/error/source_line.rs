//! [`SourceLine`]: a line of a file, without the column.

use super::loc::Loc;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A line of user code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SourceLine {
    /// The file, as named by the Rust compiler.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl SourceLine {
    pub(crate) fn of(loc: Loc) -> Option<SourceLine> {
        loc.get().map(|position| SourceLine { file: position.file().into(), line: position.line() })
    }
}

impl fmt::Display for SourceLine {
    /// Writes `file:line`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
